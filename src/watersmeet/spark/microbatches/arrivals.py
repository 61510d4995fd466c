"""What a micro-batch brings to an operator, and in which order: rows, then time, then words.

Inside one micro-batch order means nothing, so words, such as that an input has ended, take effect
after all rows of their batch.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.contents import Contents
from watersmeet.spark.microbatches.state import InstanceState, Manifest
from watersmeet.spark.microbatches.task import Task, check_instance
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.store.leftovers import Leftovers


class Arrivals(ABC):
    """One batch of one instance, and what is known from the batches before."""

    def __init__(
        self, join: JoinSchema, wire: Wire, *, memory: int, task: Task, before: Manifest | None
    ) -> None:
        self.contents = Contents(wire.tags)
        self.settled = False
        """Whether everything owed came out with this batch."""
        self.rows_came: float = before["rows_came"] if before else time.time()
        """When the last rows came, by the wall clock: it must mean the same in other processes."""
        self._join = join
        self._wire = wire
        self._memory = memory
        self._task = task

    @property
    def finished(self) -> bool:
        """Whether no batch can bring more, so that the operator is done."""
        return False

    def feed(
        self, operator: JoinOperator, batches: Iterator[pa.RecordBatch], leftovers: Leftovers
    ) -> Iterator[Matches]:
        if operator.limit != self._memory:
            yield from operator.resize(self._memory)
        for batch in batches:
            nbytes = batch.nbytes
            yield from self._push(operator, batch)
            del batch  # It cannot be handed back before.
            leftovers.passed(nbytes)
        if any(self.contents.rows):
            self.rows_came = time.time()
        yield from self._after_rows(operator)

    def markers(self, operator: JoinOperator) -> pa.RecordBatch | None:
        """Marker rows that follow all other rows of the batch; None if there are none."""
        return None

    def describe(self, operator: JoinOperator) -> Manifest:
        """What the next batch has to know, besides the saved operator."""
        return {
            "rows_came": self.rows_came,
            "contents": self.contents.describe(),
            "settled": self.settled,
        }

    def put_files(self, state: InstanceState) -> list[str]:
        """Make files that this batch wrote a part of the version; their names."""
        return []

    def record(self, operator: JoinOperator) -> dict[str, Any]:
        """What the metrics of the batch say that only some joins count."""
        return {}

    def _push(self, operator: JoinOperator, batch: pa.RecordBatch) -> Iterator[Matches]:
        tags = self._wire.tags
        kinds = check_instance(batch, tags, self._task)
        self.contents.add(batch, kinds)
        self.settled = self.settled or bool((kinds == tags.settle).any())
        for input in range(tags.inputs):
            mine = kinds == input
            if count := int(np.count_nonzero(mine)):
                self._check_open(input, count)
                rows = batch if count == len(batch) else batch.filter(pa.array(mine))
                rows = self._wire.unload(input, rows, self._join.inputs[input])
                yield from operator.push(input, self._kept(input, rows))
                del rows  # Or they would stay in memory while those of other inputs are joined.
        self._hear(batch, kinds)

    # ---- what joins differ in -------------------------------------------------------------------

    def _check_open(self, input: int, count: int) -> None:  # noqa: B027, not all need it
        """Refuse so many rows of an input that may have none."""

    def _kept(self, input: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those of an input's rows that take part in the join."""
        return rows

    def _hear(self, batch: pa.RecordBatch, kinds: NDArray[np.int32]) -> None:  # noqa: B027
        """Note the words among rows of these kinds."""

    @abstractmethod
    def _after_rows(self, operator: JoinOperator) -> Iterator[Matches]:
        """All rows have been pushed: use time, and do what the words say."""
