"""Batches of one instance without Spark: attempts that fail, race or come again, at random."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from watersmeet.errors import StateError
from watersmeet.operators.question import Question
from watersmeet.spark import cache
from watersmeet.spark.streams.host import run_batch
from watersmeet.spark.streams.plan import StreamPlan, Task
from watersmeet.spark.streams.state import InstanceState, StateDirectory
from watersmeet.spark.streams.wire import ENDS, Wire

LEFT = StructType([StructField("k", LongType()), StructField("a", StringType())])
RIGHT = StructType([StructField("b", StringType()), StructField("k", LongType())])
SCHEMAS = (
    pa.schema({"k": pa.int64(), "a": pa.string()}),
    pa.schema({"b": pa.string(), "k": pa.int64()}),
)
WIRE = Wire.of(LEFT, RIGHT)
Rows = Counter[tuple[Any, ...]]


def make_plan(directory: Path, algorithm: str = "rpj", **changes: Any) -> StreamPlan:
    state = StateDirectory.parse(directory)
    state.create()
    question = Question.parse(
        "k", "full", algorithm=algorithm, condition=None, suffixes=("", "_right")
    )
    (directory / "spill").mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "spill_dir": str(directory / "spill"),
        "instances": 1,
        "memory": 2**15,
        "wait_threshold": 0.0,
        "budget": 0.01,
    }
    return StreamPlan(
        question=question, schemas=SCHEMAS, wire=WIRE, state=state, **settings | changes
    )


def wire_batch(kind: int, keys: list[int | None], first: int = 0) -> pa.RecordBatch:
    texts = [f"{'ab'[kind % 2]}{first + n} " + "x" * 150 for n in range(len(keys))]
    return pa.record_batch(
        [
            pa.array([kind] * len(keys), pa.int32()),
            pa.array(keys, pa.int64()),
            pa.array(texts, pa.string()),
        ],
        names=["tag", "c0", "c1"],
    )


class Worker:
    """Runs attempts as a Spark task would, and counts what each has emitted."""

    def __init__(self, plan: StreamPlan, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan = plan
        self.batch = 0
        self.attempts = 0
        monkeypatch.setattr(Task, "current", self.task)

    def task(self) -> Task:
        self.attempts += 1
        return Task("query", self.batch, 0, str(self.attempts))

    def run(self, batches: list[pa.RecordBatch]) -> Rows:
        return emitted(run_batch(self.plan, iter(batches)))


def emitted(batches: Iterator[pa.RecordBatch]) -> Rows:
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


class Failure(Exception):
    pass


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    yield Worker(make_plan(tmp_path / "state"), monkeypatch)
    cache.take(("", 0, 0))
    spilled = tmp_path / "state" / "spill"
    assert not spilled.exists() or not list(spilled.iterdir())


def expected(inputs: tuple[list[pa.RecordBatch], list[pa.RecordBatch]]) -> Rows:
    tables = [pa.Table.from_batches(batches) for batches in inputs]
    left = tables[0].select(["c0", "c1"]).rename_columns(["k", "a"])
    right = tables[1].select(["c1", "c0"]).rename_columns(["b", "k"])
    joined = left.join(right, "k", join_type="full outer").select(["k", "a", "b"])
    return Counter(tuple(row.values()) for row in joined.to_pylist())


@pytest.mark.parametrize("algorithm", ["rpj", "hmj", "pmj"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_attempts_every_row_comes_once(
    seed: int, algorithm: str, tmp_path: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    worker.plan = make_plan(tmp_path / "state", algorithm)
    inputs: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    found: Rows = Counter()
    for batch in range(12):
        worker.batch = batch
        arriving = []
        for _ in range(chance.randrange(4)):
            side = chance.randrange(2)
            keys = [chance.choice([None, *range(40)]) for _ in range(chance.randrange(1, 60))]
            first = sum(map(len, inputs[side]))
            inputs[side].append(wire_batch(side, keys, first))
            arriving.append(inputs[side][-1])
        if batch == 10:
            arriving += [wire_batch(ENDS, [None]), wire_batch(ENDS + 1, [None])]
        while chance.random() < 0.5:
            # Of this attempt nobody hears, even if it gets through.
            with contextlib.suppress(Failure), monkeypatch.context() as patched:
                fail_somewhere(chance, patched)
                worker.run(chance.sample(arriving, len(arriving)))
        if chance.random() < 0.4:
            cache.take(("", 0, 0))  # another worker gets the task
        rows = worker.run(chance.sample(arriving, len(arriving)))
        if chance.random() < 0.3:
            assert worker.run(arriving) == rows
        found += rows
        if batch == 10:
            break
    assert found == expected(inputs)


def fail_somewhere(chance: random.Random, patched: pytest.MonkeyPatch) -> None:
    put, commit = InstanceState.put, InstanceState.commit
    files = chance.randrange(5)

    def failing_put(state: InstanceState, path: Path) -> str:
        nonlocal files
        files -= 1
        if files < 0:
            raise Failure
        return put(state, path)

    def failing_commit(state: InstanceState, version: int, manifest: Any) -> bool:
        raise Failure

    def failing_afterwards(state: InstanceState, version: int, manifest: Any) -> bool:
        commit(state, version, manifest)
        raise Failure

    patched.setattr(InstanceState, "put", failing_put)
    patched.setattr(InstanceState, "commit", chance.choice([failing_commit, failing_afterwards]))


def test_of_two_attempts_at_once_both_emit_the_same(worker: Worker, tmp_path: Path) -> None:
    """Alone they would not: rows that come in another order are spilled at other times."""
    sides = [[wire_batch(side, [n % 50] * 20, first=20 * n) for n in range(20)] for side in (0, 1)]
    one_by_one, one_then_other = [*chain(*zip(*sides, strict=True))], [*chain(*sides)]
    other: list[Rows] = []

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield one_then_other[0]
        other.append(worker.run(one_by_one))
        yield from one_then_other[1:]

    mine = emitted(run_batch(worker.plan, overtaken()))
    assert [mine] == other
    worker.plan = make_plan(tmp_path / "alone")
    assert worker.run(one_then_other) != mine
    cache.take(("", 0, 0))


def test_reading_stops_early_and_the_batch_is_committed_all_the_same(worker: Worker) -> None:
    batches = [wire_batch(0, [1] * 50), wire_batch(1, [1] * 50)]
    reading = run_batch(worker.plan, iter(batches))
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert worker.run(batches).total() == 2500


def test_an_instance_that_was_left_out_is_missed_by_its_neighbour(
    worker: Worker, tmp_path: Path
) -> None:
    worker.plan = make_plan(tmp_path / "two", instances=2)
    worker.run([wire_batch(0, [1])])
    worker.batch = 1
    with pytest.raises(StateError, match=r"version 0 of .*instance-0001.*show\(\)"):
        worker.run([wire_batch(0, [1])])


def test_rows_of_another_instance_are_refused_also_the_second_time(worker: Worker) -> None:
    worker.run([wire_batch(0, [1])])
    with pytest.raises(StateError, match="moved"):
        worker.run([wire_batch(1 << 2, [1])])
    worker.batch = 1
    with pytest.raises(StateError, match="moved"):
        worker.run([wire_batch(1 << 2, [1])])


def test_the_state_stays_as_small_as_what_it_holds(worker: Worker, tmp_path: Path) -> None:
    sizes = []
    for batch in range(40):
        worker.batch = batch
        worker.run([wire_batch(batch % 2, [batch] * 20, first=20 * batch)])
        files = list((tmp_path / "state" / "instance-0000" / "files").iterdir())
        sizes.append(sum(path.stat().st_size for path in files))
    rows_bytes = 800 * 180
    assert max(sizes) < 6 * rows_bytes
    assert len(list((tmp_path / "state" / "instance-0000").glob("*.json"))) == 2
