"""Batches of one instance without Spark: attempts that fail, race or come again, at random."""

from __future__ import annotations

import contextlib
import json
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
from watersmeet.operators.family import ALGORITHMS
from watersmeet.operators.question import Question
from watersmeet.spark import cache
from watersmeet.spark.explain_stream import explain_stream
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.state import InstanceState, StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Tags, Wire
from watersmeet.spark.streams.plan import StreamPlan

LEFT = StructType([StructField("k", LongType()), StructField("a", StringType())])
RIGHT = StructType([StructField("b", StringType()), StructField("k", LongType())])
SCHEMAS = (
    pa.schema({"k": pa.int64(), "a": pa.string()}),
    pa.schema({"b": pa.string(), "k": pa.int64()}),
)
WIRE = Wire.of(LEFT, RIGHT)
ENDS, SETTLE = Tags(2).end(0), Tags(2).settle
Rows = Counter[tuple[Any, ...]]


def make_plan(directory: Path, algorithm: str = "rpj", **changes: Any) -> StreamPlan:
    state = StateDirectory.parse(directory)
    state.create()
    how = changes.pop("how", "full")
    question = Question.parse(
        "k", how, algorithm=algorithm, condition=None, suffixes=("", "_right")
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


def expected(
    inputs: tuple[list[pa.RecordBatch], list[pa.RecordBatch]], how: str = "full outer"
) -> Rows:
    tables = [pa.Table.from_batches(batches) for batches in inputs]
    left = tables[0].select(["c0", "c1"]).rename_columns(["k", "a"])
    right = tables[1].select(["c1", "c0"]).rename_columns(["b", "k"])
    joined = left.join(right, "k", join_type=how).select(["k", "a", "b"])
    return Counter(tuple(row.values()) for row in joined.to_pylist())


# Every mechanism twice, and the two that differ most as often as it takes to meet every failure.
ATTEMPTS = [
    pytest.param(seed, name, marks=[pytest.mark.slow] if seed > (2 if often else 0) else [])
    for name, often in {
        "rpj": True, "pr-join": True, "hmj": False, "pmj": False, "hash-ripple": False,
    }.items()
    for seed in range(6)
]  # fmt: skip


@pytest.mark.parametrize(("seed", "algorithm"), ATTEMPTS)
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
        worker.run([wire_batch(1 << 3, [1])])
    worker.batch = 1
    with pytest.raises(StateError, match="moved"):
        worker.run([wire_batch(1 << 3, [1])])


# ---- batches of the same number -----------------------------------------------------------------


def test_the_same_batch_in_another_order_is_the_same(worker: Worker) -> None:
    batches = [wire_batch(0, [1, None, 2]), wire_batch(1, [1, 2]), wire_batch(0, [1, 1], first=3)]
    rows = worker.run(batches)
    upside_down = [batch.take(pa.array(range(len(batch) - 1, -1, -1))) for batch in batches]
    assert worker.run(upside_down[::-1]) == rows
    together = pa.Table.from_batches(batches).combine_chunks().to_batches()
    assert worker.run(together) == rows
    cache.take(("", 0, 0))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([(0, [1], 0), (1, [1, 2], 0)], "1 and 2"),
        ([(0, [1, 2], 0)], "2 and 0"),
        ([], "0 and 0"),
        ([(0, [1, 2], 0), (1, [1, 1], 0)], "as many others"),
        ([(0, [1, 2], 0), (1, [1, 2], 5)], "as many others"),
        ([(1, [1, 2], 0), (0, [1, 2], 7)], "as many others"),
        ([(0, [1, 2], 0), (1, [1, 2], 0), (ENDS, [None], 0)], "as many others"),
    ],
)
def test_another_batch_of_the_same_number_is_an_error(
    worker: Worker, others: list[tuple[int, list[int | None], int]], words: str
) -> None:
    worker.run([wire_batch(1, [7])])
    worker.batch = 1
    worker.run([wire_batch(0, [1, 2]), wire_batch(1, [1, 2])])
    with pytest.raises(StateError, match=f"{words}.*older than the state.*remove 00000001.json"):
        worker.run([wire_batch(*other) for other in others])
    cache.take(("", 0, 0))


