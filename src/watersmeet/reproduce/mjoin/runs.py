"""Joins of news and accesses whose queues never become empty, timed.

Both streams are made beforehand, and all their rows wait in the queues from the start, so nothing
but the join takes time ("CPU-limited mode", MJoin 6.1). Time is that of the thread: choosing and
cutting rows, joining, purging, and making the rows of the result.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.policies.scheduling import (
    PriorityStreams,
    RandomStreams,
    Sequential,
    StreamSchedule,
    TupleSchedule,
    ValueOriented,
)
from watersmeet.reproduce.jobs import each
from watersmeet.reproduce.mjoin.joins import NewsJoin
from watersmeet.reproduce.mjoin.settings import (
    DISPLACEMENTS,
    EQUAL,
    GRID,
    PRIORITY,
    Experiments,
    Variant,
    Workload,
)
from watersmeet.reproduce.mjoin.streams import NewsStreams, Numbers

Seconds = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """One join of one pair of streams. Arrays have a place for every fortieth of the results."""

    seconds: Seconds
    """When so many results were out."""
    rows: Numbers
    """In memory at that moment."""
    nbytes: Numbers
    peaks: Numbers
    """The most bytes in memory until then."""
    end: float
    """When everything was done."""
    stored: int
    """Rows that were stored, because they may find a partner among rows to come."""
    exact: bool


@dataclass(frozen=True, eq=False)
class Curve:
    """Averages over all runs of a join and a workload."""

    results: NDArray[np.float64]
    seconds: Seconds
    rows: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    end: float
    stored: float
    exact: bool
    runs: int

    @classmethod
    def mean(cls, accesses: int, runs: list[Run]) -> Curve:
        return cls(
            results=_grid(accesses).astype(np.float64),
            seconds=np.mean([run.seconds for run in runs], axis=0),
            rows=np.mean([run.rows for run in runs], axis=0),
            nbytes=np.mean([run.nbytes for run in runs], axis=0),
            end=float(np.mean([run.end for run in runs])),
            stored=float(np.mean([run.stored for run in runs])),
            exact=all(run.exact for run in runs),
            runs=len(runs),
        )


Curves = Mapping[tuple[Workload, Variant], Curve]


@dataclass(frozen=True)
class Planned:
    workload: Workload
    variant: Variant
    seed: int


def run_all(
    experiments: Experiments, *, jobs: int, say: Callable[[str], None]
) -> dict[tuple[Workload, Variant], Curve]:
    """Every join once, then every one again with other streams: a slow minute of the machine is one
    of all of them."""
    parameters, plan = experiments.parameters, experiments.plan()
    planned = [
        Planned(workload, variant, parameters.seed + number)
        for number in range(parameters.runs)
        for workload, variant in plan
    ]
    found: dict[tuple[Workload, Variant], list[Run]] = {key: [] for key in plan}
    for number, (what, run) in enumerate(
        zip(planned, each(run_one, planned, jobs=jobs), strict=True), start=1
    ):
        found[what.workload, what.variant].append(run)
        say(_line(what, run, f"{number:>3}/{len(planned)}"))
    return {
        (workload, variant): Curve.mean(workload.accesses, runs)
        for (workload, variant), runs in found.items()
    }


def run_one(planned: Planned, *, scratch: Path | None = None) -> Run:
    """`scratch` is where spilled rows go, the temporary directory if None."""
    workload, variant = planned.workload, planned.variant
    displaced = DISPLACEMENTS[workload.arrival]
    made = NewsStreams.make(workload.accesses, displaced=displaced, seed=planned.seed)
    with tempfile.TemporaryDirectory(prefix="mjoin-", dir=scratch) as directory:
        join = NewsJoin(variant, Path(directory))
        try:
            return _Drive(made, join, planned).run()
        finally:
            join.close()


class _Drive:
    """Takes turns until the queues are empty."""

    def __init__(self, made: NewsStreams, join: NewsJoin, planned: Planned) -> None:
        self._made = made
        self._join = join
        self._tables = made.tables(planned.seed)
        self._values = (made.news, made.accesses)
        self._taken = [0, 0]
        self._streams, self._tuples = _schedules(planned)
        grain = planned.workload.grain
        self._at_once = 1 if grain.one_at_a_time else max(grain.quotas)
        self._looks = _grid(len(made.accesses))

    def run(self) -> Run:
        spent, looks = 0.0, list[tuple[float, int, int, int]]()
        going = True
        while going:
            began = time.thread_time()
            going = self._turn()
            spent += time.thread_time() - began
            while len(looks) < GRID and self._join.results >= self._looks[len(looks)]:
                looks.append((spent, *self._join.state))
        stored = self._join.stored
        began = time.thread_time()
        self._join.finish()
        spent += time.thread_time() - began
        # What had to wait for the end, because its partner had been spilled.
        looks += [(spent, *self._join.state)] * (GRID - len(looks))
        seconds, rows, nbytes, peaks = map(np.array, zip(*looks, strict=True))
        accesses = self._made.accesses
        exact = (self._join.results, self._join.sum) == (len(accesses), int(accesses.sum()))
        return Run(seconds, rows, nbytes, peaks, spent, stored, exact)

    def _turn(self) -> bool:
        waiting = [len(v) - t for v, t in zip(self._values, self._taken, strict=True)]
        turn = self._streams.turn(waiting)
        if turn is None:
            return False
        side, start = Side(turn.input), self._taken[turn.input]
        self._taken[side] += turn.rows
        rows = self._tables[side].slice(start, turn.rows)
        arranged = self._tuples.arrange(side, self._values[side][start : start + turn.rows])
        if side is Side.RIGHT:  # nothing waits for a punctuation of the news: there are none
            for rows_at_once in _pieces(rows, self._at_once):
                self._join.push(side, rows_at_once)
                self._punctuate(start, start + len(rows_at_once))
                start += len(rows_at_once)
            return True
        # What is joined at once has no order.
        if 0 < arranged.hurried < turn.rows and turn.rows > self._at_once:
            rows = rows.take(pa.array(arranged.order))
        for rows_at_once in _pieces(rows, self._at_once):
            self._join.push(side, rows_at_once)
        return True

    def _punctuate(self, start: int, stop: int) -> None:
        items = self._made.punctuations(start, stop)
        if len(items):
            self._tuples.punctuated(Side.RIGHT, items)
            self._join.punctuate(items)


def _pieces(rows: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    return (rows.slice(first, most) for first in range(0, len(rows), most))


def _schedules(planned: Planned) -> tuple[StreamSchedule, TupleSchedule]:
    quotas, schedule = planned.workload.grain.quotas, planned.variant.schedule
    if schedule == PRIORITY:
        by_value = ValueOriented(unique=[Side.LEFT]) if planned.variant.promises else Sequential()
        return PriorityStreams(quotas), by_value
    rows = (quotas[1], quotas[1]) if schedule == EQUAL else quotas
    return RandomStreams(seed=planned.seed, rows=rows), Sequential()


def _grid(accesses: int) -> Numbers:
    return np.linspace(0, accesses, GRID + 1)[1:].astype(np.int64)


def _line(what: Planned, run: Run, number: str) -> str:
    variant = what.variant
    purge = f"purge {variant.purge_every:>3}" if variant.promises else ""
    return (
        f"{number}  {what.workload.words:<47} {variant.name}  {variant.schedule:<11} {purge:<9} "
        f"{run.end:7.2f} s  {int(run.rows.max()):>9,} rows  {'exact' if run.exact else 'WRONG'}"
    )
