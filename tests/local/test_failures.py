"""What goes wrong: each ends in an error with cause and remedy, and leaves no file behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.inputs import SPILLING, SPILLING_ROWS, Gate, batches, sides
from tests.local.oracle import Rows, expected, rows_of
from watersmeet.errors import (
    InvalidArgument,
    MemoryTooSmall,
    RunClosed,
    SchemaError,
    SourceFailed,
    SpillCorrupted,
    SpillError,
)
from watersmeet.model import Side

LEFT, RIGHT = sides(2_000)


def untouched(schema: pa.Schema) -> pa.RecordBatchReader:
    """Columns that are known, and rows that nobody may ask for yet."""

    def pulled() -> Iterator[pa.RecordBatch]:
        pytest.fail("a row was asked for before the arguments were checked")
        yield

    return pa.RecordBatchReader.from_batches(schema, pulled())


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"on": "nope"}, SchemaError, "no column 'nope'.* columns are k, a"),
    ({"on": 7}, InvalidArgument, "on=7"),
    ({"how": "sideways"}, InvalidArgument, "Use one of inner, left"),
    ({"algorithm": "magic"}, InvalidArgument, "Use auto, or one of shj, xjoin"),
    ({"memory": "lots"}, InvalidArgument, 'such as memory="256MB"'),
    ({"memory": "10KB"}, MemoryTooSmall, "at least 1MB"),
    ({"wait_threshold": -1}, InvalidArgument, "wait_threshold=-1"),
    ({"wait_threshold": float("nan")}, InvalidArgument, "wait_threshold=nan"),
    ({"wait_threshold": "soon"}, InvalidArgument, "wait_threshold='soon'"),
    ({"condition": 1}, InvalidArgument, "condition=1"),
    ({"how": None}, InvalidArgument, "how=None"),
    ({"algorithm": 3}, InvalidArgument, "algorithm=3.*auto, shj"),
    ({"suffixes": "_x"}, InvalidArgument, "suffixes='_x'"),
    ({"suffixes": ("", 1)}, InvalidArgument, "suffixes=1"),
    ({"spill_dir": 3}, InvalidArgument, "spill_dir=3"),
]


@pytest.mark.parametrize(("arguments", "error", "says"), WRONG, ids=lambda each: str(each)[:40])
def test_wrong_arguments_fail_before_a_row_is_read(
    arguments: dict[str, Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"on": "k", "spill_dir": tmp_path} | arguments
    with pytest.raises(error, match=says):
        wm.local.join(untouched(LEFT.schema), untouched(RIGHT.schema), **given)
    assert not list(tmp_path.iterdir())


def test_keys_that_cannot_be_compared_fail_before_a_row_is_read() -> None:
    with pytest.raises(SchemaError):
        wm.local.join(
            untouched(pa.schema({"k": pa.date32()})),
            untouched(pa.schema({"k": pa.bool_()})),
            on="k",
        )


def test_duplicate_columns_fail_before_a_row_is_read() -> None:
    twice = pa.schema([("k", pa.int64()), ("k", pa.int64())])
    with pytest.raises(SchemaError, match="several columns named 'k'"):
        wm.local.join(untouched(twice), untouched(RIGHT.schema), on="k")


@pytest.mark.parametrize("on", ["nope", ["k", "nope"], [("a", "nope")], {"a": "nope"}], ids=str)
def test_one_side_that_knows_its_columns_is_checked_alone(on: Any) -> None:
    with pytest.raises(SchemaError, match="The right input has no column 'nope'"):
        wm.local.join(Gate([], []), untouched(RIGHT.schema), on=on)
    with pytest.raises(SchemaError, match="The left input has no column"):
        wm.local.join(untouched(RIGHT.schema), Gate([], []), on={"nope": "k"})


def test_columns_of_iterators_are_checked_before_a_row_is_joined(tmp_path: Path) -> None:
    run = wm.local.join(iter(batches(LEFT)), iter(batches(RIGHT)), on="nope", spill_dir=tmp_path)
    with pytest.raises(SchemaError, match="no column 'nope'"):
        next(run)
    assert run.metrics.rows_in == [0, 0]
    assert not list(tmp_path.iterdir())


def test_an_iterator_without_batches_has_no_columns() -> None:
    with pytest.raises(SchemaError, match=r"left .* ended without a single batch"):
        wm.local.join(iter([]), RIGHT, on="k").read_all()
    nothing = pa.RecordBatchReader.from_batches(LEFT.schema, iter([]))
    assert wm.local.join(nothing, RIGHT, on="k").read_all().num_rows == 0


@pytest.mark.parametrize(
    "place", ["missing", "file", "file/below"], ids=["missing", "a file", "below a file"]
)
def test_a_spill_directory_that_cannot_be_used(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpillError, match="Choose a `spill_dir` that exists and is writable"):
        wm.local.join(
            untouched(LEFT.schema), untouched(RIGHT.schema), on="k", spill_dir=tmp_path / place
        )


def failing(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    yield from batches(table.slice(0, rows), 100)
    raise ConnectionError("line cut")


@pytest.mark.parametrize("memory", ["64MB", SPILLING])
def test_a_source_that_raises_comes_last_with_its_own_error(memory: str, tmp_path: Path) -> None:
    left, right = sides(SPILLING_ROWS)
    half = SPILLING_ROWS // 2
    found: list[pa.RecordBatch] = []
    run = wm.local.join(left, failing(right, half), on="k", memory=memory, spill_dir=tmp_path)
    with pytest.raises(SourceFailed, match="ConnectionError: line cut") as caught:
        found += run
    delivered = pa.Table.from_batches(found)
    error = caught.value
    assert isinstance(error.__cause__, ConnectionError)
    assert error.side == "right"
    assert error.rows_read[1] == half
    assert error.rows_out == delivered.num_rows > 0
    # Exactly what follows from the rows that had been read.
    assert rows_of(delivered) == expected(left.slice(0, error.rows_read[0]), right.slice(0, half))
    assert not list(tmp_path.iterdir())
    # It must not look like a run that has delivered everything.
    with pytest.raises(RunClosed, match="has failed"):
        next(run)


@pytest.mark.parametrize("fails", Side)
@pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
def test_a_failure_does_not_pass_off_rows_as_unmatched(how: str, fails: Side) -> None:
    """One side is complete, the other fails half way: who has no partner among the complete
    rows is a result, who has none among the others may still have had one to come."""
    arrived = [LEFT, RIGHT]
    arrived[fails] = arrived[fails].slice(0, 1_000)

    def cut() -> Iterator[pa.RecordBatch]:
        yield from batches(arrived[fails])
        while not run._driver.complete[fails.other]:
            threading.Event().wait(0.001)
        raise OSError

    inputs: list[Any] = [LEFT, RIGHT]
    inputs[fails] = cut()
    run = wm.local.join(inputs[0], inputs[1], on="k", how=how)
    found: list[pa.RecordBatch] = []
    with pytest.raises(SourceFailed):
        found += run

    def is_certain(key: int | None, a: int | None, b: int | None = None) -> bool:
        lone = Side.LEFT if b is None else Side.RIGHT if a is None else None
        return key is None or lone in (None, fails)

    got: Rows = rows_of(pa.Table.from_batches(found, schema=run.schema))
    wanted = expected(arrived[0], arrived[1], how)
    assert got == {row: count for row, count in wanted.items() if is_certain(*row)}
    assert got <= expected(LEFT, RIGHT, how)


def test_an_error_of_one_source_does_not_wait_for_the_other() -> None:
    gate = Gate([], [])

    def broken() -> Iterator[pa.RecordBatch]:
        raise OSError("no route")
        yield

    with pytest.raises(SourceFailed, match="no route"):
        next(wm.local.join(gate, broken(), on="k"))
    gate.open()


@pytest.mark.parametrize(
    "change",
    [{"b": pa.array([1])}, {"k": pa.array(["x"])}, {"k": pa.array([1]), "c": pa.array([1])}],
    ids=["other name", "other type", "one more"],
)
def test_a_batch_unlike_the_first_one(change: dict[str, pa.Array], tmp_path: Path) -> None:
    keys = pa.table({"k": range(100)})
    parts = [*batches(keys, 10), pa.record_batch(change)]
    found: list[pa.RecordBatch] = []
    with pytest.raises(SchemaError, match="Cast every batch to one schema"):
        found += wm.local.join(keys, iter(parts), on="k", spill_dir=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rows", [30_000, 100_000])
def test_a_batch_larger_than_the_memory_is_taken_in_pieces(rows: int, tmp_path: Path) -> None:
    """It is its owner's until its last row has been taken in; rows make way for it meanwhile."""
    huge = pa.record_batch({"k": pa.array(range(rows), pa.int64()), "a": range(rows)})
    keys = pa.record_batch({"k": range(0, rows, 7)})
    memory = 2**20
    with wm.local.join(
        iter([huge]), iter([keys]), on="k", memory=memory, spill_dir=tmp_path
    ) as run:
        assert sum(map(len, run)) == len(keys)
        assert run.metrics.memory_peak <= max(huge.nbytes, memory) + memory