def test_a_row_that_comes_twice_is_not_the_row(worker: Worker) -> None:
    """Twice the same hash: were they combined by exclusive or, nothing would be left of it."""
    worker.run([wire_batch(0, [5, 6, 6]), wire_batch(0, [5])])
    with pytest.raises(StateError, match="as many others"):
        worker.run([wire_batch(0, [7, 6, 6]), wire_batch(0, [7])])
    cache.take(("", 0, 0))


def test_the_advice_to_take_the_state_back_works(worker: Worker, tmp_path: Path) -> None:
    """Version 1 is removed, as the error says, and batch 1 is made with other rows."""
    first = worker.run([wire_batch(0, [1, 2])])
    worker.batch = 1
    worker.run([wire_batch(1, [1])])
    (tmp_path / "state" / "instance-0000" / "00000001.json").unlink()
    rows = worker.run([wire_batch(1, [2, 2, 3])])
    assert (first + rows).total() == 2
    worker.batch = 2
    ends = worker.run([wire_batch(ENDS, [None]), wire_batch(ENDS + 1, [None])])
    assert ends.total() == 2  # left 1 and right 3


def test_a_checkpoint_older_than_what_is_kept_is_told_so(worker: Worker) -> None:
    for batch in range(4):
        worker.batch = batch
        worker.run([wire_batch(0, [batch])])
    worker.batch = 1
    with pytest.raises(StateError, match=r"oldest that is kept is 2: the checkpoint is older"):
        worker.run([wire_batch(0, [1])])
    worker.batch = 2
    with pytest.raises(StateError, match=r"Batch 2 came .* as old as the checkpoint\.$"):
        worker.run([wire_batch(0, [9])])
    worker.batch = 9
    with pytest.raises(StateError, match=r"needs version 8.*newest there is 3.*older one"):
        worker.run([wire_batch(0, [1])])
    cache.take(("", 0, 0))


def test_of_two_queries_that_begin_at_once_one_goes_on(tmp_path: Path) -> None:
    """Each of them is the first to come to one of the instances."""
    state = StateDirectory.parse(tmp_path)
    state.create()
    owners = {state.claim(query) for query in ("one", "another", "one")}
    assert owners == {"one"}


def test_another_query_is_refused_before_it_does_harm(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.plan.state.claim("the first")
    with pytest.raises(StateError, match="belongs to query the first, and this is query"):
        worker.run([wire_batch(0, [1])])
    assert worker.plan.state.instances() == []


# ---- what is owed -------------------------------------------------------------------------------


def settling() -> pa.RecordBatch:
    return wire_batch(SETTLE, [None])


def latest(plan: StreamPlan) -> dict[str, Any]:
    return stream_metrics(plan.state.uri)[-1]


# Of each mechanism one, and of those that join in stages two.
STAND_FOR_OTHERS = ("rpj", "xjoin", "pr-join", "diner")


@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=() if name in STAND_FOR_OTHERS else pytest.mark.slow)
        for name in ALGORITHMS
        if name != "shj"
    ],
)
def test_the_word_to_settle_leaves_nothing_owed(
    algorithm: str, tmp_path: Path, worker: Worker
) -> None:
    worker.plan = make_plan(tmp_path / "state", algorithm, how="inner", wait_threshold=1e9)
    chance = random.Random(algorithm)
    inputs: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    found: Rows = Counter()
    owed = []
    for batch in range(9):
        worker.batch = batch
        arriving = []
        for side in (0, 1):
            keys: list[int | None] = [chance.randrange(60) for _ in range(90)]
            inputs[side].append(wire_batch(side, keys, sum(map(len, inputs[side]))))
            arriving.append(inputs[side][-1])
        if batch % 3 == 2:
            arriving.append(settling())
        found += worker.run(chance.sample(arriving, len(arriving)))
        owed.append(sum(latest(worker.plan)["owed"]))
        if batch % 3 == 2:
            assert found == expected(inputs, "inner")
            assert owed[-1] == 0
        if chance.random() < 0.3:
            cache.take(("", 0, 0))
    assert sum(owed) > 0
    cache.take(("", 0, 0))


