"""What a micro-batch brings to an operator, and in which order: rows, then time, then ends.

Inside one micro-batch order means nothing, so ends take effect after all rows of their batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import StateError
from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.spark.streams.contents import Contents
from watersmeet.spark.streams.plan import StreamPlan, Task
from watersmeet.spark.streams.state import Manifest
from watersmeet.spark.streams.wire import ENDS, SETTLE, split_tags
from watersmeet.store.leftovers import Leftovers


class Arrivals:
    """One batch of one instance, and what is known from the batches before."""

    def __init__(self, plan: StreamPlan, task: Task, before: Manifest | None) -> None:
        self.contents = Contents()
        self.settled = False
        """Whether everything owed came out with this batch."""
        self.ended: list[int | None] = list(before["ended"]) if before else [None, None]
        """In which batch each side ended."""
        self.rows_came: float = before["rows_came"] if before else time.time()
        """When the last rows came, by the wall clock: it must mean the same in other processes."""
        self._plan = plan
        self._task = task
        self._ending: set[Side] = set()

    @property
    def finished(self) -> bool:
        return None not in self.ended

    def feed(
        self, operator: JoinOperator, batches: Iterator[pa.RecordBatch], leftovers: Leftovers
    ) -> Iterator[Matches]:
        if operator.limit != self._plan.memory:
            yield from operator.resize(self._plan.memory)
        was_finished = self.finished
        for batch in batches:
            nbytes = batch.nbytes
            yield from self._push(operator, batch)
            del batch  # It cannot be handed back before.
            leftovers.passed(nbytes)
        if any(self.contents.rows):
            self.rows_came = time.time()
        if not was_finished and not self._finishing:
            yield from self._use_time(operator)
        for side in sorted(self._ending):
            if self.ended[side] is None:
                self.ended[side] = self._task.batch
                yield from operator.end(side)
        if self.finished and not was_finished:
            yield from operator.finish()
        elif not self.finished:
            yield from operator.tidy()

    @property
    def _finishing(self) -> bool:
        """Whether both sides will have ended with this batch: then all comes out anyway."""
        return all(self.ended[side] is not None or side in self._ending for side in Side)

    def _use_time(self, operator: JoinOperator) -> Iterator[Matches]:
        patience = self._plan.wait_threshold
        if self.settled:
            yield from operator.settle()
        elif not any(self.contents.rows) and time.time() - self.rows_came >= patience:
            deadline = time.monotonic() + self._plan.budget
            yield from operator.idle(lambda: time.monotonic() >= deadline)
            # What the policy does not care for is owed all the same.
            yield from operator.settle(lambda: time.monotonic() >= deadline)

    def _push(self, operator: JoinOperator, batch: pa.RecordBatch) -> Iterator[Matches]:
        kinds = check_instance(batch, self._task)
        self.contents.add(batch, kinds)
        self.settled = self.settled or bool((kinds == SETTLE).any())
        for side in Side:
            mine = kinds == side
            if count := int(np.count_nonzero(mine)):
                self._check_open(side, count)
                rows = batch if count == len(batch) else batch.filter(pa.array(mine))
                rows = self._plan.wire.unload(side, rows, self._plan.join.inputs[side])
                yield from operator.push(side, rows)
                del rows  # Or they would stay in memory while the other side's are joined.
            if (kinds == ENDS + side).any():
                self._ending.add(side)

    def _check_open(self, side: Side, count: int) -> None:
        if self.ended[side] is not None:
            raise StateError(
                f"The {side.name.lower()} stream ended in batch {self.ended[side]}, and "
                f"{count:,} more rows of it came in batch {self._task.batch}.",
                remedy="Let the end mark come after the last row, in the same batch or later.",
            )


def check_instance(batch: pa.RecordBatch, task: Task) -> NDArray[np.int32]:
    """What each row is, after seeing that all of them are meant for this instance."""
    instances, kinds = split_tags(batch.column(0))
    if (instances != task.instance).any():
        raise task.moved()
    return kinds
