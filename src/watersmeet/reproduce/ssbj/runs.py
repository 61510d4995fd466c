"""One algorithm over one workload, until what it holds does not change any more, and then measured.

Time on this machine is that of the thread, since other programs would show in any other. The files
of master tables are small enough for the system's page cache; what a disk of the paper's time takes
to read them is added, not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.local.service_costs import Measured, measure_service
from watersmeet.operators.family import make_enricher
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.reproduce.jobs import each
from watersmeet.reproduce.ssbj.data import Tables, lay, opened, tables
from watersmeet.reproduce.ssbj.settings import (
    BANDWIDTH,
    HERE,
    LEAST_MEMORY,
    MESHJOIN,
    SEEK,
    SSBJ,
    ZIPF,
    Data,
    Experiments,
    Parameters,
    Workload,
)
from watersmeet.rows.address import Matches
from watersmeet.store.account import MemoryAccount
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea

WARM_UP = {SSBJ: 12, MESHJOIN: 2, HERE: 4}
"""Cycles after which a cache does not change much; SSBJ fills it every third, and evicts in the
tenth."""
MEASURED = {SSBJ: 3, MESHJOIN: 2, HERE: 3}
_MOST_BATCH = 20_000
_FEWEST_BATCH = 500
_BATCHES_A_MEMORY = 16
# A join that holds everything makes no more cycles.
_MOST_ROWS_A_CYCLE = 5
_WHOLE_WARM_UP = 4
_SAMPLE_ROWS = 1_000_000
_PAGE_BYTES = 2**16
_DISK = Costs(random=SEEK + _PAGE_BYTES / BANDWIDTH, sequential=_PAGE_BYTES / BANDWIDTH)
# The largest block of a table that is laid down for the least memory.
_LEAST_PORTION = LEAST_MEMORY // 24


@dataclass(frozen=True)
class Run:
    """What was counted while the join was as it stays."""

    workload: Workload
    algorithm: str
    master_rows: int
    master_bytes: int
    limit: int
    rows: int
    """Stream rows."""
    hits: int
    """Those of them that the cache served."""
    results: int
    cycles: int
    steps: int
    bytes_read: int
    skipped: int
    """Blocks that were passed over."""
    cpu: float
    """Seconds of the thread."""
    memory: float
    """Bytes in use, on average."""
    waiting: float
    cache_bytes: float
    exact: bool
    """Whether all rows of the whole run had all their results."""
    measured: Measured | None
    seconds: float
    block_bytes: float = float("inf")
    """Of a block of the master table."""

    @property
    def disk_seconds(self) -> float:
        """On a disk of the paper's time, which goes elsewhere or reads on, whichever is quicker.
        With a disk buffer of its own, every read goes elsewhere first."""
        reading = self.bytes_read / BANDWIDTH
        if self.workload.portion is not None:
            return reading + SEEK * self.steps
        passed = self.skipped * self.block_bytes / BANDWIDTH if self.skipped else 0.0
        return reading + min(SEEK * min(self.skipped, self.steps), passed)

    @property
    def rate(self) -> float:
        """Service rate with that disk."""
        return self.rows / (self.cpu + self.disk_seconds)

    @property
    def rate_here(self) -> float:
        """Service rate of this machine, with the master table in the page cache."""
        return self.rows / self.cpu

    @property
    def rows_a_cycle(self) -> float:
        return self.rows * self.master_bytes / max(self.bytes_read, 1)

    @property
    def cached(self) -> float:
        return self.hits / max(self.rows, 1)

    @property
    def loop_seconds(self) -> float:
        """c_loop."""
        return self.cpu / max(self.steps, 1)


Runs = dict[tuple[Workload, str], Run]
Counted = NDArray[np.float64]


class Rows:
    """The stream in batches of the size that is asked for, and how many results they have."""

    def __init__(self, tables: Tables, seed: int) -> None:
        self._tables = tables
        self._batches = tables.stream(seed)
        self._batch = next(self._batches)
        self._at = 0
        self.expected = 0

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        while count > 0:
            if self._at == len(self._batch):
                self._batch, self._at = next(self._batches), 0
            part = self._batch.slice(self._at, count)
            self._at += len(part)
            count -= len(part)
            self.expected += self._tables.partners(part)
            yield part


class Meter:
    """Runs parts of a join and counts what they take."""

    def __init__(self, join: SemiStreamJoin) -> None:
        self._join = join
        self._schema = join.workspace.schema
        self.cpu = 0.0
        self.rows = 0
        self.results = 0

    def push(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        self._take(self._join.push(0, batch))

    def step(self) -> None:
        """One step of the scan."""
        asked = iter((False,))
        self._take(self._join.idle(lambda: next(asked, True)))

    def finish(self) -> None:
        self._take(self._join.finish())

    def _take(self, results: Iterator[Matches]) -> None:
        began = time.thread_time()
        for matches in results:
            self.results += self._schema.materialise(matches).num_rows
        self.cpu += time.thread_time() - began

    def counted(self) -> Counted:
        metrics = self._join.metrics
        return np.array(
            [
                self.rows, metrics.cache_hits, self.results, metrics.cycles, metrics.steps,
                metrics.bytes_read, metrics.blocks_skipped, self.cpu,
            ],
            np.float64,
        )  # fmt: skip


def run_algorithm(
    algorithm: str, workload: Workload, *, parameters: Parameters, directory: Path
) -> Run:
    began = time.perf_counter()
    made = tables(workload.data, parameters, directory)
    path = laid(workload.data, directory)
    master = opened(path)
    limit, tuning = _settings(workload, _row_bytes(made, master.rows))
    join = make_enricher(
        algorithm,
        made.schema,
        master=master,
        memory=MemoryAccount(limit),
        spill=SpillArea(directory),
        clock=_clock(algorithm),
        tuning=tuning,
    )
    measured = None
    try:
        rows, meter = Rows(made, parameters.seed), Meter(join)
        run = _at_rate if workload.rate is not None else _in_memory
        counted, held = run(join, rows, meter, workload)
        facts = master.rows, master.nbytes
        block_bytes = master.nbytes / max(len(master), 1)
        meter.finish()
        exact = meter.results == rows.expected
    finally:
        join.close()
    if _is_modelled(workload) and algorithm != HERE:
        sample = pa.Table.from_batches(Rows(made, parameters.seed + 1).take(_sample_rows(facts[0])))
        measured = measure_service(
            made.schema,
            algorithm,
            master=lambda: opened(path),
            stream=sample.combine_chunks().to_batches()[0],
            memory=limit,
            spill=SpillArea(directory),
            tuning=tuning,
        )
    count = [int(number) for number in counted[:-1]]
    memory, waiting, cache_bytes = held
    return Run(
        workload,
        algorithm,
        *facts,
        limit=limit,
        rows=count[0],
        hits=count[1],
        results=count[2],
        cycles=count[3],
        steps=count[4],
        bytes_read=count[5],
        skipped=count[6],
        cpu=float(counted[-1]),
        memory=memory,
        waiting=waiting,
        cache_bytes=cache_bytes,
        exact=exact,
        measured=measured,
        seconds=time.perf_counter() - began,
        block_bytes=block_bytes,
    )


def _clock(algorithm: str) -> Callable[[], float]:
    """The published joins scan when memory is full or the rate says so; the default of this package
    also when rows have waited for long."""
    return time.thread_time if algorithm == HERE else lambda: 0.0


def _sample_rows(master_rows: int) -> int:
    return min(_SAMPLE_ROWS, 4 * master_rows)


def _is_modelled(workload: Workload) -> bool:
    plain = workload.factor == 1.0 and workload.portion is None and workload.rate is None
    return plain and workload.data.kind == ZIPF and workload.memory < 1


def _row_bytes(made: Tables, rows: int) -> float:
    """Bytes of the master table in Arrow: what memory is a part of."""
    return float(sum(batch.nbytes for batch in made.master())) if rows else 0.0


def _settings(workload: Workload, nbytes: float) -> tuple[int, Tuning]:
    memory = max(int(workload.memory * nbytes), LEAST_MEMORY)
    if workload.rate is not None:
        # Enough for any of them: what they take is the question.
        return memory, Tuning(portion_bytes=max(int(nbytes / 1000), 2**18))
    if workload.portion is None:
        return memory, Tuning(switching_factor=workload.factor, costs=_DISK)
    # A larger disk buffer leaves less for rows: the whole is the same.
    portion = max(int(workload.portion * memory), _LEAST_PORTION)
    limit = int((memory - portion) / (1 - MemoryShares.split(memory).loaded / memory))
    return limit, Tuning(portion_bytes=portion)


def _in_memory(
    join: SemiStreamJoin, rows: Rows, meter: Meter, workload: Workload
) -> tuple[Counted, tuple[float, float, float]]:
    """Rows are pushed as fast as the join takes them."""
    memory = join.workspace.memory
    most = int(memory.capacity / memory.mean_bytes(0))
    size = min(max(most // _BATCHES_A_MEMORY, _FEWEST_BATCH), _MOST_BATCH)
    name = join.workspace.algorithm.name
    enough = _MOST_ROWS_A_CYCLE * max(join.workspace.master.rows, most)

    def until(cycles: int) -> None:
        stop = join.metrics.cycles + cycles
        last = meter.rows + cycles * enough
        while join.metrics.cycles < stop and meter.rows < last:
            for batch in rows.take(size):
                meter.push(batch)
                held.append(_held(join))

    held: list[tuple[float, float, float]] = []
    # Where everything fits, the last values come into the cache late.
    until(WARM_UP[name] * (_WHOLE_WARM_UP if workload.memory > 1 else 1))
    before = meter.counted()
    held.clear()
    until(MEASURED[name])
    return meter.counted() - before, _mean(held)


def _at_rate(
    join: SemiStreamJoin, rows: Rows, meter: Meter, workload: Workload
) -> tuple[Counted, tuple[float, float, float]]:
    """After every step come the rows that arrived while it took place: its time on this machine,
    and what a disk of the paper's time takes for it."""
    assert workload.rate is not None
    name, metrics = join.workspace.algorithm.name, join.metrics
    held: list[tuple[float, float, float]] = []
    count = 1.0
    before = meter.counted()
    warm = WARM_UP[name]
    while metrics.cycles < warm + MEASURED[name]:
        if metrics.cycles < warm:
            before = meter.counted()
            held.clear()
        cpu, read = meter.cpu, metrics.bytes_read
        for batch in rows.take(int(count)):
            meter.push(batch)
        meter.step()
        held.append(_held(join))
        seconds = meter.cpu - cpu + (metrics.bytes_read - read) / BANDWIDTH
        count = count - int(count) + max(workload.rate * seconds, 1.0)
    return meter.counted() - before, _mean(held)


