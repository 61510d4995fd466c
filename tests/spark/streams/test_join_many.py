"""Joins of many streams in one step, against Spark's cascade of joins of all that they brought."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

import watersmeet as wm
from tests.spark.streams.faults import Fault, Faults
from tests.spark.streams.running import Rows, Streams, counted
from tests.spark.streams.test_host import Worker
from tests.spark.test_join_many import TABLES
from watersmeet.errors import InvalidArgument, SchemaError, StateError
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.spark import cache
from watersmeet.spark.hypercube import Cube, HypercubeRouter
from watersmeet.spark.many import asked_many, settled_many
from watersmeet.spark.microbatches.arguments import arrow_schema
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Tags, Wire
from watersmeet.spark.streams.identity import parameters_of
from watersmeet.spark.streams.plan import StreamPlan

pytestmark = pytest.mark.spark

NAMES = ("a", "b", "c")
CHAIN = ["a.k = b.k", "b.d = c.d"]
# c has no key in one of two dimensions, and a none in the other.
OPTIONS: dict[str, Any] = {
    "on": CHAIN,
    "instances": 4,
    "ends": {name: f"n{name} < 0" for name in NAMES},
}


def rows_of(name: str, count: int, *, seed: int, keys: int = 60) -> pa.Table:
    """Rows of a relation: keys that repeat, some of them null, and a number each."""
    chance = np.random.default_rng(seed)
    columns = {
        key: pa.array(chance.integers(0, keys, count), pa.int64(), mask=chance.random(count) < 0.05)
        for key in {"a": "k", "b": "kd", "c": "d"}[name]
    }
    return pa.table({**columns, f"n{name}": pa.array(range(count), pa.int64())})


class ManyStreams(Streams):
    """As for two streams, with a relation in each folder."""

    files = 1
    """How many files of a relation a micro-batch takes."""

    def relations(self) -> dict[str, DataFrame]:
        return {name: self.stream(name, self.files) for name in NAMES}

    def joined(self, **changes: Any) -> DataFrame:
        options = {"state": self.path / "state", "ticks": None} | self.options | changes
        return wm.join_many_streams(self.relations(), **options)

    def output(self) -> Rows:
        return counted(self.spark.read.parquet(str(self.path / "out")).select("na", "nb", "nc"))

    def expected(self, how: str = "inner") -> Rows:
        a, b, c = (
            self.spark.read.parquet(str(self.path / name)).where(f"n{name} >= 0") for name in NAMES
        )
        return counted(a.join(b, "k").join(c, "d").select("na", "nb", "nc"))

    def end(self, name: str) -> None:
        row = {column: [None] for column in rows_of(name, 1, seed=0).column_names}
        table = pa.table(row | {f"n{name}": [-1]}, schema=rows_of(name, 1, seed=0).schema)
        self.add(name, table, "zz-end")


@pytest.fixture
def many(spark: SparkSession, tmp_path: Path) -> ManyStreams:
    streams = ManyStreams(spark, tmp_path, dict(OPTIONS))
    for seed, name in enumerate(NAMES):
        (tmp_path / name).mkdir()
        for number in range(2):
            streams.add(name, rows_of(name, 150, seed=10 * seed + number), f"{number:03}")
    return streams


def test_every_combination_comes_once_through_restarts_and_ends(many: ManyStreams) -> None:
    first = many.run()
    assert first == many.expected()
    assert first.total() > 1000
    assert len(many.versions()) == 4
    # a and c go to two instances each, as Spark counts them.
    assert wm.stream_metrics(many.path / "state")[0]["rows_in"][1] == 150
    assert sum(wm.stream_metrics(many.path / "state")[0]["rows_in"]) > 4 * 150

    many.files = 9
    many.add("c", rows_of("c", 80, seed=7), "more")
    many.end("a")
    many.end("c")
    assert many.run() == many.expected()
    for changes, named in (
        ({"on": ["a.k = b.k", "b.k = c.d"]}, "on="),
        ({"instances": 2}, "instances="),
        ({"algorithm": "miner-plain"}, "algorithm="),
        ({"condition": "na < nc"}, "condition="),
    ):
        with pytest.raises(StateError, match=f"made with {named}.*same parameters"):
            many.joined(**changes)
    streams = many.relations()
    renamed = {"x": streams["a"], "b": streams["b"], "c": streams["c"]}
    with pytest.raises(StateError, match=r"made with relations=.*same parameters"):
        wm.join_many_streams(renamed, ["x.k = b.k", "b.d = c.d"], state=many.path / "state")
    with pytest.raises(StateError, match=r"made with on=.*same parameters"):
        wm.join_streams(many.stream("a"), many.stream("b"), "k", state=many.path / "state")

    many.add("b", rows_of("b", 50, seed=8), "more")
    many.end("b")
    assert many.run() == many.expected()
    assert wm.stream_metrics(many.path / "state")[-1]["owed"] == [0, 0, 0]


@pytest.mark.slow
def test_workers_that_are_killed_and_a_query_that_fails(
    many: ManyStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in an instance to which rows are copied."""
    faults = [
        Fault(where, "worker", many.path / f"struck-{where}", batch, instance)
        for where, batch, instance in (("rows", 0, 1), ("after", 0, 2), ("emit", 1, 3))
    ]

    def fail(plan: StreamPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Task.current()
        found = run_batch(plan, batches)
        if (task.batch, task.instance) == (1, 2):
            yield from found
            raise RuntimeError("after its commit")
        yield from found

    with monkeypatch.context() as patched:
        patched.setattr("watersmeet.spark.streams.join.run_batch", fail)
        with pytest.raises(StreamingQueryException, match="after its commit"):
            many.run()
    monkeypatch.setattr("watersmeet.spark.streams.join.run_batch", Faults(faults))
    many.run()
    assert many.output() == many.expected()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_runs_in_turn_give_what_sparks_cascade_gives(many: ManyStreams, seed: int) -> None:
    """Files come at random, memory is tiny; runs end with `availableNow`, or are stopped."""
    chance = random.Random(seed)
    many.options |= {"memory": "4MB", "ticks": "20 milliseconds", "wait_threshold": 0.0}
    for step in range(3):
        for number in range(chance.randrange(1, 4)):
            name = chance.choice(NAMES)
            count = chance.randrange(1, 300)
            many.add(name, rows_of(name, count, seed=100 * step + number), f"{step}-{number}")
        if chance.random() < 0.6:
            query = many.start(trigger={"processingTime": "0 seconds"})
            while not many.outputs() and query.lastProgress is None:
                query.awaitTermination(1)
            query.awaitTermination(chance.choice([1, 2, 4]))
            query.stop()
            if many.outputs():
                assert many.output() <= many.expected()
    many.run()
    assert many.output() == many.expected()
    assert wm.stream_metrics(many.path / "state")[-1]["owed"] == [0, 0, 0]


@pytest.mark.slow
def test_streams_that_are_joined_on_bands_alone_have_one_instance(many: ManyStreams) -> None:
    # Whole numbers that are less than one apart are equal.
    on = [wm.within(("a.k", "b.k"), 0), wm.within(("c.d", "b.d"), 0)]
    assert many.run(on=on, instances=None) == many.expected()
    assert len(many.versions()) == 1
    many.add("a", rows_of("a", 40, seed=11), "more")
    assert many.run(on=on, instances=None) == many.expected()


def test_what_is_wrong_is_said_at_the_call(many: ManyStreams) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"on": ["a.k = b.nope", "b.d = c.d"]}, SchemaError, "The b input has no column 'nope'"),
        ({"on": "a.k = b.k"}, InvalidArgument, "does not connect 'c'"),
        ({"ends": ("na < 0", None, None)}, InvalidArgument, "no dict of conditions"),
        ({"ends": {"d": "na < 0"}}, InvalidArgument, "'d', which is no stream of the join"),
        ({"ends": {"a": "nb < 0"}}, InvalidArgument, r"ends\['a'\].*\n?.*of the a stream"),
        ({"condition": sf.col("na") > 1}, InvalidArgument, "is a Column"),
        ({"algorithm": "rpj"}, InvalidArgument, "joins two inputs"),
        ({"memory": "1MB"}, wm.errors.MemoryTooSmall, "instances on a machine"),
        ({"state": many.path / "c"}, InvalidArgument, "which the c stream is read from"),
        (
            {"on": [wm.within(("a.k", "b.k"), 1), wm.within(("b.d", "c.d"), 1)]},
            InvalidArgument,
            "bands alone cannot be divided among 4 instances",
        ),
    ]
    for changes, error, words in wrong:
        with pytest.raises(error, match=words):
            many.joined(**changes)
    table = many.spark.read.parquet(str(many.path / "a"))
    with pytest.raises(InvalidArgument, match=r"a is a DataFrame .*wm\.join_many for tables"):
        wm.join_many_streams(many.relations() | {"a": table}, CHAIN, state=many.path / "state")