def test_a_row_that_memory_cannot_hold_says_what_it_takes() -> None:
    long = pa.record_batch({"k": [1], "doc": ["x" * 300_000]})
    with pytest.raises(MemoryTooSmall, match=r'a row of 300,0.. bytes.*at least memory="3MB"'):
        wm.local.join(iter([long]), RIGHT, on="k", memory="1MB").read_all()
    joined = wm.local.join(iter([long]), RIGHT, on="k", memory="3MB", how="left").read_all()
    assert joined["doc"].to_pylist()[0] == "x" * 300_000


def test_memory_that_an_algorithm_without_spilling_outgrows() -> None:
    left, right = sides(SPILLING_ROWS)
    with pytest.raises(MemoryTooSmall):
        wm.local.join(left, right, on="k", memory=SPILLING, algorithm="shj").read_all()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [truncate, alter, remove])
def test_a_damaged_spill_file_is_never_read_as_rows(damage: Any, tmp_path: Path) -> None:
    left, right = sides(SPILLING_ROWS)
    found = []
    run = wm.local.join(left, right, on="k", memory=SPILLING, spill_dir=tmp_path)
    while not run.metrics.rows_spilled:
        found.append(next(run))
    for path in tmp_path.glob("*/*.arrow"):
        damage(path)
    with pytest.raises(SpillCorrupted):
        found += run
    assert rows_of(pa.Table.from_batches(found)) <= expected(left, right)
    assert not list(tmp_path.iterdir())


FULL_DEVICE = """
import os
import sys
import watersmeet as wm
from tests.local.inputs import sides

left, right = sides({rows})
try:
    run = wm.local.join(left, right, on="k", memory="1MB", spill_dir=sys.argv[1])
    print("called")
    run.read_all()
except wm.errors.SpillError as error:
    print(error)
print(os.listdir(sys.argv[1]))
"""


@pytest.mark.parametrize(("size", "called"), [("100k", 0), ("700k", 1)])
def test_a_full_device(size: str, called: int, tmp_path: Path) -> None:
    """A file system of its own, in a namespace that needs no privileges and ends by itself."""
    script = FULL_DEVICE.format(rows=SPILLING_ROWS)
    mount = f'mount -t tmpfs -o size={size} tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    ran = subprocess.run(
        [*command, str(tmp_path), sys.executable, script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "unshare" in ran.stderr or "mount" in ran.stderr:
        pytest.skip(f"no private file systems here: {ran.stderr.strip()}")
    assert ran.stdout.count("called") == called, ran.stderr
    assert ran.stdout.count("is full. Free some space") == 1, ran.stderr
    assert ran.stdout.endswith("[]\n")
