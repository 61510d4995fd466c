"""Joins whose keys are divided among threads: the same rows, whatever happens."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.local.inputs import Gate, batches, sides
from tests.local.leaving import close_while_it_waits, leave_with
from tests.local.oracle import expected, rows_of
from tests.local.threaded import (
    Schedule,
    arriving,
    check_nothing_is_left,
    fails_at_seven,
    instance_threads,
    schedules,
)
from watersmeet.errors import (
    ConditionFailed,
    InvalidArgument,
    PromiseBroken,
    RunClosed,
    SourceFailed,
)
from watersmeet.local import LocalJoin, threaded
from watersmeet.local.instances import Instances, InstanceShares
from watersmeet.local.news import Arrived
from watersmeet.local.threaded import ThreadedDriver
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import ALGORITHMS

SPILLING, SPILLING_ROWS = "2MB", 30_000
"""Memory for two threads, in which these rows do not fit."""
MANY = sides(SPILLING_ROWS)
FEW = sides(500, keys=60)


class JoinSchedule(Schedule):
    def check(self) -> None:
        left, right = self.tables()
        run = wm.local.join(
            arriving(left, self.sizes),
            arriving(right, self.sizes[::-1]),
            "k",
            self.how,
            algorithm=self.algorithm,
            memory="16MB",
            threads=self.threads,
            wait_threshold=self.patience,
        )
        assert rows_of(run.read_all()) == expected(left, right, self.how)
        assert run.metrics.rows_in == list(self.rows)
        assert not instance_threads()


any_schedule = schedules(
    JoinSchedule,
    rows=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    how=st.sampled_from([str(how) for how in JoinType]),
    algorithm=st.sampled_from(list(ALGORITHMS)),
    threads=st.sampled_from([1, 2, 3]),
)


@settings(max_examples=12)
@given(any_schedule)
def test_any_schedule_gives_the_rows_of_the_oracle(schedule: JoinSchedule) -> None:
    schedule.check()


@pytest.mark.slow
@settings(max_examples=300)
@given(any_schedule)
def test_any_of_many_schedules_gives_the_rows_of_the_oracle(schedule: JoinSchedule) -> None:
    schedule.check()


def check_spilling(algorithm: str = "rpj", how: str = "inner", *, threads: int = 2) -> Any:
    """A join of more rows than fit in memory; returns its run."""
    left, right = MANY
    run = wm.local.join(
        iter(batches(left)),
        iter(batches(right)),
        "k",
        how,
        algorithm=algorithm,
        memory=SPILLING,
        threads=threads,
        wait_threshold=0.001,
    )
    assert rows_of(run.read_all()) == expected(left, right, how)
    assert run.metrics.rows_spilled
    assert run._driver.memory.peak <= run._driver.memory.limit
    assert run._driver.memory.used == 0
    return run


FAST = {("rpj", "inner"), ("pmj", "full"), ("pr-join", "inner"), ("diner", "left")}


@pytest.mark.parametrize(
    ("algorithm", "how"),
    [
        pytest.param(name, how, marks=[] if (name, how) in FAST else [pytest.mark.slow])
        for name in ALGORITHMS
        if name != "shj"
        for how in ("inner", "full", "left", "anti")
    ],
)
def test_what_does_not_fit_is_spilled_by_every_instance(algorithm: str, how: str) -> None:
    check_spilling(algorithm, how)


def test_a_key_that_has_all_rows_has_all_memory() -> None:
    """One instance has all rows. They would not fit in half of the memory."""
    rows = 60_000
    left = pa.table({"k": np.full(rows, 7), "a": np.arange(rows)})
    right = pa.table({"k": [7, 8], "b": [0, 1]})
    shares, each = InstanceShares(8 * 2**20, 2), 60
    assert shares.rows // 2 < each * rows < shares.most
    run = wm.local.join(iter(batches(left)), iter(batches(right)), "k", memory="8MB", threads=2)
    found = run.read_all()
    assert found.num_rows == rows
    assert pc.sum(found["a"]).as_py() == rows * (rows - 1) // 2
    assert not run.metrics.rows_spilled


def test_an_instance_that_has_more_than_its_part_gives_it_back() -> None:
    """First all rows are of one key, then of all others."""
    first = pa.table({"k": np.full(20_000, 7), "a": np.arange(20_000)})
    later = pa.table({"k": np.arange(8, 30_008), "a": np.arange(30_000)})
    left = pa.concat_tables([first, later])
    right = pa.table({"k": np.arange(30_000), "b": np.arange(30_000)})
    gate = Gate([], batches(right))
    reader = pa.RecordBatchReader.from_batches(right.schema, iter(gate))

    def opening() -> Iterator[pa.RecordBatch]:
        yield from batches(left)
        gate.open()

    run = wm.local.join(opening(), reader, "k", memory=SPILLING, threads=2, wait_threshold=9)
    assert rows_of(run.read_all()) == expected(left, right)
    assert run._driver.memory.peak <= run._driver.memory.limit
    assert isinstance(run._driver, ThreadedDriver)
    spilled = [worker.operator.metrics.rows_spilled for worker in run._driver.instances.workers]
    assert all(spilled)


# ---- leaving and failing ------------------------------------------------------------------------


def spilling(directory: Path) -> wm.local.LocalJoin:
    run = wm.local.join(*MANY, on="k", memory=SPILLING, spill_dir=directory, threads=2)
    while not run.metrics.rows_spilled:
        next(run)
    assert instance_threads()
    return run


@pytest.mark.parametrize("leave", [wm.local.LocalJoin.close, leave_with, list])
def test_nothing_is_left_after(leave: Any, tmp_path: Path) -> None:
    run = spilling(tmp_path)
    leave(run)
    check_nothing_is_left(tmp_path)
    assert run.metrics.rows_out
    assert run._driver.memory.used == 0


def test_breaking_out_of_a_loop_is_enough(tmp_path: Path) -> None:
    for _ in wm.local.join(*MANY, on="k", memory=SPILLING, spill_dir=tmp_path, threads=2):
        break
    gc.collect()
    check_nothing_is_left(tmp_path)


def test_another_thread_may_close_it_while_it_waits(tmp_path: Path) -> None:
    gate = Gate(batches(MANY[1])[:1], [])
    run = wm.local.join(MANY[0], gate, on="k", spill_dir=tmp_path, threads=2)
    assert len(close_while_it_waits(run, gate)) == 1
    check_nothing_is_left(tmp_path)
    gate.open()


def test_an_error_in_one_instance_stops_all_and_is_raised_once(tmp_path: Path) -> None:
    left, right = sides(4_000, keys=50)
    run = wm.local.join(left, right, "k", condition=fails_at_seven, spill_dir=tmp_path, threads=2)
    with pytest.raises(ConditionFailed) as caught:
        list(run)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    check_nothing_is_left(tmp_path)
    with pytest.raises(RunClosed, match="has failed"):
        next(run)


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_source_that_raises_comes_last_with_its_own_error(how: str, tmp_path: Path) -> None:
    left, right = FEW

    def cut() -> Iterator[pa.RecordBatch]:
        yield from batches(right.slice(0, 250), 50)
        while not run._driver.complete[Side.LEFT]:
            threading.Event().wait(0.001)
        raise ConnectionError("line cut")

    run = wm.local.join(left, cut(), "k", how, spill_dir=tmp_path, threads=2)
    found: list[pa.RecordBatch] = []
    with pytest.raises(SourceFailed, match="ConnectionError: line cut") as caught:
        found += run
    got = rows_of(pa.Table.from_batches(found, schema=run.schema))
    wanted = expected(left, right.slice(0, 250), how)
    # A left row without a partner may have had one to come.
    assert got == {row: n for row, n in wanted.items() if row[0] is None or row[2] is not None}
    assert caught.value.rows_out == sum(got.values())
    check_nothing_is_left(tmp_path)


# ---- what works, and what is refused ------------------------------------------------------------


def test_batches_as_large_as_memory() -> None:
    """The inputs borrow from all instances."""
    left, right = MANY
    run = wm.local.join(
        iter(batches(left, SPILLING_ROWS)), iter(batches(right, 20_000)), "k",
        memory=SPILLING, threads=2,
    )  # fmt: skip
    assert rows_of(run.read_all()) == expected(left, right)


@pytest.mark.parametrize("algorithm", ["auto", "rpj"])
def test_bands_beside_keys(algorithm: str) -> None:
    left, right = FEW
    on: Any = ["k", wm.within(("a", "b"), 40)]
    one, two = (
        wm.local.join(left, right, on, algorithm=algorithm, threads=n).read_all() for n in (1, 2)
    )
    assert one.num_rows
    assert rows_of(one) == rows_of(two)


def test_keys_of_other_types_meet_in_one_instance() -> None:
    left = pa.table({"k": pa.array(range(200), pa.int16()), "t": [f"t{n}" for n in range(200)]})
    right = pa.table(
        {"k": pa.array(range(200), pa.float64()), "t": pa.array([f"t{n}" for n in range(200)])}
    )
    assert wm.local.join(left, right, "k", threads=3).read_all().num_rows == 200
    assert wm.local.join(left, right, ["k", "t"], threads=3).read_all().num_rows == 200
    categories = right.set_column(1, "t", right["t"].dictionary_encode())
    assert wm.local.join(left, categories, "t", threads=3).read_all().num_rows == 200


def test_promises_are_kept_by_all_together() -> None:
    """A row is late by the rows of all instances, and rows go as promises say."""
    rows = 2_000
    left = pa.table({"k": np.arange(rows) % 97, "at": np.arange(rows)})
    right = pa.table({"k": np.arange(rows) % 97, "at": np.arange(rows)})
    on: Any = ["k", wm.within("at", 5)]
    promises = [wm.ordered(side, "at") for side in ("left", "right")]
    run = wm.local.join(
        iter(batches(left, 100)), iter(batches(right, 100)), on,
        promises=promises, purge="memory", threads=2,
    )  # fmt: skip
    assert run.read_all().num_rows == rows
    assert run.metrics.rows_purged
    late = pa.concat_tables([left, left.slice(3, 1)])
    with pytest.raises(PromiseBroken):
        wm.local.join(late, right, on, promises=promises, threads=2).read_all()
    dropped = wm.local.join(late, right, on, promises=promises, threads=2, on_broken="drop")
    assert dropped.read_all().num_rows == rows
    assert dropped.metrics.broken_promises == 1
    assert not instance_threads()


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"threads": 0}, InvalidArgument, "threads=0 is no number"),
        ({"threads": True}, InvalidArgument, "threads=True is no number"),
        ({"threads": "all"}, InvalidArgument, "threads='all' is no number"),
        ({"threads": 2, "on": wm.within(("a", "b"), 1)}, InvalidArgument, "this join has none"),
        (
            {"threads": 2, "promises": [wm.unique("left", "k")], "punctuations": "over"},
            InvalidArgument,
            "punctuations='over'",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_the_call(
    more: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        wm.local.join(*FEW, **{"on": "k", **more})


@pytest.mark.parametrize(
    ("memory", "asked", "used"),
    [("1MB", 256, 1), ("47MB", 2, 1), ("48MB", 2, 2), ("71MB", 3, 2)],
)
@pytest.mark.parametrize("kind", ["join", "join_many", "enrich"])
def test_each_thread_has_24_megabytes_or_there_are_fewer(
    kind: str, memory: str, asked: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "LEAST_EACH", 24 * 2**20)
    options: dict[str, Any] = {"memory": memory, "threads": asked}
    if kind == "join_many":
        run: LocalJoin = wm.local.join_many({"a": FEW[0], "b": FEW[1]}, "k", **options)
    else:
        run = getattr(wm.local, kind)(*FEW, "k", **options)
    with run:
        next(run)
        assert run._driver.threads == used
        assert len(instance_threads()) == (used if used > 1 else 0)
        words = " ".join(run.explain().split())
        assert f"{used} thread" in words
        assert (f"{asked} were asked for" in words) == (used < asked)


def test_users_have_threads_from_24_megabytes_each() -> None:
    """Tests in this folder have them from one."""
    program = "from watersmeet.local import threaded; print(threaded.LEAST_EACH)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(found.stdout) == 24 * 2**20


def test_explain_says_how_many_threads_join() -> None:
    with wm.local.join(*FEW, "k", threads=2) as run:
        next(run)
        assert "2 threads" in " ".join(run.explain().split())
        assert len(run.metrics.statistics()["arrival_probabilities"]) == 2


@pytest.mark.parametrize("kind", ["join", "join_many", "enrich"])
@pytest.mark.parametrize("moment", ["in the middle of the start", "right behind it"])
def test_control_c_while_threads_start_leaves_none(
    kind: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has the operator yet."""
    start = Instances.start

    def interrupted(self: Instances) -> None:
        if moment == "right behind it":
            start(self)
        else:
            self.workers[0].start()
        raise KeyboardInterrupt

    monkeypatch.setattr(Instances, "start", interrupted)
    options: dict[str, Any] = {"threads": 2, "spill_dir": tmp_path}
    if kind == "join_many":
        run: LocalJoin = wm.local.join_many({"a": FEW[0], "b": FEW[1]}, "k", **options)
    else:
        run = getattr(wm.local, kind)(*FEW, "k", **options)
    with pytest.raises(KeyboardInterrupt):
        next(run)
    assert not instance_threads()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("read", "others_wait", "taken"),
    [([50, 49], True, 1), ([50, 50], True, 5), ([49, 50], True, 5), ([50, 0], False, 5)],
)
def test_an_input_that_is_ahead_is_taken_a_batch_at_a_time(
    read: list[int], others_wait: bool, taken: int
) -> None:
    """Unless no rows of the other wait. By rates of arrival that differ for no reason, `rpj` would
    spill all rows of one side again and again."""
    left, right = FEW
    with wm.local.join(iter([]), iter([]), "k", threads=2) as run:
        driver = run._driver
        assert isinstance(driver, ThreadedDriver)
        for side, table in zip(Side, (left, right) if others_wait else (left,), strict=False):
            for batch in batches(table.slice(0, 50), 10):
                driver._inbox.put(side, batch)
        driver.rows_read = read
        first = driver._inbox.take(None)
        assert isinstance(first, Arrived)
        assert first.input == Side.LEFT
        assert len(driver._with_more(first)) == taken