# ---- routing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [(2, 3, 2), (1, 1, 5)])
def test_spark_and_the_kernel_send_rows_to_the_same_instances(
    spark: SparkSession, shares: tuple[int, ...]
) -> None:
    names = ["a", "b", "c", "d"]
    frames = [spark.sql(f"{TABLES[name]} FROM range(60)") for name in names]
    schemas = [arrow_schema(frame, name) for frame, name in zip(frames, names, strict=True)]
    question = asked_many(
        names, ["a.k = b.k", "b.c = c.c", "b.d = d.d"], algorithm="auto", condition=None
    )
    question, settled = settled_many(frames, schemas, question)
    router = HypercubeRouter.of(question.resolve(*settled), Cube(shares))
    for input, frame in enumerate(frames):
        routed = frame.withColumn("instance", router.column(input, frame)).toArrow()
        (batch,) = routed.select(frame.columns).combine_chunks().to_batches()
        order, starts = router.group(input, batch)
        by_kernel: list[set[int]] = [set() for _ in range(len(batch))]
        for instance in range(router.instances):
            for row in order[starts[instance] : starts[instance + 1]]:
                by_kernel[row].add(instance)
        copied = router.is_copied(input)
        by_spark = [each if copied else [each] for each in routed.column("instance").to_pylist()]
        assert {len(cells) for cells in by_kernel} <= {
            0, router.cube.copies(input, router.dimensions)
        }  # fmt: skip
        for mine, theirs in zip(by_kernel, by_spark, strict=True):
            # A row with a null in a key goes to any one.
            assert sorted(mine) == sorted(theirs) if mine else len(theirs) == 1
            assert all(0 <= each < router.instances for each in theirs)


