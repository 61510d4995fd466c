"""Section 6.2: PR-Join beside RPJ on streams, with RPJ's simulator and settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from watersmeet.operators.family import make_operator
from watersmeet.operators.tuning import Tuning
from watersmeet.reproduce.jobs import each
from watersmeet.reproduce.prjoin.settings import Parameters
from watersmeet.reproduce.rpj.runs import ACCOUNT_BYTES, tuning_of
from watersmeet.reproduce.rpj.settings import Parameters as RpjParameters
from watersmeet.reproduce.rpj.settings import Pattern
from watersmeet.sim.charges import Disk, Processor
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.delays import Delay, Fixed, ZipfDelay
from watersmeet.sim.domain import join_schema, partition_members
from watersmeet.sim.driver import Driver
from watersmeet.sim.keys import PartitionedKeys
from watersmeet.sim.meter import Meter
from watersmeet.sim.schedule import Schedule
from watersmeet.sim.trace import Trace
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

SHARE = 0.2
"""The fraction of the paper's 2 million rows that is used at scale 1."""

PAGE_ROWS = 85
"""Records of 12 bytes in a page of 1024."""

MEMORY_ROWS = 1000 * PAGE_ROWS
PARTITIONS = 40
"""The fewest partitions of PR-Join whose largest, of one stream, is smaller than memory."""

FREE = Processor(arrival=0.0, candidate=0.0, result=0.0, spilled_row=0.0)
"""Only I/O is charged, as in the paper's analysis (section 2)."""


@dataclass(frozen=True)
class Stream:
    name: str
    caption: str
    delay: Delay
    pattern: Pattern = Pattern.HARMONY
    speed_ratio: int = 1
    reliable: bool = True


SLOW = Stream("slow", "slow streams, a tuple every 1 ms", Fixed(0.001))
FAST = Stream("fast", "fast streams, 100 tuples every 1 ms", Fixed(0.00001))
REVERSED = Stream("reverse", "slow, reverse", Fixed(0.001), pattern=Pattern.REVERSE)
FIVE = Stream("5:1", "slow, one stream 5x faster", Fixed(0.001), speed_ratio=5)
UNRELIABLE = Stream("unreliable", "unreliable streams", ZipfDelay(0.001, 0.03), reliable=False)

STREAMS = (SLOW, FAST, REVERSED, FIVE, UNRELIABLE)
ALGORITHMS = ("pr-join", "rpj")


@dataclass(frozen=True, eq=False)
class StreamRun:
    stream: Stream
    algorithm: str
    trace: Trace
    exact: int
    seconds: float


StreamRuns = dict[tuple[Stream, str], StreamRun]


def stream_parameters(parameters: Parameters) -> RpjParameters:
    """Pages and their access times shrink with the streams, as in RPJ's reproduction."""
    return RpjParameters(
        scale=float(np.clip(SHARE * parameters.scale, 0.001, 1.0)),
        seed=parameters.seed,
        full_disk=Disk(page_rows=PAGE_ROWS),
        processor=FREE,
    )


def run_stream(planned: tuple[Stream, str], *, parameters: Parameters) -> StreamRun:
    began = time.perf_counter()
    stream, algorithm = planned
    scaled = stream_parameters(parameters)
    members = partition_members(scaled.partitions, scaled.keys_per_partition)
    left, right = stream.pattern.weights
    schedule = Schedule.mixed(
        stream.delay,
        (PartitionedKeys(members, left), PartitionedKeys(members, right)),
        rows=scaled.rows,
        speed_ratio=stream.speed_ratio,
        rng=np.random.default_rng([parameters.seed, *stream.name.encode()]),
    )
    meter = Meter(VirtualClock(), disk=scaled.disk, processor=scaled.processor)
    memory_rows = round(MEMORY_ROWS * scaled.scale)
    tuning = (
        replace(tuning_of("rpj", scaled), memory_rows=memory_rows)
        if algorithm == "rpj"
        else Tuning(partitions=PARTITIONS, memory_rows=memory_rows)
    )
    operator = make_operator(
        algorithm,
        join_schema(),
        memory=MemoryAccount(ACCOUNT_BYTES),
        spill=SpillArea(observe=meter.observe),
        clock=meter.clock,
        tuning=tuning,
    )
    try:
        trace = Driver(
            operator,
            schedule,
            meter=meter,
            patience=scaled.patience,
            batch_rows=scaled.batch_rows,
        ).run()
    finally:
        operator.close()
    seconds = time.perf_counter() - began
    return StreamRun(stream, algorithm, trace, schedule.join_size(), seconds)


def run_streams(parameters: Parameters, *, jobs: int, say: Callable[[str], None]) -> StreamRuns:
    planned = [(stream, algorithm) for stream in STREAMS for algorithm in ALGORITHMS]
    one = partial(run_stream, parameters=parameters)
    runs: StreamRuns = {}

    for run in each(one, planned, jobs=jobs):
        runs[run.stream, run.algorithm] = run
        say(
            f"{len(runs):>2}/{len(planned)}  {run.algorithm:<7}  {run.stream.name:<10}  "
            f"{run.trace.total:>11,} results  {run.trace.time[-1]:>8,.1f} virtual s  "
            f"{run.seconds:6.1f} s"
        )
    return runs
