"""One algorithm over one workload, to the last arrival or to the last result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from watersmeet.operators.family import make_operator
from watersmeet.operators.tree.join import TreeJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.reproduce import online
from watersmeet.reproduce.diner.runs import ACCOUNT_BYTES
from watersmeet.reproduce.diner.settings import MAX_OUTER, Parameters
from watersmeet.reproduce.miner.relations import arrivals_of, join_size, schema_of
from watersmeet.reproduce.miner.settings import HERE, MJOIN, Experiments, Workload
from watersmeet.reproduce.online import OnlineRun
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.driver import Driver
from watersmeet.sim.meter import Meter
from watersmeet.store.account import MemoryAccount
from watersmeet.store.sorted_index import SortedIndex
from watersmeet.store.spill import SpillArea


@dataclass(frozen=True, eq=False)
class Run(OnlineRun[Workload]):
    """`index_bytes`: of all indexes together, when the last row has been processed."""

    index_bytes: int


Runs = dict[tuple[Workload, str], Run]


def run_algorithm(algorithm: str, workload: Workload, *, parameters: Parameters) -> Run:
    began = time.perf_counter()
    meter = Meter(
        VirtualClock(),
        disk=parameters.disk,
        processor=parameters.processor,
        # Blocks that are skipped lie between those that are read.
        scans_in_order=algorithm != HERE,
    )
    operator = make_operator(
        algorithm,
        schema_of(workload),
        memory=MemoryAccount(ACCOUNT_BYTES),
        spill=SpillArea(observe=meter.observe),
        clock=meter.clock,
        tuning=tuning_of(algorithm, workload, parameters),
    )
    try:
        trace = Driver(
            operator,
            arrivals_of(workload, parameters.seed),
            meter=meter,
            # Steady arrivals leave no stall long enough.
            patience=parameters.patience if workload.pause else float("inf"),
            batch_rows=parameters.batch_rows,
            hand_over_rows=parameters.max_new,
            cleans_up=workload.to_the_end,
            charges_pauses=True,
        ).run()
        assert isinstance(operator, TreeJoin)
        index_bytes = _index_bytes(operator)
    finally:
        operator.close()
    exact = join_size(workload, parameters.seed)
    return Run(workload, algorithm, trace, exact, time.perf_counter() - began, index_bytes)


def tuning_of(algorithm: str, workload: Workload, parameters: Parameters) -> Tuning:
    memory_rows = workload.memory_rows
    if workload.pause:
        # Blocks that are loaded in a stall are part of memory: one of each inner input, too.
        memory_rows -= (MAX_OUTER + workload.inputs - 1) * parameters.block_rows
    memory_rows = max(memory_rows, 4 * parameters.block_rows)
    return Tuning(
        partitions=parameters.partitions,
        # MINER flushes a block, and MJoin one partition of all inputs.
        flush_share=0.0 if algorithm == MJOIN else parameters.block_rows / memory_rows,
        costs=Costs(random=parameters.disk.random, sequential=parameters.disk.sequential),
        page_rows=parameters.disk.page_rows,
        memory_rows=memory_rows,
        outer_blocks=MAX_OUTER,
    )


def _index_bytes(operator: TreeJoin) -> int:
    tables = operator.workspace.memory.tables
    return sum(len(table) * len(table.orders) for table in tables) * SortedIndex.BYTES


def run_all(experiments: Experiments, *, jobs: int, say: Callable[[str], None]) -> Runs:
    """Run everything that a figure needs, and say a line for each."""
    one = partial(_run_planned, parameters=experiments.parameters)
    return online.run_all(one, experiments.plan(), jobs=jobs, say=say)


def _run_planned(planned: tuple[Workload, str], *, parameters: Parameters) -> Run:
    workload, algorithm = planned
    return run_algorithm(algorithm, workload, parameters=parameters)
