"""What the command line writes, and what it never writes over."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from tests.local.inputs import PATIENCE_S
from watersmeet.cli.__main__ import main

PEOPLE = pa.table({"id": range(1_000), "city": ["Bern", "Rome"] * 500})
PAID = pa.table({"id": [7, 8], "paid": [1, 2]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    pq.write_table(PAID, tmp_path / "paid.parquet")
    (tmp_path / "parts").mkdir()
    pq.write_table(PEOPLE, tmp_path / "parts" / "0.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def join(*arguments: str, left: str = "people.parquet", right: str = "paid.parquet") -> int:
    return main(["join", left, right, "--on", "id", *arguments])


def same_path(folder: Path) -> str:
    return "people.parquet"


def absolute(folder: Path) -> str:
    return str(folder / "people.parquet")


def roundabout(folder: Path) -> str:
    return "parts/../people.parquet"


def symbolic_link(folder: Path) -> str:
    (folder / "link.parquet").symlink_to("people.parquet")
    return "link.parquet"


def hard_link(folder: Path) -> str:
    os.link(folder / "people.parquet", folder / "hard.parquet")
    return "hard.parquet"


def linked_directory(folder: Path) -> str:
    (folder / "elsewhere").symlink_to(folder)
    return "elsewhere/people.parquet"


def other_input(folder: Path) -> str:
    return "paid.parquet"


NAMES: list[Callable[[Path], str]] = [
    same_path, absolute, roundabout, symbolic_link, hard_link, linked_directory, other_input,
]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "forced"])
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.__name__)
def test_an_input_is_never_overwritten_under_whatever_name(
    name: Callable[[Path], str], force: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = name(folder)
    before = contents(folder)
    assert join("-o", output, *force) == 2
    assert contents(folder) == before
    told = capsys.readouterr().err
    assert "is one of the inputs" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("output", ["parts/new.parquet", "parts/0.parquet", "hard.parquet"])
def test_nor_is_anything_put_among_the_files_of_an_input(
    output: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.link(folder / "parts" / "0.parquet", folder / "hard.parquet")
    before = contents(folder)
    assert join("-o", output, "--force", left="parts") == 2
    assert contents(folder) == before
    assert "is one of the inputs, or in its directory" in capsys.readouterr().err


def test_a_file_that_fits_the_pattern_of_an_input_is_one(folder: Path) -> None:
    before = contents(folder)
    assert join("-o", "people.parquet", "--force", left="peop*.parquet") == 2
    assert contents(folder) == before


def test_another_file_is_overwritten_only_when_that_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "out.csv").write_text("precious")
    assert join("-o", "out.csv") == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "out.csv").read_text() == "precious"
    assert join("-o", "out.csv", "--force") == 0
    assert csv.read_csv(folder / "out.csv").num_rows == 2


def test_a_directory_is_no_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out.csv").mkdir()
    assert join("-o", "out.csv", "--force") == 2
    assert "is a directory" in capsys.readouterr().err


def test_a_plot_is_not_drawn_over_anything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    (folder / "looks.png").write_text("precious")
    (folder / "parts" / "old.png").write_text("precious")
    arguments = ["aggregate", "parts", "paid.parquet", "--on", "id", "--count", "n", "--plot"]
    assert main([*arguments, "looks.png"]) == 2
    assert main([*arguments, "parts/old.png", "--force"]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert (folder / "looks.png").read_text() == "precious"
    assert main([*arguments, "looks.png", "--force", "--json"]) == 0
    assert (folder / "looks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["out.csv.gz", "out.tsv", "out.tsv.gz"])
def test_text_may_be_compressed_or_have_tabs(name: str, folder: Path) -> None:
    assert join("-o", name) == 0
    content = (folder / name).read_bytes()
    text = (gzip.decompress(content) if name.endswith("gz") else content).decode()
    delimiter = "\t" if "tsv" in name else ","
    assert sorted(text.splitlines()) == sorted(
        delimiter.join(cells)
        for cells in [('"id"', '"city"', '"paid"'), ("7", '"Rome"', "1"), ("8", '"Bern"', "2")]
    )
    # and read back as an input
    assert main(["join", name, "people.parquet", "--on", "id", "-o", "again.parquet"]) == 0
    assert pq.read_table(folder / "again.parquet").num_rows == 2


@pytest.mark.parametrize("output", ["out.csv", "out.csv.gz", "-"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([["a", "b"]]),
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=["list", "struct", "map"],
)
def test_csv_says_which_columns_it_cannot_hold_before_anything_is_written(
    values: pa.Array, output: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"id": [7], "tags": values}), folder / "tags.parquet")
    before = contents(folder)
    assert join("-o", output, left="tags.parquet") == 2
    told = capsys.readouterr()
    assert "'tags'" in told.err
    assert ".parquet" in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_durations_are_written_or_refused_but_never_half(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = pa.table({"id": [7], "wait": pa.array([5], pa.duration("s"))})
    pq.write_table(waits, folder / "waits.parquet")
    status = join("-o", name, left="waits.parquet")
    if status:
        assert "'wait' (duration[s])" in capsys.readouterr().err
    assert (folder / name).exists() == (status == 0)
    assert not list(folder.glob(".*part"))


def test_the_help_shows_percents_as_they_are_typed(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("join", "aggregate", "demo", "reproduce"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
    told = capsys.readouterr().out
    assert "1%" in told
    assert "%%" not in told


SLOW = """
import sys, threading
import pyarrow as pa
import watersmeet as wm
from watersmeet import local
from watersmeet.cli.__main__ import main
from tests.local.inputs import batches, sides

left, right = sides({rows})
whole = local.join

def hanging():
    yield from batches(right)
    print("ready", flush=True)
    threading.Event().wait()

def join(_left, _right, **settings):
    return whole(left, hanging(), **settings)

local.join = join
sys.exit(main(["join", "a", "b", "--on", "k", "--memory", "1MB", "--spill-dir", "spill",
               "-o", "out.parquet"]))
"""


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, in the middle of a join whose right input hangs."""
    (folder / "spill").mkdir()
    root = Path(__file__).resolve().parents[2]
    search = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", str(root / "src"))])
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(rows=24_000)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_sigterm_leaves_neither_a_part_nor_spilled_files(folder: Path) -> None:
    before = set(folder.iterdir())
    with writing(folder) as process:
        assert list(folder.glob(".out.parquet.*part"))
        assert list((folder / "spill").iterdir())
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert errors == "watersmeet: terminated; spilled files are removed.\n"
    assert set(folder.iterdir()) - before == {folder / "spill"}
    assert not list((folder / "spill").iterdir())
