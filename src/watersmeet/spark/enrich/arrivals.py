"""What a micro-batch brings to an enrichment besides rows: time for the scan, newer versions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.operators.base import JoinOperator
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.enrich.masters import Masters
from watersmeet.spark.microbatches.arrivals import Arrivals
from watersmeet.spark.microbatches.state import Manifest
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire

# A batch that brings rows may scan as long as their arrival took, and this long in any case: then
# few rows have their answer at once, and many keep at least half of the time.
_SCAN_SECONDS = 0.05


class EnrichArrivals(Arrivals):
    """One batch of a stream, which meets the versions of a master table.

    The word that a newer version is there takes effect after all rows of its batch, so all rows of
    a batch meet the same version, in all instances, however often the batch is made.
    """

    def __init__(
        self,
        join: JoinSchema,
        wire: Wire,
        *,
        memory: int,
        task: Task,
        before: Manifest | None,
        masters: Masters,
        budget: float,
    ) -> None:
        super().__init__(join, wire, memory=memory, task=task, before=before)
        self._masters = masters
        self._budget = budget
        self._number = int(before["number"]) if before else 0
        """The version that rows of this batch meet."""
        self._numbers: dict[str, int] = dict(before["masters"]) if before else {}
        """The numbers of versions by what they are called; a query begins with 0."""
        self._newer = 0
        self._pushing = 0.0
        """Seconds that it took to push the rows."""

    def describe(self, operator: JoinOperator) -> Manifest:
        assert isinstance(operator, SemiStreamJoin)
        numbers = {each: self._numbers[each] for each in operator.versions}
        return super().describe(operator) | {"number": self._number, "masters": numbers}

    def _push(self, operator: JoinOperator, batch: pa.RecordBatch) -> Iterator[Matches]:
        began = time.monotonic()
        yield from super()._push(operator, batch)
        self._pushing += time.monotonic() - began

    def _hear(self, kinds: NDArray[np.int32]) -> None:
        self._newer += int(np.count_nonzero(kinds == self._wire.tags.newer))

    def _after_rows(self, operator: JoinOperator) -> Iterator[Matches]:
        assert isinstance(operator, SemiStreamJoin)
        if not self._numbers:
            self._numbers = dict.fromkeys(operator.versions, 0)
        yield from self._use_time(operator)
        if self._newer:
            self._number += self._newer
            master = self._masters.open(self._number, self._task.instance)
            self._numbers[master.version] = self._number
            yield from operator.take_over(master)
            if self.settled:
                yield from operator.settle()
        yield from operator.tidy()

    def _use_time(self, operator: SemiStreamJoin) -> Iterator[Matches]:
        if self.settled:
            yield from operator.settle()
            return
        seconds = self._budget
        if any(self.contents.rows):
            seconds = min(seconds, max(self._pushing, _SCAN_SECONDS))
        end = time.monotonic() + seconds
        yield from operator.idle(lambda: time.monotonic() >= end)
