"""One algorithm over one workload, to the last arrival or to the last result."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from watersmeet.operators.family import make_operator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.reproduce import online
from watersmeet.reproduce.diner.settings import (
    DINER,
    HANDING_OVER,
    Experiments,
    Parameters,
    Workload,
)
from watersmeet.reproduce.online import OnlineRun
from watersmeet.rows.spans import within
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.domain import join_schema
from watersmeet.sim.driver import Driver
from watersmeet.sim.meter import Meter
from watersmeet.sim.schedule import Schedule
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

ACCOUNT_BYTES = 768 * 2**20
"""Memory for everything but rows in memory, which `memory_rows` limits."""


Run = OnlineRun[Workload]
Runs = dict[tuple[Workload, str], Run]


@lru_cache(maxsize=1)
def schedule_of(workload: Workload, seed: int) -> tuple[Schedule, int]:
    """The rows that arrive, the same for every algorithm and every size of memory, and the size of
    their join."""
    rng = np.random.default_rng([seed, *workload.name.encode()])
    delays = (workload.delay, workload.delay)
    schedule = Schedule.of_networks(delays, workload.keys, rows=workload.rows, rng=rng)
    return schedule, schedule.join_size(width=workload.width)


def run_algorithm(algorithm: str, workload: Workload, *, parameters: Parameters) -> Run:
    began = time.perf_counter()
    schedule, exact = schedule_of(workload, parameters.seed)
    meter = Meter(
        VirtualClock(),
        disk=parameters.disk,
        processor=parameters.processor,
        scans_in_order=algorithm == DINER,
    )
    operator = make_operator(
        HANDING_OVER.get(algorithm, algorithm),
        join_schema(within("key", workload.width) if workload.width else "key"),
        memory=MemoryAccount(ACCOUNT_BYTES),
        spill=SpillArea(observe=meter.observe),
        clock=meter.clock,
        tuning=tuning_of(algorithm, workload, parameters),
    )
    try:
        trace = Driver(
            operator,
            schedule,
            meter=meter,
            # Steady arrivals leave no stall long enough.
            patience=parameters.patience if workload.pause else float("inf"),
            batch_rows=parameters.batch_rows,
            hand_over_rows=parameters.max_new if algorithm in (DINER, *HANDING_OVER) else 1,
            cleans_up=workload.to_the_end,
        ).run()
    finally:
        operator.close()
    return Run(workload, algorithm, trace, exact, time.perf_counter() - began)


def tuning_of(algorithm: str, workload: Workload, parameters: Parameters) -> Tuning:
    memory_rows = workload.memory_rows
    if workload.pause:
        # Blocks that are loaded in a stall are part of memory. Ten runs of either relation, which
        # the others merge, need a block each, as many as DINER's default.
        memory_rows -= (workload.outer_blocks + 1) * parameters.block_rows
    memory_rows = max(memory_rows, 4 * parameters.block_rows)
    # DINER flushes a block; XJoin evicts one partition and HMJ one pair; only RPJ has an `nflush`.
    share = {DINER: parameters.block_rows / memory_rows, "rpj": parameters.rpj_flush_share}
    name = HANDING_OVER.get(algorithm, algorithm)
    return Tuning(
        partitions=parameters.partitions,
        flush_share=share.get(name, 0.0),
        fan_in=parameters.fan_in,
        decay=parameters.decay,
        costs=Costs(random=parameters.disk.random, sequential=parameters.disk.sequential),
        page_rows=parameters.disk.page_rows,
        whole_tasks=algorithm not in HANDING_OVER,
        memory_rows=memory_rows,
        outer_blocks=workload.outer_blocks,
    )


def run_all(experiments: Experiments, *, jobs: int, say: Callable[[str], None]) -> Runs:
    """Run everything that a figure needs, and say a line for each."""
    one = partial(_run_planned, parameters=experiments.parameters)
    return online.run_all(one, experiments.plan(), jobs=jobs, say=say)


def _run_planned(planned: tuple[Workload, str], *, parameters: Parameters) -> Run:
    workload, algorithm = planned
    return run_algorithm(algorithm, workload, parameters=parameters)
