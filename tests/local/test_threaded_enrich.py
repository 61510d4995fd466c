"""Enrichments whose keys are divided among threads: the same rows, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.local.enriching import MASTER, STREAM, TYPES, check_larger, check_silence
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
from watersmeet.errors import ConditionFailed, InvalidArgument, SourceFailed
from watersmeet.local.dividing import bounds_of
from watersmeet.local.enriching import ThreadedEnrichDriver
from watersmeet.operators.family import ENRICHING
from watersmeet.operators.semistream.join import SemiStreamJoin


class EnrichSchedule(Schedule):
    """A small stream, and a small master whose rows all come."""

    def check(self) -> None:
        stream, master = self.tables()
        if self.algorithm == "cmeshjoin":  # For masters whose keys are unique.
            master = pa.table({"k": np.arange(30), "b": np.arange(30)})
        run = wm.local.enrich(
            arriving(stream, self.sizes),
            master,
            "k",
            self.how,
            algorithm=self.algorithm,
            memory="4MB",
            threads=self.threads,
            wait_threshold=self.patience,
        )
        assert rows_of(run.read_all()) == expected(stream, master, self.how)
        assert run.metrics.rows_in == [len(stream), len(master)]
        assert run._driver.memory.used == 0
        assert not instance_threads()


any_schedule = schedules(
    EnrichSchedule,
    rows=st.tuples(st.integers(0, 300), st.just(300)),
    how=st.sampled_from(TYPES),
    algorithm=st.sampled_from(["auto", *ENRICHING]),
    threads=st.sampled_from([2, 3]),
)


@settings(max_examples=12)
@given(any_schedule)
def test_any_schedule_gives_the_rows_of_the_oracle(schedule: EnrichSchedule) -> None:
    schedule.check()


@pytest.mark.slow
@settings(max_examples=300)
@given(any_schedule)
def test_any_of_many_schedules_gives_the_rows_of_the_oracle(schedule: EnrichSchedule) -> None:
    schedule.check()


def check_several_blocks(how: str = "left", algorithm: str = "auto", *, threads: int = 2) -> Any:
    """A master whose rows of a key fill several blocks."""
    stream, master = sides(60_000)
    master = pa.concat_tables([master, pa.table({"k": np.full(3_000, 7), "b": np.arange(3_000)})])
    return check_larger(stream, master, how, memory=2**21, algorithm=algorithm, threads=threads)


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
    run = check_several_blocks(how, algorithm)
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
    check_silence(threads=2)


# ---- leaving and failing ------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [wm.local.LocalEnrich.close, leave_with, list])
def test_nothing_is_left_after(leave: Any, tmp_path: Path) -> None:
    stream, master = sides(30_000)
    run = wm.local.enrich(stream, master, "k", memory="2MB", threads=2, spill_dir=tmp_path)
    next(run)
    assert instance_threads()
    leave(run)
    check_nothing_is_left(tmp_path)
    assert run._driver.memory.used == 0


def test_another_thread_may_close_it_while_it_waits(tmp_path: Path) -> None:
    gate = Gate(batches(STREAM), [])
    run = wm.local.enrich(gate, MASTER, "k", spill_dir=tmp_path, threads=2)
    close_while_it_waits(run, gate)
    check_nothing_is_left(tmp_path)
    gate.open()


def test_an_error_in_one_instance_stops_all(tmp_path: Path) -> None:
    stream, master = sides(4_000, keys=50)
    run = wm.local.enrich(
        stream, master, "k", condition=fails_at_seven, spill_dir=tmp_path, threads=2
    )
    with pytest.raises(ConditionFailed):
        list(run)
    check_nothing_is_left(tmp_path)


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
    check_nothing_is_left(tmp_path)


def test_what_is_no_number_of_threads_is_refused_at_the_call() -> None:
    with pytest.raises(InvalidArgument, match="threads=0 is no number"):
        wm.local.enrich(STREAM, MASTER, "k", threads=0)


def test_it_says_what_it_did() -> None:
    plan = wm.plan_enrich(STREAM, MASTER, "k", memory="4MB")
    run = wm.local.enrich(STREAM, MASTER, "k", memory="4MB", threads=2)
    assert "nothing has been read" in run.explain()
    run.read_all()
    words = " ".join(run.explain(plan).split())
    for part in ("2 threads join", "cache", "blocks", "MESHJOIN", "1 version so far"):
        assert part in words
    assert "rows a second of processor time" in words