def test_tags_of_many_inputs_are_told_apart() -> None:
    for inputs in (2, 3, 8):
        tags = Tags(inputs)
        kinds = [*range(inputs), *map(tags.end, range(inputs)), tags.settle]
        numbers = [tags.number(instance, kind) for instance in (0, 4095) for kind in kinds]
        found = tags.split(pa.array(numbers, pa.int32()))
        assert found[0].tolist() == [0] * len(kinds) + [4095] * len(kinds)
        assert found[1].tolist() == [*kinds, *kinds]


def test_states_of_two_streams_are_described_as_ever() -> None:
    """States that an earlier version has saved must be known again."""
    left, right = pa.schema({"k": pa.int64()}), pa.schema({"k": pa.int64(), "b": pa.string()})
    settings: dict[str, Any] = {"condition": None, "suffixes": ("", "_right")}
    question = Question.parse("k", "left", algorithm="auto", **settings)
    assert parameters_of(question.resolve(left, right), question, instances=3, cube=None) == {
        "on": [["k", "k"]], "how": "left", "algorithm": "rpj", "instances": 3, "left": ["k: int64"],
        "right": ["k: int64", "b: string"], "condition": None, "suffixes": ["", "_right"],
    }  # fmt: skip
    question = Question.parse(wm.within("k", 2), "inner", algorithm="auto", **settings)
    assert parameters_of(question.resolve(left, right), question, instances=3, cube=None) == {
        "on": [], "bands": ["k within 2"], "routing": "left rows by lanes of 4 bands",
        "how": "inner", "algorithm": "diner", "instances": 3, "left": ["k: int64"],
        "right": ["k: int64", "b: string"], "condition": None, "suffixes": ["", "_right"],
    }  # fmt: skip


# ---- one instance, without Spark ----------------------------------------------------------------

STRUCTS = [
    StructType([StructField(name, LongType()) for name in keys] + [StructField("n", StringType())])
    for keys in ("x", "xy", "y")
]
SCHEMAS = tuple(
    pa.schema([(name, pa.int64()) for name in keys] + [("n", pa.string())])
    for keys in ("x", "xy", "y")
)
WIRE = Wire.of(*STRUCTS)
TAGS = WIRE.tags


def tree_plan(directory: Path, **changes: Any) -> StreamPlan:
    state = StateDirectory.parse(directory)
    state.create()
    question = ManyQuestion.parse(
        NAMES, ["a.x = b.x", "b.y = c.y"], algorithm="miner", condition=None
    )
    return StreamPlan(
        question=question,
        schemas=SCHEMAS,
        wire=WIRE,
        state=state,
        cube=Cube((1, 1)),
        **{
            "spill_dir": None, "instances": 1, "memory": 2**15, "wait_threshold": 0.0,
            "budget": 0.01,
        } | changes,
    )  # fmt: skip


