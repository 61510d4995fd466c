"""Feeds an operator a schedule in virtual time, and records when results come out.

A row that is due while the operator is busy waits in a queue, as it does in a network buffer.
When the queue has been empty for `patience` seconds, the driver lets the operator work in `idle`
until the next row is due, or until some more of them wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.sim.arrivals import Arrivals
from watersmeet.sim.delays import Seconds
from watersmeet.sim.meter import Meter
from watersmeet.sim.trace import Trace


class Driver:
    """Runs one operator over one schedule, once.

    Consecutive arrivals without a stall between them are pushed together, at most `batch_rows` at
    a time. Results are the same and in the same order; their times are exact to one batch.
    """

    def __init__(
        self,
        operator: JoinOperator,
        schedule: Arrivals,
        *,
        meter: Meter,
        patience: float,
        batch_rows: int,
        hand_over_rows: int = 1,
        cleans_up: bool = True,
        charges_pauses: bool = False,
    ) -> None:
        """`hand_over_rows`: so many rows must wait before `idle` is asked to stop (DINER's
        MaxNewArr). Without `cleans_up` the run ends with the last arrival. `charges_pauses`: work
        in a stall that finds nothing takes its time before the operator asks whether to stop, and
        not with the next result. A loop of many inputs does much of it.
        """
        self._operator = operator
        self._schedule = schedule
        self._meter = meter
        self._clock = meter.clock
        self._patience = patience
        self._batch_rows = batch_rows
        self._hand_over_rows = hand_over_rows
        self._cleans_up = cleans_up
        self._charges_pauses = charges_pauses
        self._most_waiting = 0
        self._results = 0
        self._ends = [schedule.last_of(input) for input in range(len(schedule.tables))]
        # Rows that come more than `patience` after the row before them.
        self._stalls = np.flatnonzero(np.diff(schedule.arrive) > patience) + 1
        self._times: list[float] = []
        self._totals: list[int] = []
        self._works: list[float] = []

    def run(self) -> Trace:
        arrive = self._schedule.arrive
        clock = self._clock
        done = 0
        while done < len(arrive):
            if arrive[done] > clock.now:
                if arrive[done] - clock.now > self._patience:
                    clock.advance(self._patience)
                    self._idle(done)
                clock.wait_until(arrive[done])
            stop = self._batch_end(done)
            self._push(done, stop)
            done = stop
        cleanup_start = clock.now
        if self._cleans_up:
            self._drain(self._operator.finish())
        return Trace(
            time=np.array(self._times),
            results=np.array(self._totals, dtype=np.int64),
            work=np.array(self._works),
            first_flush=self._meter.first_flush,
            transmission_end=float(arrive[-1]) if len(arrive) else 0.0,
            cleanup_start=cleanup_start,
            most_waiting=self._most_waiting,
        )

    def _idle(self, done: int) -> None:
        """Let the operator use a stall, after `done` arrivals."""
        arrive = self._schedule.arrive
        last = min(done + self._hand_over_rows, len(arrive)) - 1
        self._drain(self._operator.idle(self._due(arrive[last])))
        arrived = int(np.searchsorted(arrive, self._clock.now, side="right"))
        self._most_waiting = max(self._most_waiting, arrived - done)

    def _due(self, time: float) -> Callable[[], bool]:
        clock = self._clock

        def is_due() -> bool:
            if self._charges_pauses:
                clock.advance(self._processing(arrivals=0, results=0))
            return clock.now >= time

        return is_due

    def _batch_end(self, start: int) -> int:
        """The end of the rows to push now: those that are due, and those that follow without a
        stall."""
        arrive = self._schedule.arrive
        end = int(np.searchsorted(arrive, self._clock.now, side="right"))
        if end < len(arrive) and arrive[end] - self._clock.now <= self._patience:
            stall = np.searchsorted(self._stalls, end, side="right")
            end = int(self._stalls[stall]) if stall < len(self._stalls) else len(arrive)
        return min(end, start + self._batch_rows, len(arrive))

    def _push(self, start: int, stop: int) -> None:
        clock, arrive = self._clock, self._schedule.arrive[start:stop]
        free_at = clock.now
        clock.wait_until(arrive[-1])
        last_due = clock.now
        results = 0
        for input in range(len(self._ends)):
            batch = self._schedule.batch(input, start, stop)
            if batch.num_rows:
                results += sum(len(matches) for matches in self._operator.push(input, batch))
        work = self._processing(arrivals=stop - start, results=results)
        clock.advance(_finish_of_queue(arrive, free_at=free_at, work=work) - last_due)
        self._record(results)
        for input, end in enumerate(self._ends):
            if start < end <= stop:
                self._drain(self._operator.end(input))

    def _drain(self, found: Iterator[Matches]) -> None:
        """Take results of work during which no rows are awaited; after each chunk the clock moves
        on by all the time that it took."""
        for matches in found:
            results = len(matches)
            self._clock.advance(self._processing(arrivals=0, results=results))
            self._record(results)
        self._clock.advance(self._processing(arrivals=0, results=0))
        self._record(0)

    def _processing(self, *, arrivals: int, results: int) -> float:
        candidates = self._operator.metrics.candidates
        return self._meter.processing(arrivals=arrivals, candidates=candidates, results=results)

    def _record(self, results: int) -> None:
        self._results += results
        self._times.append(self._clock.now)
        self._totals.append(self._results)
        self._works.append(self._meter.work)


def _finish_of_queue(arrive: Seconds, *, free_at: float, work: float) -> float:
    """When a server that is free at `free_at` has served all arrivals, which take `work` seconds
    together, and each as long as any other.

    Lindley's recursion: the server is busy without a pause from some arrival to the end.

    >>> _finish_of_queue(np.array([0.0, 1.0, 2.0]), free_at=0.0, work=0.3)
    2.1
    >>> _finish_of_queue(np.array([0.0, 1.0, 2.0]), free_at=5.0, work=0.3)
    5.3
    """
    rest = work / len(arrive) * np.arange(len(arrive), 0, -1)
    return float(max(free_at + work, np.max(arrive + rest)))
