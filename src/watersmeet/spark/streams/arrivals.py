"""What a micro-batch brings to a join of streams besides rows: time in which they stall, ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import StateError
from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.rows.rebatched import gathered
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.arrivals import Arrivals
from watersmeet.spark.microbatches.state import Manifest
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.streams.files import FileRows, latest, pushed_bytes
from watersmeet.store.leftovers import Leftovers


class StreamArrivals(Arrivals):
    """One batch of streams that may end."""

    def __init__(
        self,
        join: JoinSchema,
        wire: Wire,
        *,
        memory: int,
        task: Task,
        before: Manifest | None,
        names: Sequence[str],
        wait_threshold: float,
        budget: float,
        files: FileRows | None = None,
    ) -> None:
        super().__init__(join, wire, memory=memory, task=task, before=before)
        self.ended: list[int | None] = list(before["ended"]) if before else [None] * len(names)
        """In which batch each input ended."""
        self._names = names
        self._wait_threshold = wait_threshold
        self._budget = budget
        self._ending: set[int] = set()
        self._files = files
        self._times: dict[str, int] = {}
        """The latest times before this batch, by which Spark has its watermark. After a restart it
        begins with those of rows that come then, and so do we."""
        if before is not None and Task.run_of(before["attempt"]) == task.run:
            self._times = before.get("times", {})

    @property
    def finished(self) -> bool:
        return None not in self.ended

    def feed(
        self, operator: JoinOperator, batches: Iterator[pa.RecordBatch], leftovers: Leftovers
    ) -> Iterator[Matches]:
        # Spark's batches have some 10,000 rows, and each costs as much as a thousand of them more.
        came = gathered(batches, pushed_bytes(self._memory))
        rows = came if self._files is None else self._files.of(came)
        yield from super().feed(operator, rows, leftovers)

    def describe(self, operator: JoinOperator) -> Manifest:
        times = {} if self._files is None else {"times": latest(self._times, self._files.times)}
        return super().describe(operator) | {"ended": self.ended} | times

    def _hear(self, batch: pa.RecordBatch, kinds: NDArray[np.int32]) -> None:
        tags = self._wire.tags
        self._ending |= {n for n in range(tags.inputs) if (kinds == tags.end(n)).any()}

    def _after_rows(self, operator: JoinOperator) -> Iterator[Matches]:
        was_finished = self.finished
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
        if self.settled:
            yield from operator.settle()
        elif not any(self.contents.rows) and time.time() - self.rows_came >= self._wait_threshold:
            deadline = time.monotonic() + self._budget
            yield from operator.idle(lambda: time.monotonic() >= deadline)
            # What the policy does not care for is owed all the same.
            yield from operator.settle(lambda: time.monotonic() >= deadline)

    def _check_open(self, input: int, count: int) -> None:
        if self.ended[input] is not None:
            raise StateError(
                f"The {self._names[input]} stream ended in batch {self.ended[input]}, and "
                f"{count:,} more rows of it came in batch {self._task.batch}.",
                remedy="Let the end mark come after the last row, in the same batch or later.",
            )
