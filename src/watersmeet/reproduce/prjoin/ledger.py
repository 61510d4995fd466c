"""A join's I/O, recorded in steps, from which its time on any device can be computed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.rows.address import Matches
from watersmeet.sim.delays import Seconds
from watersmeet.store.spill import Io, IoKind

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ledger:
    """One row per step. A step ends with a batch of input or with a completed rectangle.

    input, written, read: rows. runs_read: runs whose first block was read. bytes_written and
    bytes_read: bytes in files, with stamps and headers. results: those of all rectangles completed
    so far. reports: whether the step completed a rectangle. generation, grown: of a partition's
    join, its number among that partition's joins, and how many of the partition's rows were new.
    wall: seconds since the start, on this machine.
    """

    input: Counts
    written: Counts
    read: Counts
    runs_read: Counts
    bytes_written: Counts
    bytes_read: Counts
    results: Counts
    reports: Counts
    generation: Counts
    grown: Counts
    wall: Seconds

    @property
    def input_end(self) -> int:
        """The last step that read input."""
        return int(np.flatnonzero(self.input)[-1])

    def at_reports(self, times: Seconds) -> tuple[Seconds, Counts]:
        """The times of steps that completed a rectangle, and how many results there were then."""
        chosen = self.reports > 0
        return times[chosen], self.results[chosen]


@dataclass
class _Step:
    input: int = 0
    written: int = 0
    read: int = 0
    runs_read: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    results: int = 0
    reports: int = 0
    generation: int = 0
    grown: int = 0
    wall: float = 0.0


class Bookkeeper:
    """Writes a ledger while a join runs.

    A rectangle is complete before the first block of the next one is read and before its first
    result is yielded, so each I/O and each result falls into the step it belongs to.
    """

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._step = _Step()
        self._found = 0
        self._reported = 0
        self._completed = 0

    def start(self, join: RectangleJoin) -> None:
        self._progress = join.workspace.progress
        self._joins, self._joined = self._joins_so_far()
        self._began = time.perf_counter()

    def observe(self, io: Io) -> None:
        """For `SpillArea(observe=...)`: called for every block written or read."""
        self._close_completed()
        step = self._step
        if io.kind is IoKind.FLUSH:
            step.written += io.rows
            step.bytes_written += io.bytes
        else:
            step.read += io.rows
            step.bytes_read += io.bytes
            step.runs_read += io.first

    def follow(self, found: Iterator[Matches], *, rows: int = 0) -> Iterator[Matches]:
        """Pass on the results of one call of the join, to which `rows` rows of input were given."""
        self._step.input += rows
        for matches in found:
            self._close_completed()
            self._found += len(matches)
            yield matches
        self._close_completed()
        if self._step.input or self._step.written or self._step.read:
            self._close()

    @property
    def steps(self) -> int:
        return len(self._steps)

    def ledger(self) -> Ledger:
        columns = {
            field.name: np.array([getattr(step, field.name) for step in self._steps])
            for field in fields(_Step)
        }
        return Ledger(**columns)

    def _close_completed(self) -> None:
        if self._progress.completed == self._completed:
            return
        self._completed = self._progress.completed
        self._reported = self._found
        self._step.reports = 1
        joins, joined = self._joins_so_far()
        for p in np.flatnonzero(joins != self._joins)[:1]:
            self._step.generation = int(joins[p])
            self._step.grown = int(joined[p] - self._joined[p])
        self._joins, self._joined = joins, joined
        self._close()

    def _joins_so_far(self) -> tuple[Counts, Counts]:
        return self._progress.joins.copy(), self._progress.joined.sum(axis=0)

    def _close(self) -> None:
        self._step.results = self._reported
        self._step.wall = time.perf_counter() - self._began
        self._steps.append(self._step)
        self._step = _Step()
