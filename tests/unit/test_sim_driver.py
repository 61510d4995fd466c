"""The driver, with the real operators: time never falls, nothing is lost, runs repeat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.family import make_operator
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.sim.charges import Disk, Processor
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.delays import Delay, Fixed, Fragments, ZipfDelay
from watersmeet.sim.domain import join_schema
from watersmeet.sim.driver import Driver
from watersmeet.sim.keys import UniformKeys
from watersmeet.sim.meter import Meter
from watersmeet.sim.schedule import Schedule
from watersmeet.sim.trace import Trace
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

PATIENCE = 0.025
DISK = Disk(random=0.001, sequential=0.0001, page_rows=10)
UNRELIABLE = ZipfDelay()


def schedule(delay: Delay, *, rows: int = 3_000, seed: int = 1) -> Schedule:
    keys = (UniformKeys(60), UniformKeys(60))
    rng = np.random.default_rng(seed)
    return Schedule.mixed(delay, keys, rows=rows, speed_ratio=1.0, rng=rng)


class Bench:
    """Runs operators of small memory, and keeps the last one for a look at its metrics."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.operator: JoinOperator | None = None

    def run(
        self,
        arrivals: Schedule,
        *,
        algorithm: str = "rpj",
        processor: Processor | None = None,
        batch_rows: int = 20,
        memory_rows: int = 400,
        hand_over_rows: int = 1,
        cleans_up: bool = True,
    ) -> Trace:
        meter = Meter(VirtualClock(), disk=DISK, processor=processor or Processor())
        spill = SpillArea(self.directory, observe=meter.observe)
        self.operator = make_operator(
            algorithm,
            join_schema(),
            memory=MemoryAccount(2**24),
            spill=spill,
            clock=meter.clock,
            tuning=Tuning(
                partitions=4,
                memory_rows=memory_rows,
                whole_tasks=True,
                costs=Costs(random=DISK.random, sequential=DISK.sequential),
                page_rows=DISK.page_rows,
            ),
        )
        driver = Driver(
            self.operator,
            arrivals,
            meter=meter,
            patience=PATIENCE,
            batch_rows=batch_rows,
            hand_over_rows=hand_over_rows,
            cleans_up=cleans_up,
        )
        try:
            return driver.run()
        finally:
            self.operator.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path)
    assert not list(tmp_path.iterdir()), "an operator left spilled files behind"


@pytest.mark.parametrize(
    "algorithm", ["rpj", "rpj-md", "rpj-dd", "hmj", "xjoin", "pmj", "shj", "diner", "diner-plain"]
)
def test_every_algorithm_delivers_the_exact_join(bench: Bench, algorithm: str) -> None:
    arrivals = schedule(UNRELIABLE)
    roomy = 10_000 if algorithm == "shj" else 400
    trace = bench.run(arrivals, algorithm=algorithm, memory_rows=roomy)
    assert trace.total == arrivals.join_size()


@pytest.mark.parametrize("algorithm", ["rpj", "hmj", "xjoin"])
def test_time_results_and_work_never_fall(bench: Bench, algorithm: str) -> None:
    trace = bench.run(schedule(UNRELIABLE), algorithm=algorithm)
    for line in (trace.time, trace.results, trace.work):
        assert np.all(np.diff(line) >= 0)
    assert trace.transmission_end <= trace.cleanup_start <= trace.time[-1]
    assert 0 < trace.first_flush < trace.transmission_end
    assert trace.work[-1] <= trace.time[-1]  # one processor, one disk, never both at once


def test_the_same_seed_gives_the_same_curve_to_the_row(bench: Bench) -> None:
    first = bench.run(schedule(UNRELIABLE, seed=3))
    again = bench.run(schedule(UNRELIABLE, seed=3))
    assert np.array_equal(first.time, again.time)
    assert np.array_equal(first.results, again.results)
    assert np.array_equal(first.work, again.work)
    other = bench.run(schedule(UNRELIABLE, seed=4))
    assert not np.array_equal(first.results, other.results)


def test_a_reliable_network_never_lends_a_stall(bench: Bench) -> None:
    trace = bench.run(schedule(Fixed(0.001)))
    assert bench.operator is not None
    results = bench.operator.metrics.results
    assert results[Stage.MD] == results[Stage.DD] == 0
    assert results[Stage.MM] > 0
    assert trace.results_at(np.array([trace.cleanup_start]))[0] == results[Stage.MM]


