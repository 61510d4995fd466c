"""`watersmeet enrich` on files, on a directory that is watched, and on standard input."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
import types
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from tests.local.inputs import PATIENCE_S, sides
from tests.local.oracle import expected, rows_of
from tests.local.waiting import until
from watersmeet.cli.__main__ import main
from watersmeet.local.arriving import Watched

STREAM, MASTER = sides(2_000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stream").mkdir()
    pq.write_table(STREAM, tmp_path / "stream" / "1.parquet")
    pq.write_table(MASTER, tmp_path / "master.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def enrich(*arguments: str, stream: str = "stream", master: str = "master.parquet") -> int:
    return main(["enrich", stream, master, *arguments])


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_files_are_enriched(how: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert enrich("--on", "k", "--how", how, "-o", "out.parquet") == 0
    assert rows_of(pq.read_table("out.parquet")) == expected(STREAM, MASTER, how)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "read 2,000 and 2,000 rows" in told.err


def test_the_version_is_a_column_and_the_summary_is_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(MASTER.rename_columns(["key", "b"]), "renamed.parquet")
    options = ["--on", "k=key", "--version-column", "version", "--memory", "2MB", "--json"]
    assert enrich(*options, "--explain", "--threads", "2", master="renamed.parquet") == 0
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert list(summary["columns"]) == ["k", "a", "key", "b", "version"]
    assert summary["rows"] == expected(STREAM, MASTER).total()
    assert summary["metrics"]["cache_hits"] >= 0
    assert "MESHJOIN" in told.err


def test_standard_input_is_lines_of_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in STREAM.to_pylist())
    buffer = io.BytesIO(lines.encode())
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=buffer))
    assert enrich("--on", "k", "-o", "-", stream="-") == 0
    table = csv.read_csv(pa.BufferReader(capsysbinary.readouterr().out))
    assert rows_of(table) == expected(STREAM, MASTER)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_directory_is_watched_until_a_signal_and_no_row_is_lost(
    number: signal.Signals, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[Watched] = []
    before = signal.getsignal(number)

    def watch(path: str) -> Watched:
        watched.append(Watched(Path(path), 0.01))
        return watched[0]

    monkeypatch.setattr("watersmeet.local.watch", watch)
    main_thread = threading.main_thread().ident or 0

    def later() -> None:
        try:
            until(lambda: bool(watched) and watched[0].files_read == 1)
            pq.write_table(STREAM, folder / "stream" / "_2.parquet")
            (folder / "stream" / "_2.parquet").rename(folder / "stream" / "2.parquet")
            until(lambda: watched[0].files_read == 2)
        finally:  # Else the stream would have no end, nor would the test.
            signal.pthread_kill(main_thread, number)

    thread = threading.Thread(target=later)
    thread.start()
    assert enrich("--on", "k", "--watch", "-o", "out.parquet") == 0
    thread.join(PATIENCE_S)
    assert rows_of(pq.read_table("out.parquet")) == expected(
        pa.concat_tables([STREAM, STREAM]), MASTER
    )
    assert signal.getsignal(number) is before


WRONG = [
    (["--on", "nope"], "stream input has no column 'nope'"),
    (["--on", "k=nope"], "master input has no column 'nope'"),
    ([], "--on does not say which rows"),
    (["--on", "k", "--how", "full"], "how='full'"),
    (["--on", "k", "--algorithm", "rpj"], "algorithm='rpj'"),
    (["--on", "k", "--memory", "1KB"], "Give at least 1MB"),
    (["--on", "k", "--refresh", "soon"], "'soon' is no span of time"),
    (["--on", "k", "--deadline", "-1 second"], "no length of time"),
    (["--on", "k", "--version-column", "a"], "column of the output already"),
    (["--on", "k", "--query", "SELECT 1"], "--query is for databases"),
    (["--on", "k", "-o", "master.parquet"], "is one of the inputs"),
    (["--on", "k", "-o", "stream/out.parquet"], "is one of the inputs"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[says for _, says in WRONG])
def test_errors_are_one_line_with_cause_and_remedy(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert enrich(*arguments) == 2
    told = capsys.readouterr()
    assert told.err.startswith("watersmeet: ")
    assert says in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


@pytest.mark.parametrize(
    ("stream", "master", "options", "says"),
    [
        ("stream", "nowhere.parquet", [], "master='nowhere.parquet' does not exist"),
        ("stream/1.parquet", "master.parquet", ["--watch"], "no directory"),
        ("-", "master.parquet", ["--watch"], "STREAM is standard input"),
        ("stream", "-", [], "MASTER cannot be standard input"),
        ("stream", "postgresql://host/db", [], "--query does not say which rows"),
    ],
)
def test_inputs_that_cannot_be(
    stream: str,
    master: str,
    options: list[str],
    says: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert enrich("--on", "k", *options, stream=stream, master=master) == 2
    assert says in capsys.readouterr().err