def _held(join: SemiStreamJoin) -> tuple[float, float, float]:
    memory, metrics = join.workspace.memory, join.metrics
    return memory.used + join.workspace.portion_bytes, metrics.waiting_rows, memory.cache.nbytes


def _mean(held: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    memory, waiting, cached = np.mean(held, axis=0).tolist()
    return memory, waiting, cached


# ---- all of them --------------------------------------------------------------------------------


def laid(data: Data, directory: Path) -> Path:
    return directory / f"{data.kind}-{data.rows}.master"


def run_all(
    experiments: Experiments, *, directory: Path, jobs: int, say: Callable[[str], None]
) -> Runs:
    """Run everything that a figure needs, one master table after the other."""
    planned = experiments.plan()
    runs: Runs = {}
    one = partial(_run_planned, parameters=experiments.parameters, directory=directory)
    for table, group in groupby(planned, lambda some: laid(some[0].data, directory)):
        some = list(group)
        first, path = some[0][0].data, table
        lay(tables(first, experiments.parameters, directory), path)
        for run in each(one, some, jobs=jobs):
            runs[run.workload, run.algorithm] = run
            say(_line(run, f"{len(runs):>3}/{len(planned)}"))
        path.unlink()
    return runs


def _run_planned(planned: tuple[Workload, str], *, parameters: Parameters, directory: Path) -> Run:
    workload, algorithm = planned
    return run_algorithm(algorithm, workload, parameters=parameters, directory=directory)


def _line(run: Run, number: str) -> str:
    workload = run.workload
    return (
        f"{number}  {workload.data.kind:<9} {run.master_rows:>10,} rows  skew "
        f"{workload.data.skew:4.2f}  {run.algorithm:<8}  {run.memory / 1e6:7.1f} MB  "
        f"{run.rate:>9,.0f} rows/s  {run.rate_here:>9,.0f} here  {run.cached:4.0%} cached  "
        f"{'exact' if run.exact else 'WRONG'}  {run.seconds:6.1f} s"
    )
