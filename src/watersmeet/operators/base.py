"""What a runtime may ask of a join operator, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.metrics import Metrics
from watersmeet.rows.address import Matches
from watersmeet.store.spill import SpillArea

Manifest = dict[str, Any]
"""A saved operator as plain JSON values: format version, parameters, counters, files."""


class JoinOperator(Protocol):
    """A join that is pushed to and never waits.

    The runtime owns the inputs, the clock and the output, and calls

        push(side, batch)   for each arrival, sides in any order
        idle(pause)         when no input is ready; returns soon after `pause()` turns true
        end(side)           once per side, after its last push
        finish()            once, after both sides have ended: everything still owed
        save(area)          between calls; the operator can go on or be restored elsewhere
        close()             at any time, more than once; frees memory and spilled files

    Every generator must be drained before the next call. Over a run each result row is
    yielded exactly once, whatever the order of arrivals, the memory and the idle time.
    """

    metrics: Metrics

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[Matches]: ...

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]: ...

    def end(self, side: Side) -> Iterator[Matches]: ...

    def finish(self) -> Iterator[Matches]: ...

    def save(self, area: SpillArea) -> Manifest: ...

    @classmethod
    def restore(cls, area: SpillArea, manifest: Manifest, **settings: Any) -> Self: ...

    def close(self) -> None: ...
