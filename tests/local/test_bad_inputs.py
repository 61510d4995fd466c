"""Whatever is wrong with what a local join is given, the error says what and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.cli.__main__ import main
from watersmeet.errors import WatersmeetError

GOOD = pa.table({"k": range(100), "v": range(100)})
BATCH = GOOD.to_batches()[0]


def join(left: Any = GOOD, right: Any = GOOD, **settings: Any) -> pa.Table:
    return wm.local.join(left, right, **({"on": "k"} | settings)).read_all()


def cut_short(path: Path, share: float = 0.5) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def parquet(folder: Path) -> Path:
    pq.write_table(GOOD, folder / "a.parquet")
    return folder / "a.parquet"


def arrow(folder: Path, **options: Any) -> Path:
    feather.write_feather(GOOD, folder / "a.arrow", **options)
    return folder / "a.arrow"


def text(folder: Path, name: str, content: str | bytes) -> Path:
    encoded = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(encoded)
    return folder / name


def raising() -> Iterator[pa.RecordBatch]:
    yield BATCH
    raise ValueError("line cut")


def other_columns() -> Iterator[pa.RecordBatch]:
    yield BATCH
    yield pa.record_batch({"k": [1], "w": [2]})


def other_types() -> Iterator[pa.RecordBatch]:
    yield BATCH
    yield pa.record_batch({"k": ["1"], "v": [2]})


def mixed(folder: Path) -> Path:
    parquet(folder)
    text(folder, "b.csv", "k,v\n1,2\n")
    return folder


def unlike(folder: Path) -> Path:
    parquet(folder)
    pq.write_table(pa.table({"k": [1], "other": [2]}), folder / "b.parquet")
    return folder


def unreadable(folder: Path) -> Path:
    path = parquet(folder)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("whoever runs this may read everything")
    return path


def dangling(folder: Path) -> Path:
    (folder / "a.parquet").symlink_to(folder / "nowhere")
    return folder / "a.parquet"


def boom(batch: pa.RecordBatch) -> pa.Array:
    raise ZeroDivisionError("in the condition")


Case = Callable[[Path], Any]

API: dict[str, Case] = {
    # what is joined
    "none": lambda _: join(None),
    "a number": lambda _: join(42),
    "bytes": lambda _: join(b"a.parquet"),
    "a path of bytes": lambda _: join([b"a.parquet"]),
    "an empty path": lambda _: join(""),
    "a class": lambda _: join(pa.Table),
    "a dict": lambda _: join({"k": [1]}),
    "a series": lambda _: join(GOOD.to_pandas()["k"]),
    "an array": lambda _: join(np.arange(3)),
    "an arrow array": lambda _: join(pa.array([1])),
    "an empty list": lambda _: join([]),
    "a list of dicts": lambda _: join([{"k": 1}]),
    "a list of paths and a number": lambda f: join([parquet(f), 3]),
    "a list of frames of pandas": lambda _: join([GOOD.to_pandas()]),
    "an iterator of text": lambda _: join(iter(["a", "b"])),
    "an iterator of nothing": lambda _: join(iter([])),
    "an iterator of None": lambda _: join(iter([None])),
    "an iterator that raises": lambda _: join(raising()),
    "an iterator that raises at once": lambda _: join(each / 0 for each in [1]),
    "other columns in mid-stream": lambda _: join(other_columns()),
    "other types in mid-stream": lambda _: join(other_types()),
    "a reader that raises": lambda _: join(
        pa.RecordBatchReader.from_batches(GOOD.schema, raising())
    ),
    "a frame of mixed objects": lambda _: join(GOOD.to_pandas().assign(k=[1, "a"] * 50)),
    "a frame with a column twice": lambda _: join(
        GOOD.to_pandas().set_axis(["k", "k"], axis=1)
    ),
    # files
    "no such file": lambda f: join(f / "none.parquet"),
    "no such directory": lambda f: join(f / "none"),
    "a pattern that nothing fits": lambda f: join(f / "*.parquet"),
    "an empty directory": lambda f: join(f),
    "a directory of several formats": lambda f: join(mixed(f)),
    "a directory of unlike files": lambda f: join(unlike(f)),
    "an unknown extension": lambda f: join(text(f, "a.xlsx", "")),
    "no extension": lambda f: join(text(f, "a", "")),
    "an archive of something": lambda f: join(text(f, "a.parquet.gz", "")),
    "empty Parquet": lambda f: join(text(f, "a.parquet", "")),
    "text named Parquet": lambda f: join(text(f, "a.parquet", "k,v\n1,2\n")),
    "truncated Parquet": lambda f: join(cut_short(parquet(f))),
    "empty Arrow": lambda f: join(text(f, "a.arrow", "")),
    "text named Arrow": lambda f: join(text(f, "a.arrow", "k,v\n1,2\n" * 9)),
    "truncated Arrow": lambda f: join(cut_short(arrow(f))),
    "truncated plain Arrow": lambda f: join(cut_short(arrow(f, compression="uncompressed"))),
    "Arrow cut at its head": lambda f: join(cut_short(arrow(f), 0.01)),
    "empty CSV": lambda f: join(text(f, "a.csv", "")),
    "CSV with ragged lines": lambda f: join(text(f, "a.csv", "k,v\n1,2\n1,2,3\n")),
    "CSV with a column twice": lambda f: join(text(f, "a.csv", "k,k\n1,2\n")),
    "CSV in Latin-1": lambda f: join(text(f, "a.csv", "k,v\n1,Zürich\n".encode("latin1"))),
    "CSV in Latin-1 further on": lambda f: join(
        text(f, "a.csv", b"k,v\n" + b"1,plain\n" * 99_999 + "1,Zürich\n".encode("latin1"))
    ),
    "CSV in UTF-16": lambda f: join(text(f, "a.csv", "k,v\n1,2\n".encode("utf-16"))),
    "CSV of another type further on": lambda f: join(
        text(f, "a.csv", "k,v\n" + "1,2\n" * 99_999 + "1,many\n")
    ),
    "gzip that is none": lambda f: join(text(f, "a.csv.gz", "k,v\n1,2\n")),
    "a file without rights": lambda f: join(unreadable(f)),
    "a dangling link": lambda f: join(dangling(f)),
    "a path with a null byte": lambda f: join("a\0b.parquet"),
    "a dataset whose file is gone": lambda f: join(_dataset_without_file(f)),
    # columns
    "no such column": lambda _: join(on="nope"),
    "no such column, by pairs": lambda _: join(on=[("k", "nope")]),
    "no key": lambda _: join(on=[]),
    "an empty name": lambda _: join(on=""),
    "a key twice": lambda _: join(on=["k", "k"]),
    "on a number": lambda _: join(on=1),
    "on None": lambda _: join(on=None),
    "on triples": lambda _: join(on=[("k", "k", "k")]),
    "zero columns": lambda _: join(pa.table({})),
    "columns of one name": lambda _: join(
        pa.Table.from_arrays([pa.array([1])] * 2, names=["k", "k"])
    ),
    "keys of other types": lambda _: join(pa.table({"k": ["a"]})),
    "keys that are lists": lambda _: join(pa.table({"k": [[1]]}), pa.table({"k": [[1]]})),
    "suffixes that clash": lambda _: join(suffixes=("", "")),
    # settings
    "how": lambda _: join(how="diagonal"),
    "how None": lambda _: join(how=None),
    "how a number": lambda _: join(how=3),
    "algorithm": lambda _: join(algorithm="quick"),
    "algorithm None": lambda _: join(algorithm=None),
    "memory of a word": lambda _: join(memory="lots"),
    "memory of nothing": lambda _: join(memory=""),
    "memory None": lambda _: join(memory=None),
    "memory 0": lambda _: join(memory=0),
    "memory below 0": lambda _: join(memory=-1),
    "memory below 0 in text": lambda _: join(memory="-5MB"),
    "memory of a fraction": lambda _: join(memory=1.5),
    "memory True": lambda _: join(memory=True),
    "memory of a kilobyte": lambda _: join(memory="1KB"),
    "memory beyond all": lambda _: join(memory="99999999TB"),
    "patience below 0": lambda _: join(wait_threshold=-1),
    "patience without end": lambda _: join(wait_threshold=float("inf")),
    "patience in words": lambda _: join(wait_threshold="soon"),
    "no such spill directory": lambda f: join(spill_dir=f / "none"),
    "a file to spill into": lambda f: join(spill_dir=parquet(f)),
    "a number to spill into": lambda _: join(spill_dir=3),
    "suffixes of one": lambda _: join(suffixes=("_x",)),
    "suffixes None": lambda _: join(suffixes=None),
    "a condition that is none": lambda _: join(condition=3),
    "a condition on a missing column": lambda _: join(condition=pc.field("nope") > 1),
    "a condition that is no condition": lambda _: join(condition=pc.field("v") + 1),
    "a condition that raises": lambda _: join(condition=boom),
    "a condition of too few values": lambda _: join(condition=lambda batch: pa.array([True])),
    "too little memory for its rows": lambda _: join(
        pa.table({"k": range(60_000)}), pa.table({"k": range(60_000)}),
        memory="1MB", algorithm="shj",
    ),
    "a row beyond its memory": lambda _: join(
        pa.table({"k": [1], "v": ["x" * 2**20]}), memory="1MB"
    ),
    "a stored batch beyond its memory": lambda f: join(_large_arrow(f), memory="1MB"),
}  # fmt: skip


def _dataset_without_file(folder: Path) -> ds.Dataset:
    dataset = ds.dataset(parquet(folder))
    (folder / "a.parquet").unlink()
    return dataset


def _large_arrow(folder: Path) -> Path:
    rows = np.random.default_rng(1).integers(0, 2**60, 400_000)
    feather.write_feather(pa.table({"k": rows}), folder / "a.arrow", chunksize=400_000)
    return folder / "a.arrow"


@pytest.mark.parametrize("wrong", API.values(), ids=API)
def test_the_error_names_cause_and_remedy(wrong: Case, tmp_path: Path) -> None:
    with pytest.raises(WatersmeetError) as caught:
        wrong(tmp_path)
    error = caught.value
    assert len(error.cause) > 15
    assert len(error.remedy) > 10
    assert "\n" not in str(error), "one line for a terminal"
    assert "Deliver smaller batches" not in str(error), "of what we cut ourselves"


CLI: dict[str, list[str]] = {
    "no such file": ["none.parquet", "b.parquet", "--on", "k"],
    "no such pattern": ["none*.parquet", "b.parquet", "--on", "k"],
    "a directory without data": ["empty", "b.parquet", "--on", "k"],
    "empty file": ["zero.parquet", "b.parquet", "--on", "k"],
    "truncated": ["short.parquet", "b.parquet", "--on", "k"],
    "damaged within": ["damaged.parquet", "b.parquet", "--on", "k"],
    "Latin-1": ["latin.csv", "b.parquet", "--on", "k"],
    "no such column": ["a.parquet", "b.parquet", "--on", "nope"],
    "types": ["a.parquet", "text.parquet", "--on", "k"],
    "an empty on": ["a.parquet", "b.parquet", "--on", ""],
    "half an on": ["a.parquet", "b.parquet", "--on", "k="],
    "how": ["a.parquet", "b.parquet", "--on", "k", "--how", "over"],
    "algorithm": ["a.parquet", "b.parquet", "--on", "k", "--algorithm", "quick"],
    "memory": ["a.parquet", "b.parquet", "--on", "k", "--memory", "much"],
    "memory below zero": ["a.parquet", "b.parquet", "--on", "k", "--memory=-1"],
    "little memory": ["a.parquet", "b.parquet", "--on", "k", "--memory", "1KB"],
    "spill directory": ["a.parquet", "b.parquet", "--on", "k", "--spill-dir", "none"],
    "output's format": ["a.parquet", "b.parquet", "--on", "k", "-o", "out.doc"],
    "output's directory": ["a.parquet", "b.parquet", "--on", "k", "-o", "none/out.csv"],
    "output is an input": ["a.parquet", "b.parquet", "--on", "k", "-o", "a.parquet"],
    "output is there": ["a.parquet", "b.parquet", "--on", "k", "-o", "text.parquet"],
    "output is nothing": ["a.parquet", "b.parquet", "--on", "k", "-o", ""],
    "nested CSV": ["a.parquet", "nested.parquet", "--on", "k", "-o", "-"],
}
AGGREGATE: dict[str, list[str]] = {
    "Spark without Parquet": ["latin.csv", "b.parquet", "--on", "k", "--count", "n", "--spark"],
    "Spark without files": ["none.parquet", "b.parquet", "--on", "k", "--count", "n", "--spark"],
    "no aggregate": ["a.parquet", "b.parquet", "--on", "k"],
    "a plot of no kind": ["a.parquet", "b.parquet", "--on", "k", "--count", "n", "--plot", "x.doc"],
    "truncated": ["short.parquet", "b.parquet", "--on", "k", "--count", "n"],
    "Latin-1": ["latin.csv", "b.parquet", "--on", "k", "--count", "n"],
    "no such column": ["a.parquet", "b.parquet", "--on", "k", "--sum", "nope"],
}
COMMANDS = [("join", name, given) for name, given in CLI.items()] + [
    ("aggregate", name, given) for name, given in AGGREGATE.items()
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "empty").mkdir()
    for name in ("a", "b", "short", "damaged"):
        pq.write_table(GOOD, tmp_path / f"{name}.parquet", use_dictionary=False)
    cut_short(tmp_path / "short.parquet")
    content = bytearray((tmp_path / "damaged.parquet").read_bytes())
    content[4:400] = bytes(396)
    (tmp_path / "damaged.parquet").write_bytes(content)
    (tmp_path / "zero.parquet").touch()
    pq.write_table(pa.table({"k": ["a"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"k": [1], "l": [[1]]}), tmp_path / "nested.parquet")
    text(tmp_path, "latin.csv", "k,v\n1,Zürich\n".encode("latin1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "given"),
    [(command, given) for command, _, given in COMMANDS],
    ids=[f"{command}, {name}" for command, name, _ in COMMANDS],
)
def test_the_command_line_says_it_in_one_line_and_writes_nothing(
    command: str, given: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    status = main([command, *given])
    told = capsys.readouterr()
    assert status == 2
    assert told.err.startswith("watersmeet: ")
    assert told.err.count("\n") == 1
    assert "unexpected" not in told.err
    assert told.out == ""
    assert sorted(folder.rglob("*")) == before


def test_what_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr("watersmeet.local.join", broken)
    monkeypatch.delenv("WATERSMEET_TRACE", raising=False)
    assert main(["join", "a", "b", "--on", "k"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("watersmeet: unexpected RuntimeError: first line")
    assert told.count("\n") == 1
    monkeypatch.setenv("WATERSMEET_TRACE", "1")
    with pytest.raises(RuntimeError):
        main(["join", "a", "b", "--on", "k"])
