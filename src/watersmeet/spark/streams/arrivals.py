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
from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.spark.streams.contents import Contents
from watersmeet.spark.streams.plan import StreamPlan, Task
from watersmeet.spark.streams.state import Manifest
from watersmeet.spark.streams.wire import Tags
from watersmeet.store.leftovers import Leftovers


class Arrivals:
    """One batch of one instance, and what is known from the batches before."""

    def __init__(self, plan: StreamPlan, task: Task, before: Manifest | None) -> None:
        self.contents = Contents(plan.wire.tags)
        self.settled = False
        """Whether everything owed came out with this batch."""
        self.ended: list[int | None] = (
            list(before["ended"]) if before else [None] * len(plan.inputs)
        )
        """In which batch each input ended."""
        self.rows_came: float = before["rows_came"] if before else time.time()
        """When the last rows came, by the wall clock: it must mean the same in other processes."""
        self._plan = plan
        self._task = task
        self._ending: set[int] = set()

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
        for input in sorted(self._ending):
            if self.ended[input] is None:
                self.ended[input] = self._task.batch
                yield from operator.end(input)
        if self.finished and not was_finished:
            yield from operator.finish()
        elif not self.finished:
            yield from operator.tidy()

    @property
    def _finishing(self) -> bool:
        """Whether all inputs will have ended with this batch: then all comes out anyway."""
        return all(
            batch is not None or input in self._ending for input, batch in enumerate(self.ended)
        )

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
        tags = self._plan.wire.tags
        kinds = check_instance(batch, tags, self._task)
        self.contents.add(batch, kinds)
        self.settled = self.settled or bool((kinds == tags.settle).any())
        for input in self._plan.inputs:
            mine = kinds == input
            if count := int(np.count_nonzero(mine)):
                self._check_open(input, count)
                rows = batch if count == len(batch) else batch.filter(pa.array(mine))
                rows = self._plan.wire.unload(input, rows, self._plan.join.inputs[input])
                yield from operator.push(input, rows)
                del rows  # Or they would stay in memory while those of other inputs are joined.
            if (kinds == tags.end(input)).any():
                self._ending.add(input)

    def _check_open(self, input: int, count: int) -> None:
        if self.ended[input] is not None:
            raise StateError(
                f"The {self._plan.names[input]} stream ended in batch {self.ended[input]}, and "
                f"{count:,} more rows of it came in batch {self._task.batch}.",
                remedy="Let the end mark come after the last row, in the same batch or later.",
            )


def check_instance(batch: pa.RecordBatch, tags: Tags, task: Task) -> NDArray[np.int32]:
    """What each row is, after seeing that all of them are meant for this instance."""
    instances, kinds = tags.split(batch.column(0))
    if (instances != task.instance).any():
        raise task.moved()
    return kinds
