"""Enrichments whose keys are divided among threads: the same rows, whatever happens."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.local.enriching import MASTER, SOON, STREAM, TYPES
from tests.local.inputs import PATIENCE_S, Gate, batches, sides
from tests.local.oracle import expected, rows_of
from tests.local.test_threads import instance_threads, parts
from watersmeet.errors import ConditionFailed, InvalidArgument, MemoryTooSmall, SourceFailed
from watersmeet.local.dividing import bounds_of
from watersmeet.local.enriching import ThreadedEnrichDriver
from watersmeet.operators.family import ENRICHING
from watersmeet.operators.semistream.join import SemiStreamJoin


@dataclass(frozen=True)
class Schedule:
    """A small stream, how it arrives, and how it meets a small master."""

    rows: int
    keys: int
    sizes: list[int]
    how: str
    algorithm: str
    threads: int
    patience: float
    seed: int

    def check(self) -> None:
        stream, master = sides(300, keys=self.keys, seed=self.seed)
        stream = stream.slice(0, self.rows)
        if self.algorithm == "cmeshjoin":  # For masters whose keys are unique.
            master = pa.table({"k": np.arange(30), "b": np.arange(30)})
        run = wm.local.enrich(
            pa.RecordBatchReader.from_batches(stream.schema, parts(stream, self.sizes)),
            master,
            "k",
            self.how,
            algorithm=self.algorithm,
            memory="4MB",
            threads=self.threads,
            wait_threshold=self.patience,
        )
        assert rows_of(run.read_all()) == expected(stream, master, self.how)
        assert run.metrics.rows_in == [self.rows, len(master)]
        assert run._driver.memory.used == 0
        assert not instance_threads()


schedules = st.builds(
    Schedule,
    rows=st.integers(0, 300),
    keys=st.sampled_from([1, 2, 40]),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=3),
    how=st.sampled_from(TYPES),
    algorithm=st.sampled_from(["auto", *ENRICHING]),
    threads=st.sampled_from([2, 3]),
    patience=st.sampled_from([0.0, 0.025]),
    seed=st.integers(0, 3),
)


@settings(max_examples=12)
@given(schedules)
def test_any_schedule_gives_the_rows_of_the_oracle(schedule: Schedule) -> None:
    schedule.check()


@pytest.mark.slow
@settings(max_examples=300)
@given(schedules)
def test_any_of_many_schedules_gives_the_rows_of_the_oracle(schedule: Schedule) -> None:
    schedule.check()


def check_larger(how: str = "left", algorithm: str = "auto", *, threads: int = 2) -> Any:
    """A master that does not fit in memory, whose rows of a key fill several blocks."""
    stream, master = sides(60_000)
    master = pa.concat_tables([master, pa.table({"k": np.full(3_000, 7), "b": np.arange(3_000)})])
    master = master.append_column("text", pa.array(["x" * 40] * len(master)))
    run = wm.local.enrich(
        batches(stream, 500), master, "k", how,
        algorithm=algorithm, memory="2MB", threads=threads,
    )  # fmt: skip
    found = run.read_all()
    wanted = expected(stream, master.select(["k", "b"]), how)
    assert rows_of(found.select(range(min(3, found.num_columns)))) == wanted
    assert run.metrics.blocks_read > 10
    assert run.metrics.memory_peak <= 2**21
    return run


@pytest.mark.parametrize(
    ("how", "algorithm"),
    [
        ("left", "auto"),
        pytest.param("inner", "ssbj", marks=pytest.mark.slow),
        pytest.param("anti", "meshjoin", marks=pytest.mark.slow),
        pytest.param("semi", "auto", marks=pytest.mark.slow),
    ],
)
def test_a_master_larger_than_memory_is_read_by_all_in_parts(how: str, algorithm: str) -> None:
    run = check_larger(how, algorithm)
    driver = run._driver
    assert isinstance(driver, ThreadedEnrichDriver)
    joins = [worker.operator for worker in driver.instances.workers]
    blocks = [len(join.workspace.master) for join in joins if isinstance(join, SemiStreamJoin)]
    assert len(driver.master) <= sum(blocks) <= len(driver.master) + 1
    assert max(blocks) < 0.7 * len(driver.master)


def test_each_code_is_in_one_range() -> None:
    bounds = bounds_of(3)
    assert bounds[0] == 0
    assert (np.diff(bounds.astype(object)) > 2**62).all()


def test_rows_are_answered_while_the_stream_is_silent() -> None:
    gate = Gate(batches(STREAM.slice(0, 500)), batches(STREAM.slice(500)))
    run = wm.local.enrich(gate, MASTER, "k", "left", wait_threshold=SOON, threads=2)
    first = expected(STREAM.slice(0, 500), MASTER, "left")
    found: list[pa.RecordBatch] = []
    while sum(map(len, found)) < first.total():
        found.append(next(run))
    assert rows_of(pa.Table.from_batches(found)) == first
    assert not gate.is_open
    gate.open()
    found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER, "left")


# ---- leaving and failing ------------------------------------------------------------------------


def leave_with(run: wm.local.LocalEnrich) -> None:
    with pytest.raises(ZeroDivisionError), run:
        raise ZeroDivisionError


@pytest.mark.parametrize("leave", [wm.local.LocalEnrich.close, leave_with, list])
def test_nothing_is_left_after(leave: Any, tmp_path: Path) -> None:
    stream, master = sides(30_000)
    run = wm.local.enrich(stream, master, "k", memory="2MB", threads=2, spill_dir=tmp_path)
    next(run)
    assert instance_threads()
    leave(run)
    assert not list(tmp_path.iterdir())
    assert not instance_threads()
    assert run._driver.memory.used == 0


def test_another_thread_may_close_it_while_it_waits(tmp_path: Path) -> None:
    gate = Gate(batches(STREAM), [])
    run = wm.local.enrich(gate, MASTER, "k", spill_dir=tmp_path, threads=2)
    reading = threading.Thread(target=_read, args=(run,), daemon=True)
    reading.start()
    assert gate.reached.wait(PATIENCE_S)
    run.close()
    reading.join(PATIENCE_S)
    assert not reading.is_alive()
    assert not instance_threads()
    assert not list(tmp_path.iterdir())
    gate.open()


def _read(run: wm.local.LocalEnrich) -> None:
    with contextlib.suppress(wm.errors.RunClosed):
        list(run)


def test_an_error_in_one_instance_stops_all(tmp_path: Path) -> None:
    def fails(batch: pa.RecordBatch) -> pa.Array:
        if pc.any(pc.equal(batch["k"], 7)).as_py():
            raise ZeroDivisionError("seven")
        return pa.array([True] * batch.num_rows)

    stream, master = sides(4_000, keys=50)
    run = wm.local.enrich(stream, master, "k", condition=fails, spill_dir=tmp_path, threads=2)
    with pytest.raises(ConditionFailed):
        list(run)
    assert not instance_threads()
    assert not list(tmp_path.iterdir())


def test_a_stream_that_raises_comes_last_with_its_own_error(tmp_path: Path) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM.slice(0, 250), 50)
        raise ConnectionError("line cut")

    run = wm.local.enrich(cut(), MASTER, "k", "left", spill_dir=tmp_path, threads=2)
    found: list[pa.RecordBatch] = []
    with pytest.raises(SourceFailed, match="ConnectionError: line cut"):
        found += run
    wanted = expected(STREAM.slice(0, 250), MASTER, "left")
    assert rows_of(pa.Table.from_batches(found)) == wanted
    assert not instance_threads()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"threads": 0}, InvalidArgument, "threads=0 is no number"),
        ({"threads": 4, "memory": "3MB"}, MemoryTooSmall, "too little for 4 threads"),
    ],
)
def test_what_cannot_be_is_refused_at_the_call(
    more: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        wm.local.enrich(STREAM, MASTER, "k", **more)


def test_it_says_what_it_did() -> None:
    plan = wm.plan_enrich(STREAM, MASTER, "k", memory="4MB")
    run = wm.local.enrich(STREAM, MASTER, "k", memory="4MB", threads=2)
    assert "nothing has been read" in run.explain()
    run.read_all()
    words = " ".join(run.explain(plan).split())
    for part in ("2 threads join", "cache", "blocks", "MESHJOIN", "1 version so far"):
        assert part in words
    assert "rows a second of processor time" in words
