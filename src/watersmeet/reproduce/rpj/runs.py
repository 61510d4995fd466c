"""One algorithm over one setting, from the first arrival to the last result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from watersmeet.operators.family import make_operator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.reproduce.rpj.settings import (
    RIVALS,
    VARIANTS,
    Network,
    Parameters,
    Setting,
    settings,
)
from watersmeet.rows.address import Index, Stage
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.domain import join_schema, partition_members
from watersmeet.sim.driver import Driver
from watersmeet.sim.keys import PartitionedKeys
from watersmeet.sim.meter import Meter
from watersmeet.sim.schedule import Schedule
from watersmeet.sim.trace import Trace
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

BYTES_PER_ROW = 1024
"""Generous on purpose: `memory_rows` is the cap here, the byte account only records."""


@dataclass(frozen=True, eq=False)
class Run:
    """What one algorithm did in one setting. `exact` is the size that its result must have."""

    setting: Setting
    algorithm: str
    trace: Trace
    results: Mapping[Stage, int]
    flushes: int
    exact: int
    seconds: float


Runs = dict[tuple[Setting, str], Run]


def schedule_of(setting: Setting, parameters: Parameters, members: Index) -> Schedule:
    """The same rows for every algorithm: the seed and the setting decide, nothing else."""
    rng = np.random.default_rng([parameters.seed, *f"{setting.network} {setting.name}".encode()])
    left, right = setting.pattern.weights
    return Schedule.mixed(
        setting.network.delay,
        (PartitionedKeys(members, left), PartitionedKeys(members, right)),
        rows=parameters.rows,
        speed_ratio=setting.speed_ratio,
        rng=rng,
    )


def run_algorithm(
    algorithm: str,
    schedule: Schedule,
    *,
    setting: Setting,
    parameters: Parameters,
    exact: int,
    spill_dir: Path | None = None,
) -> Run:
    began = time.perf_counter()
    meter = Meter(VirtualClock(), disk=parameters.disk, processor=parameters.processor)
    spill = SpillArea(spill_dir, observe=meter.observe)
    operator = make_operator(
        algorithm,
        join_schema(),
        memory=MemoryAccount(parameters.memory_rows * BYTES_PER_ROW),
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
        results = dict(operator.metrics.results)
        flushes = operator.metrics.flush_count
    finally:
        operator.close()
        spill.close()
    return Run(
        setting,
        algorithm,
        trace,
        results=results,
        flushes=flushes,
        exact=exact,
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
        whole_tasks=True,
        memory_rows=parameters.memory_rows,
        distinct=parameters.partitions * parameters.keys_per_partition,
    )


def run_all(parameters: Parameters, *, say: Callable[[str], None]) -> Runs:
    """Every algorithm of figures 8 to 12 in every setting, one line said for each."""
    members = partition_members(parameters.partitions, parameters.keys_per_partition)
    runs: Runs = {}
    for number, (setting, algorithms) in enumerate(plan(), start=1):
        schedule = schedule_of(setting, parameters, members)
        exact = schedule.join_size()
        for algorithm in algorithms:
            run = run_algorithm(
                algorithm, schedule, setting=setting, parameters=parameters, exact=exact
            )
            runs[setting, algorithm] = run
            say(_line(run, number))
    return runs


def plan() -> Iterator[tuple[Setting, tuple[str, ...]]]:
    for setting in settings(Network.RELIABLE):
        yield setting, ("rpj", *RIVALS)
    for setting in settings(Network.UNRELIABLE):
        yield setting, ("rpj", *RIVALS, *VARIANTS)


def _line(run: Run, number: int) -> str:
    trace = run.trace
    return (
        f"{number}/8  {run.setting.network:<10}  {run.setting.name:<11}  {run.algorithm:<6}  "
        f"{trace.total:>11,} results  {100 * trace.share_before_cleanup:5.1f}% before clean-up  "
        f"{trace.time[-1]:>8,.0f} virtual s  {run.seconds:6.1f} s"
    )
