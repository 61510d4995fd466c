"""What a runtime may ask of a join operator, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from watersmeet.operators.metrics import Metrics
from watersmeet.operators.saved import Manifest, StateArea
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise

__all__ = ["JoinOperator", "Manifest", "StateArea"]


class JoinOperator(Protocol):
    """A join that is pushed to and never waits. Runtimes know operators by this alone.

    The runtime owns the inputs, the clock and the output, and calls

        push(input, batch)  for each arrival, inputs in any order
        punctuate(input, promise)
                            when it is known that certain rows of an input come no more. Rows that
                            wait for nothing else may go, those of outer and anti joins that found
                            no partner are results then. To ignore a promise is always right
        idle(pause)         when no input is ready; returns soon after `pause()` turns true
        settle(pause)       to have all that follows from the rows so far, while more may come;
                            returns soon after `pause()` turns true
        end(input)          once per input, after its last push
        finish()            once, after all inputs have ended: everything still owed
        resize(limit)       between calls: go on within another memory limit
        lend(nbytes)        between calls: do with so many bytes less for a while; 0: no more
        tidy()              now and then, by runtimes without an end: merge what has become many
        save(area)          between calls; the operator can go on, or be restored elsewhere. What
                            an earlier save has put there is not put again, so all saves of an
                            operator, and of those restored from it, go to the same area
        load(area, manifest)
                            instead of all that comes before: fill a new operator with what another
                            of the same join has saved
        close()             at any time, more than once; frees memory and spilled files

    Every generator must be drained before the next call. Over a run each result row is
    yielded exactly once, whatever the order of arrivals, the memory and the idle time.
    """

    @property
    def metrics(self) -> Metrics: ...

    @property
    def limit(self) -> int:
        """The memory limit, in bytes."""
        ...

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]: ...

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]: ...

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]: ...

    def settle(self, pause: Callable[[], bool] = ...) -> Iterator[Matches]: ...

    def end(self, input: int) -> Iterator[Matches]: ...

    def finish(self) -> Iterator[Matches]: ...

    def resize(self, limit: int) -> Iterator[Matches]: ...

    def lend(self, nbytes: int) -> Iterator[Matches]: ...

    def tidy(self) -> Iterator[Matches]: ...

    def owed(self) -> list[int]:
        """By input, rows that may not have met all that is there of the others. All 0 is certain:
        then `settle` would find nothing."""
        ...

    def save(self, area: StateArea) -> Manifest: ...

    def load(self, area: StateArea, manifest: Manifest) -> None: ...

    def close(self) -> None: ...