def on_wire(kind: int, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of an input, whose last column is a text, in the slots of the wire."""
    slots: list[list[Any]] = [[None] * len(rows) for _ in WIRE.slots]
    if kind < len(NAMES):
        for column, slot in enumerate(WIRE.places[kind]):
            slots[slot] = [row[column] for row in rows]
    types = [pa.string() if isinstance(slot, StringType) else pa.int64() for slot in WIRE.slots]
    arrays = [pa.array(values, kind_) for values, kind_ in zip(slots, types, strict=True)]
    tags = pa.array([kind] * len(rows), pa.int32())
    return pa.record_batch([tags, *arrays], names=["tag", *(f"c{n}" for n in range(len(slots)))])


def drawn(chance: random.Random, input: int, count: int) -> list[tuple[Any, ...]]:
    keys = len(SCHEMAS[input].names) - 1
    return [
        (
            *(chance.choice([None, *range(30)]) for _ in range(keys)),
            f"{NAMES[input]} {chance.random()} " + "x" * 150,
        )
        for _ in range(count)
    ]


def by_loops(came: list[list[tuple[Any, ...]]]) -> Counter[tuple[str, ...]]:
    found = Counter[tuple[str, ...]]()
    for x, a in came[0]:
        for bx, by, b in came[1]:
            if x is not None and x == bx and by is not None:
                found.update((a, b, c) for y, c in came[2] if y == by)
    return found


def texts(rows: Rows) -> Counter[tuple[str, ...]]:
    """The texts of a result: x, y and n of each input, in the order of the result's columns."""
    found = Counter[tuple[str, ...]]()
    for row, count in rows.items():
        found[tuple(value for value in row if isinstance(value, str))] += count
    return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_whatever_happens_to_workers_every_combination_comes_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a memory that spills, words to settle and stalls, until all inputs have ended."""
    chance = random.Random(seed)
    worker = Worker(tree_plan(tmp_path / "state"), monkeypatch)
    came: list[list[tuple[Any, ...]]] = [[], [], []]
    found = Counter[tuple[str, ...]]()
    owed = []
    for batch in range(12):
        worker.batch = batch
        settles = batch in (4, 8)
        arriving = []
        for input in chance.sample(range(3), chance.randrange(4)):
            rows = drawn(chance, input, chance.randrange(1, 50))
            came[input] += rows
            arriving.append(on_wire(input, rows))
        if settles:
            arriving.append(on_wire(TAGS.settle, [()]))
        if batch == 11:
            arriving += [on_wire(TAGS.end(input), [()]) for input in range(3)]
        if chance.random() < 0.4:
            cache.take(("", 0, 0))  # another worker gets the task
        rows_out = worker.run(chance.sample(arriving, len(arriving)))
        if chance.random() < 0.3:
            assert worker.run(arriving) == rows_out
        found += texts(rows_out)
        owed.append(wm.stream_metrics(worker.plan.state.uri)[-1]["owed"])
        if settles:
            assert owed[-1] == [0, 0, 0]
            assert found == by_loops(came)
    assert found == by_loops(came)
    assert any(map(any, owed))
    assert sum(found.values()) > 100


def test_rows_after_the_end_of_their_stream_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(6)
    worker = Worker(tree_plan(tmp_path / "state"), monkeypatch)
    worker.run([on_wire(0, drawn(chance, 0, 3)), on_wire(TAGS.end(0), [()])])
    worker.batch = 1
    with pytest.raises(StateError, match="The a stream ended in batch 0, and 2 more rows"):
        worker.run([on_wire(0, drawn(chance, 0, 2))])
    cache.take(("", 0, 0))


def test_another_batch_of_the_same_number_is_refused_with_the_names_of_the_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    worker = Worker(tree_plan(tmp_path / "state"), monkeypatch)
    worker.run([on_wire(0, drawn(chance, 0, 3)), on_wire(2, drawn(chance, 2, 1))])
    with pytest.raises(StateError, match="with 3 a, 0 b and 1 c rows, and now has 3, 1 and 1"):
        worker.run([on_wire(n, drawn(chance, n, count)) for n, count in enumerate((3, 1, 1))])
    cache.take(("", 0, 0))