def test_stalls_pay_all_that_is_owed_and_no_more_is_asked_for(
    tmp_path: Path, worker: Worker
) -> None:
    """With a policy that leaves most of it to the clean-up, which a stream never comes to."""
    worker.plan = make_plan(tmp_path / "state", "xjoin", how="inner")
    sides = [[wire_batch(side, [n % 50] * 20, first=20 * n) for n in range(20)] for side in (0, 1)]
    found = worker.run([*chain(*sides)])
    owed = [sum(latest(worker.plan)["owed"])]
    while owed[-1]:
        worker.batch += 1
        found += worker.run([])
        owed.append(sum(latest(worker.plan)["owed"]))
        assert worker.batch < 5000
    assert owed[0] > 0
    assert found == expected((sides[0], sides[1]), "inner")
    cache.take(("", 0, 0))


# ---- growth -------------------------------------------------------------------------------------


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


def instance_manifest(instance: Path, version: int) -> dict[str, Any]:
    text = (instance / f"{version:08}.json").read_text()
    manifest: dict[str, Any] = json.loads(text.split("\n")[1])
    return manifest


@pytest.mark.parametrize("batches", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_small_batches_leave_no_more_behind_than_some(
    batches: int, worker: Worker, tmp_path: Path
) -> None:
    worker.plan = make_plan(tmp_path / "state", how="inner", wait_threshold=1e9)
    instance = tmp_path / "state" / "instance-0000"
    manifests, files = [], []
    for batch in range(batches):
        worker.batch = batch
        keys: list[int | None] = [(7 * batch + n) % 5000 for n in range(24)]
        worker.run([wire_batch(side, keys, 24 * batch) for side in (0, 1)])
        operator = instance_manifest(instance, batch)["operator"]
        manifests.append(len(json.dumps(operator)))
        files.append(len(list((instance / "files").iterdir())))
    assert max(manifests[-50:]) <= 1.5 * max(manifests[30:80])
    assert max(files[-50:]) <= 1.5 * max(files[30:80])
    flushes = sum(batch["flushes"] for batch in stream_metrics(worker.plan.state.uri))
    assert flushes > 50
    cache.take(("", 0, 0))


def test_a_state_explains_what_was_read_owed_and_flushed(worker: Worker) -> None:
    """In little memory, so that rows spill; then the left side ends, and all that is owed comes."""
    state = worker.plan.state.uri
    assert "no batch" in explain_stream(state)
    worker.run([wire_batch(0, list(range(300))), wire_batch(1, list(range(100, 500)))])
    words = " ".join(explain_stream(state).split())
    assert "join full, left with right, on k; query query, 1 instance" in words
    assert "algorithm rpj, " in words
    record = stream_metrics(state)[0]
    assert "300 left and 400 right rows so far" in words
    assert f"spills {record['rows_spilled']:,} rows, " in words
    assert f"{record['rows_out']:,} rows: " in words
    assert "0: 300 left and 400 right rows, " in words
    assert str(record["latest_flushes"][-1]) in words
    owed = [
        f"{rows:,} {name}" for rows, name in zip(record["owed"], ("left", "right"), strict=True)
    ]
    assert f"owed {' and '.join(owed)} rows on disk" in words
    worker.batch = 1
    worker.run([wire_batch(SETTLE, [None]), wire_batch(ENDS, [None])])
    words = " ".join(explain_stream(state).split())
    assert "300 left and 400 right rows, left ended in batch 1, so far" in words
    assert "owed nothing" in words
    assert "1: no rows, " in words
    assert "2 so far" in words
