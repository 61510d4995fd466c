"""One algorithm over one setting, from the first arrival to the last result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from watersmeet.operators.family import make_operator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.reproduce.jobs import each
from watersmeet.reproduce.rpj.settings import (
    RIVALS,
    VARIANTS,
    Network,
    Parameters,
    Setting,
    settings,
)
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.domain import join_schema, partition_members
from watersmeet.sim.driver import Driver
from watersmeet.sim.keys import PartitionedKeys
from watersmeet.sim.meter import Meter
from watersmeet.sim.schedule import Schedule
from watersmeet.sim.trace import Trace
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

ACCOUNT_BYTES = 768 * 2**20
"""Memory for everything but rows in memory, which `memory_rows` limits.

In clean-up a third of it holds one block of 256 KiB for each run, so that about 1000 runs can be
read together: as many as the paper's memory has pages.
"""


@dataclass(frozen=True, eq=False)
class Run:
    """What one algorithm did in one setting. `exact` is the size that its result must have."""

    setting: Setting
    algorithm: str
    trace: Trace
    results: Mapping[str, int]
    flushes: int
    exact: int
    seconds: float


Runs = dict[tuple[Setting, str], Run]


@lru_cache(maxsize=1)
def schedule_of(setting: Setting, parameters: Parameters) -> Schedule:
    """The rows that arrive. They depend on the seed and the setting only, so that they are the same
    for every algorithm."""
    members = partition_members(parameters.partitions, parameters.keys_per_partition)
    rng = np.random.default_rng([parameters.seed, *f"{setting.network} {setting.name}".encode()])
    left, right = setting.pattern.weights
    return Schedule.mixed(
        setting.network.delay,
        (PartitionedKeys(members, left), PartitionedKeys(members, right)),
        rows=parameters.rows,
        speed_ratio=setting.speed_ratio,
        rng=rng,
    )


def run_algorithm(algorithm: str, setting: Setting, *, parameters: Parameters) -> Run:
    began = time.perf_counter()
    schedule = schedule_of(setting, parameters)
    meter = Meter(VirtualClock(), disk=parameters.disk, processor=parameters.processor)
    spill = SpillArea(observe=meter.observe)
    operator = make_operator(
        algorithm,
        join_schema(),
        memory=MemoryAccount(ACCOUNT_BYTES),
        spill=spill,
        clock=meter.clock,
        tuning=tuning_of(algorithm, parameters),
    )
    try:
        trace = Driver(
            operator,
            schedule,
            meter=meter,
            patience=parameters.patience,
            batch_rows=parameters.batch_rows,
        ).run()
    finally:
        operator.close()
    return Run(
        setting,
        algorithm,
        trace,
        results=dict(operator.metrics.results),
        flushes=operator.metrics.flush_count,
        exact=schedule.join_size(),
        seconds=time.perf_counter() - began,
    )


def tuning_of(algorithm: str, parameters: Parameters) -> Tuning:
    # XJoin evicts one partition and HMJ one pair (section 2); only RPJ has an `nflush`.
    share = 0.0 if algorithm in RIVALS else parameters.flush_share
    return Tuning(
        partitions=parameters.partitions,
        flush_share=share,
        fan_in=parameters.fan_in,
        decay=parameters.decay,
        costs=Costs(random=parameters.disk.random, sequential=parameters.disk.sequential),
        page_rows=parameters.disk.page_rows,
        whole_tasks=parameters.whole_tasks,
        memory_rows=parameters.memory_rows,
        distinct=parameters.partitions * parameters.keys_per_partition,
    )


def run_all(parameters: Parameters, *, jobs: int, say: Callable[[str], None]) -> Runs:
    """Run every algorithm of figures 8 to 12 in every setting, and say a line for each."""
    planned = plan()
    runs: Runs = {}
    one = partial(_run_planned, parameters=parameters)
    for number, run in enumerate(each(one, planned, jobs=jobs), start=1):
        runs[run.setting, run.algorithm] = run
        say(_line(run, f"{number:>2}/{len(planned)}"))
    return runs


def plan() -> list[tuple[Setting, str]]:
    """What must be simulated: figures 8 and 9 show the same simulations, and so do 10 to 12."""
    compared = {
        Network.RELIABLE: ("rpj", *RIVALS),
        Network.UNRELIABLE: ("rpj", *RIVALS, *VARIANTS),
    }
    return [
        (setting, algorithm)
        for network, algorithms in compared.items()
        for setting in settings(network)
        for algorithm in algorithms
    ]


def _run_planned(planned: tuple[Setting, str], *, parameters: Parameters) -> Run:
    setting, algorithm = planned
    return run_algorithm(algorithm, setting, parameters=parameters)


def _line(run: Run, number: str) -> str:
    trace = run.trace
    return (
        f"{number}  {run.setting.network:<10}  {run.setting.name:<11}  {run.algorithm:<6}  "
        f"{trace.total:>11,} results  {100 * trace.share_before_cleanup:5.1f}% before clean-up  "
        f"{trace.time[-1]:>8,.0f} virtual s  {run.seconds:6.1f} s"
    )
