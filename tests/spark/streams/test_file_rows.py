"""Names of files become rows in the instances, without Spark: each row once, or an error."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.streams.test_host import LEFT, RIGHT, SCHEMAS, WIRE, emitted, expected, make_plan
from watersmeet.errors import InputChanged, SchemaError, WatersmeetError
from watersmeet.expressions.nodes import Column, Compare, Literal
from watersmeet.model import Side
from watersmeet.rows.widths import total_bytes
from watersmeet.spark import cache
from watersmeet.spark.microbatches.contents import Contents
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Tags, Wire
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.formulas import Computed
from watersmeet.spark.scans.parquet import Dialect
from watersmeet.spark.scans.selection import Selection, TableColumn
from watersmeet.spark.scans.streams import NAME
from watersmeet.spark.streams.files import Carried, FileInput, FileRows, pushed_bytes
from watersmeet.spark.streams.refused import noted_refused
from watersmeet.spark.streams.watermarks import Clock

INSTANCES = 3
TAGS = Tags(2)
END = pa.field("(ends)", pa.bool_())
Rows = Counter[tuple[Any, ...]]


def file_input(side: Side, *, ends: bool = False) -> FileInput:
    """The files of a side have its columns; the key -1 says that the stream has ended."""
    schema = SCHEMAS[side]
    columns = tuple(TableColumn(field, None) for field in schema)
    output: tuple[int | Computed, ...] = tuple(range(len(schema)))
    if ends:
        key = Column(Side.LEFT, "k", pa.int64())
        output += (Computed("k = -1", Compare("=", key, Literal(-1, pa.int64()), pa.bool_())),)
        schema = pa.schema([*schema, END])
    selection = Selection(
        schema=schema,
        filter=None,
        columns=columns,
        output=output,
        dialect=Dialect(case_sensitive=False, dates_as_written=True, int96_as_written=True),
    )
    return FileInput(selection=selection, columns=2, has_end=ends, markers=(), flat=True)


class Inputs:
    """Files of two streams, and the batches of names that Spark makes of them."""

    def __init__(self, path: Path, *, ends: bool = False, by_spark: Side | None = None) -> None:
        self.path = path
        self.tables: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        inputs = tuple(None if side is by_spark else file_input(side, ends=ends) for side in Side)
        schemas = [
            NAME if taken is not None else (LEFT, RIGHT)[side]
            for side, taken in zip(Side, inputs, strict=True)
        ]
        self.by_spark = by_spark
        self.plan = make_plan(
            path / "state",
            instances=INSTANCES,
            memory=2**22,
            carried=Carried(Wire.of(*schemas), inputs),
            folders=tuple(str(path / f"{side}") for side in range(2)),
            how="inner",
        )

    def rows(self, side: Side, count: int, *, seed: int) -> pa.RecordBatch:
        chance = random.Random(seed)
        keys = [None if chance.random() < 0.1 else chance.randrange(40) for _ in range(count)]
        texts = [f"{'ab'[side]}{seed} {number}" for number in range(count)]
        found = {"k": pa.array(keys, pa.int64()), "ab"[side]: pa.array(texts)}
        columns = [found[name] for name in SCHEMAS[side].names]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[side])

    def write(self, side: Side, number: int, batch: pa.RecordBatch) -> Path:
        folder = self.path / str(int(side))
        folder.mkdir(exist_ok=True)
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(batch), file, row_group_size=50)
        return file

    def named(self, files: list[tuple[Side, Path]], instance: int) -> Iterator[pa.RecordBatch]:
        """As Spark tells an instance of files."""
        assert self.plan.carried is not None
        for side, file in files:
            status = file.stat()
            columns = [
                pa.array([f"file:{file}"]),
                pa.array([status.st_size]),
                pa.array([status.st_mtime_ns // 10**6]),
            ]
            tags = pa.array([TAGS.number(instance, side)], pa.int32())
            yield self.plan.carried.wire.laid_out(tags, side, columns)

    def files(self) -> list[tuple[Side, Path]]:
        found = []
        for number in range(4):
            for side in Side:
                batch = self.rows(side, 60 * number, seed=10 * number + side)
                self.tables[side].append(batch)
                found.append((side, self.write(side, number, batch)))
        return found


@pytest.fixture
def inputs(tmp_path: Path) -> Iterator[Inputs]:
    yield Inputs(tmp_path)
    cache.clear()


def read(
    inputs: Inputs, files: list[tuple[Side, Path]], *, kind: type[FileRows] = FileRows
) -> dict[int, Counter[Any]]:
    """By kind, the rows that all instances get."""
    found: dict[int, Counter[Any]] = {}
    assert inputs.plan.carried is not None
    for instance in range(INSTANCES):
        task = Task("query", 0, instance, "run 1")
        rows = kind(inputs.plan, inputs.plan.carried, task)
        for batch in rows.of(inputs.named(files, instance)):
            numbers, kinds = TAGS.split(batch.column(0))
            assert set(numbers.tolist()) == {instance}
            for each, row in zip(kinds.tolist(), batch.to_pylist(), strict=True):
                del row["tag"]
                found.setdefault(each, Counter())[tuple(row.values())] += 1
    return found


def on_the_wire(side: Side, batches: list[pa.RecordBatch]) -> Counter[Any]:
    tables = [wired(side, batch) for batch in batches]
    return Counter(tuple(list(row.values())[1:]) for t in tables for row in t.to_pylist())


def wired(side: Side, batch: pa.RecordBatch) -> pa.RecordBatch:
    return WIRE.laid_out(pa.nulls(len(batch), pa.int32()), side, batch.columns)


def test_every_row_comes_to_one_instance(inputs: Inputs) -> None:
    found = read(inputs, inputs.files())
    assert found == {side: on_the_wire(side, inputs.tables[side]) for side in Side}


def test_long_texts_come_in_batches_of_few_rows(inputs: Inputs) -> None:
    """Though the file has each text once, and its footer knows of a few bytes a row."""
    rows, text = 20_000, "x" * 1000
    columns = {"k": pa.array(range(rows)), "a": pa.array([text]).take(pa.array([0] * rows))}
    batch = pa.RecordBatch.from_arrays([columns[n] for n in SCHEMAS[0].names], schema=SCHEMAS[0])
    file = inputs.path / "0" / "wide.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table(batch), file)
    assert inputs.plan.carried is not None
    task = Task("query", 0, 0, "run 1")
    reader = FileRows(inputs.plan, inputs.plan.carried, task)
    sizes = [total_bytes(came) for came in reader.of(inputs.named([(Side.LEFT, file)], 0))]
    assert sum(sizes) > rows * len(text) / INSTANCES / 2
    assert max(sizes) <= pushed_bytes(inputs.plan.memory)


def test_the_result_is_that_of_the_join(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """File after file is a batch; every second attempt finds that another was there."""
    result: Rows = Counter()
    for number, file in enumerate(inputs.files()):
        for instance in range(INSTANCES):
            for attempt in range(1 + number % 2):
                task = Task("query", number, instance, f"run {attempt}")
                monkeypatch.setattr(Task, "current", lambda task=task: task)
                came = emitted(run_batch(inputs.plan, inputs.named([file], instance)))
            result += came
    left, right = ([wired(side, each) for each in inputs.tables[side]] for side in Side)
    assert result == expected((left, right), "inner")


class Forgetful(FileRows):
    """Leaves the last file out."""

    def _named(self, input: int, names: pa.RecordBatch) -> Iterator[DataFile]:
        return iter([*super()._named(input, names)][:-1])


class Twice(FileRows):
    """Reads a file again."""

    def _named(self, input: int, names: pa.RecordBatch) -> Iterator[DataFile]:
        return iter([*super()._named(input, names)] * 2)


class Greedy(FileRows):
    """Takes the rows of other instances."""

    def _tagged(self, rows: Any, mine: Any, input: int, *, kind: int) -> Any:
        return super()._tagged(rows, mine | True, input, kind=kind)


class Unkeyed(FileRows):
    """Loses rows whose key is null, which no instance has by their key."""

    def _mine(self, input: int, files: FileInput, batch: pa.RecordBatch) -> Any:
        return super()._mine(input, files, batch.filter(batch.column("k").is_valid()))


class FirstRows(FileRows):
    """Takes the first rows of a batch only."""

    def _mine(self, input: int, files: FileInput, batch: pa.RecordBatch) -> Any:
        return super()._mine(input, files, batch.slice(0, 40))


@pytest.mark.parametrize("bug", [Forgetful, Twice, Greedy, Unkeyed, FirstRows])
def test_planted_bugs_are_noticed(inputs: Inputs, bug: type[FileRows]) -> None:
    found = read(inputs, inputs.files(), kind=bug)
    assert found != {side: on_the_wire(side, inputs.tables[side]) for side in Side}


def test_a_batch_is_the_same_on_both_paths(tmp_path: Path) -> None:
    """What makes it known again, whether all names came, or rows of one side or of both."""
    noted = []
    for by_spark in (None, Side.LEFT, Side.RIGHT):
        folder = tmp_path / str(by_spark)
        folder.mkdir()
        inputs = Inputs(folder, by_spark=by_spark)
        files = inputs.files()
        assert inputs.plan.carried is not None
        each: list[dict[str, Any]] = []
        for instance in range(INSTANCES):
            task = Task("query", 0, instance, "run 1")
            named = inputs.named([f for f in files if f[0] is not by_spark], instance)
            batches = [*named, *sent(inputs, instance)]
            contents = Contents(TAGS)
            for batch in FileRows(inputs.plan, inputs.plan.carried, task).of(iter(batches)):
                contents.add(batch, TAGS.split(batch.column(0))[1])
            each.append(contents.describe())
        noted.append(each)
    assert noted[0] == noted[1] == noted[2]
    assert len({str(each) for each in noted[0]}) == INSTANCES


def sent(inputs: Inputs, instance: int) -> Iterator[pa.RecordBatch]:
    """The rows that Spark reads, as they come to an instance."""
    side = inputs.by_spark
    if side is None:
        return
    assert inputs.plan.carried is not None
    for batch in inputs.tables[side]:
        assigned = inputs.plan.router.assign(side, batch)  # type: ignore[attr-defined]
        mine = batch.filter(pa.array(assigned == instance))
        tags = pa.array([TAGS.number(instance, side)] * len(mine), pa.int32())
        yield inputs.plan.carried.wire.laid_out(tags, side, mine.columns)


def test_the_end_of_a_stream_reaches_all_instances(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path, ends=True)
    rows = inputs.rows(Side.LEFT, 20, seed=1)
    last = pa.RecordBatch.from_arrays([pa.array([-1]), pa.array(["last"])], schema=SCHEMAS[0])
    whole = pa.Table.from_batches([rows, last]).combine_chunks().to_batches()[0]
    found = read(inputs, [(Side.LEFT, inputs.write(Side.LEFT, 0, whole))])
    assert found[Side.LEFT] == on_the_wire(Side.LEFT, [rows])
    assert found[TAGS.end(Side.LEFT)] == Counter({(-1, "last"): INSTANCES})


def test_empty_files_and_files_without_rows(inputs: Inputs) -> None:
    none = inputs.write(Side.LEFT, 0, inputs.rows(Side.LEFT, 0, seed=1))
    empty = inputs.path / "0" / "empty.parquet"
    empty.touch()
    assert read(inputs, [(Side.LEFT, none), (Side.LEFT, empty)]) == {}


@pytest.mark.parametrize("what", ["longer", "newer", "gone", "cut", "in a folder", "odd"])
def test_a_file_that_is_not_what_was_named(inputs: Inputs, what: str) -> None:
    file = inputs.write(Side.LEFT, 0, inputs.rows(Side.LEFT, 20, seed=1))
    kept = file.stat()
    if what == "in a folder":
        (inputs.path / "0" / "day=1").mkdir()
        file = file.rename(inputs.path / "0" / "day=1" / "0.parquet")
    if what == "odd":
        pq.write_table(pa.table({"k": ["text"], "a": ["text"]}), file)
    names = [*inputs.named([(Side.LEFT, file)], 0)]
    if what == "longer":
        file.write_bytes(file.read_bytes() + b"more")
        os.utime(file, ns=(kept.st_mtime_ns, kept.st_mtime_ns))
    elif what == "newer":
        os.utime(file, ns=(kept.st_mtime_ns + 10**7, kept.st_mtime_ns + 10**7))
    elif what == "gone":
        file.unlink()
    elif what == "cut":
        file.write_bytes(bytes(kept.st_size))
        os.utime(file, ns=(kept.st_mtime_ns, kept.st_mtime_ns))
    assert inputs.plan.carried is not None
    rows = FileRows(inputs.plan, inputs.plan.carried, Task("query", 0, 0, "run 1"))
    error: type[WatersmeetError] = SchemaError if what == "odd" else InputChanged
    with pytest.raises(error, match=r"0\.parquet") as raised:
        list(rows.of(iter(names)))
    assert raised.value.remedy
    noted = noted_refused(inputs.plan.state, "left")
    assert (noted is not None) == (what == "odd")


@pytest.mark.parametrize(
    ("times", "least", "largest"),
    [
        ({}, None, None),
        ({"0": 50_000_000}, None, 40_000_000),
        ({"1": 50_000_000}, None, 30_000_000),
        ({"0": 50_000_999, "1": 70_000_000}, 40_000_000, 50_000_000),
    ],
)
def test_the_watermark_is_the_least_or_the_largest(
    times: dict[str, int], least: int | None, largest: int | None
) -> None:
    delays = (10_000, 20_000)
    assert Clock(delays, by_latest=False).moment(times) == least
    assert Clock(delays, by_latest=True).moment(times) == largest