def test_a_stall_longer_than_patience_is_used_to_join_from_disk(bench: Bench) -> None:
    silent = Fragments(rows=500, interval=0.001, gap=60.0)
    trace = bench.run(schedule(silent))
    assert bench.operator is not None
    results = bench.operator.metrics.results
    assert results[Stage.MD] + results[Stage.DD] > 0
    # The stall after row 1000 starts at 60.998 + patience; whatever comes out then is its work.
    before, after = trace.results_at(np.array([60.998 + PATIENCE, 120.9]))
    assert after > before


def test_rows_due_during_a_long_task_wait_and_are_not_lost(bench: Bench) -> None:
    slow = Processor(arrival=1e-6, candidate=0.0, result=0.0, spilled_row=0.002)
    arrivals = schedule(UNRELIABLE)
    trace = bench.run(arrivals, algorithm="hmj", processor=slow)
    assert trace.total == arrivals.join_size()
    assert trace.cleanup_start > trace.transmission_end  # the last task ran past the last arrival


def test_a_loop_that_may_let_rows_wait_hands_over_when_so_many_do(bench: Bench) -> None:
    arrivals = schedule(Fragments(rows=100, interval=0.001, gap=0.03))
    hasty = bench.run(arrivals, algorithm="diner-plain")
    patient = bench.run(arrivals, algorithm="diner-plain", hand_over_rows=20)
    # It looks up after every block of a hundred rows, which takes some milliseconds.
    assert 0 < hasty.most_waiting < 20
    assert 20 <= patient.most_waiting < 40
    assert hasty.total == patient.total == arrivals.join_size()


def test_without_a_clean_up_the_run_ends_with_the_last_arrival(bench: Bench) -> None:
    arrivals = schedule(UNRELIABLE)
    whole = bench.run(arrivals)
    online = bench.run(arrivals, cleans_up=False)
    assert online.time[-1] == online.cleanup_start == whole.cleanup_start
    assert online.total == whole.results_at(np.array([whole.cleanup_start]))[0] < whole.total


@pytest.mark.parametrize("batch_rows", [1, 7, 20])
def test_batches_change_only_how_finely_results_are_dated(bench: Bench, batch_rows: int) -> None:
    arrivals = schedule(Fixed(0.001), rows=1_500)
    trace = bench.run(arrivals, batch_rows=batch_rows)
    single = bench.run(arrivals, batch_rows=1)
    assert trace.total == single.total
    # Before the first flush the two have done the same work, give or take one batch.
    instants = np.linspace(0.05, min(trace.first_flush, single.first_flush) - 0.03, 20)
    assert np.all(trace.results_at(instants) <= single.results_at(instants))
    assert np.all(trace.results_at(instants + 0.021) >= single.results_at(instants))


def test_processor_time_hides_behind_the_wait_for_rows(bench: Bench) -> None:
    # 0.5 ms of work per row, a row every 1 ms: the last row is done 0.5 ms after it arrived.
    price = Processor(arrival=0.0005, candidate=0.0, result=0.0, spilled_row=0.0)
    arrivals = schedule(Fixed(0.001), rows=100)
    trace = bench.run(arrivals, algorithm="shj", processor=price)
    assert trace.cleanup_start == pytest.approx(arrivals.arrive[-1] + 0.0005)
    assert trace.work[-1] == pytest.approx(100 * 0.0005)


def test_an_overloaded_processor_falls_behind_by_what_it_lacks(bench: Bench) -> None:
    price = Processor(arrival=0.003, candidate=0.0, result=0.0, spilled_row=0.0)
    arrivals = schedule(Fixed(0.001), rows=100)
    trace = bench.run(arrivals, algorithm="shj", processor=price)
    assert trace.cleanup_start == pytest.approx(100 * 0.003)


def test_a_clock_does_not_go_backwards() -> None:
    clock = VirtualClock(5.0)
    clock.wait_until(1.0)
    assert clock() == 5.0
    with pytest.raises(InvalidArgument):
        clock.advance(-0.1)
    with pytest.raises(InvalidArgument):
        clock.advance(float("nan"))


def test_a_trace_tells_what_had_been_delivered_at_any_instant() -> None:
    trace = Trace(
        time=np.array([1.0, 2.0, 4.0]),
        results=np.array([0, 10, 40]),
        work=np.array([0.5, 1.0, 2.0]),
        first_flush=1.0,
        transmission_end=2.0,
        cleanup_start=3.0,
    )
    assert trace.results_at(np.array([0.5, 2.0, 3.9, 9.0])).tolist() == [0, 10, 10, 40]
    cost = trace.cost_at(np.array([1.0, 2.0, 4.0]))
    assert np.isnan(cost[0])
    assert cost[1:].tolist() == [0.1, 0.05]
    assert trace.share_before_cleanup == 0.25
