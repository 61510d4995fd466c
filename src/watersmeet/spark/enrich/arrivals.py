"""What a micro-batch brings to an enrichment besides rows: time for the scan, newer versions."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from watersmeet.operators.base import JoinOperator
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.enrich.masters import Masters
from watersmeet.spark.microbatches.arrivals import Arrivals
from watersmeet.spark.microbatches.state import Manifest
from watersmeet.spark.microbatches.task import Task, check_instance
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.store.leftovers import Leftovers

# A batch that brings rows may scan as long as their arrival took, and this long in any case: then
# few rows have their answer at once, and many keep at least half of the time.
_SCAN_SECONDS = 0.05


class EnrichArrivals(Arrivals):
    """One batch of a stream, which meets the versions of a master table.

    The word that a newer version is there takes effect before all rows of its batch, so all rows
    of a batch meet the same version, in all instances, however often the batch is made. The word
    may be the last that arrives. So when there is a newer version, which may be meant, the batch is
    written to a file before its rows are pushed.
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
        spill_dir: str | None,
        budget: float,
    ) -> None:
        super().__init__(join, wire, memory=memory, task=task, before=before)
        self._masters = masters
        self._spill_dir = spill_dir
        self._budget = budget
        self._number = int(before["number"]) if before else 0
        """The version that rows of this batch meet."""
        self._numbers: dict[str, int] = dict(before["masters"]) if before else {}
        """The numbers of versions by what they are called; a query begins with 0."""
        self._pushing = 0.0
        """Seconds that it took to push the rows."""

    def describe(self, operator: JoinOperator) -> Manifest:
        assert isinstance(operator, SemiStreamJoin)
        numbers = {each: self._numbers[each] for each in operator.versions}
        about = {"number": self._number, "masters": numbers, "wakes": operator.due()}
        return super().describe(operator) | about

    def feed(
        self, operator: JoinOperator, batches: Iterator[pa.RecordBatch], leftovers: Leftovers
    ) -> Iterator[Matches]:
        assert isinstance(operator, SemiStreamJoin)
        if not self._numbers:
            self._numbers = dict.fromkeys(operator.versions, 0)
        if max(self._masters.numbers(), default=0) == self._number:
            yield from super().feed(operator, batches, leftovers)
            return
        with tempfile.TemporaryFile(dir=self._spill_dir) as file:
            newer = self._put_aside(batches, file)
            if newer:
                yield from self._take_over(operator, newer)
            yield from super().feed(operator, _read(file), leftovers)

    def _put_aside(self, batches: Iterator[pa.RecordBatch], file: IO[bytes]) -> int:
        """Write what arrives to a file; how many words of newer versions are in it."""
        newer, writer = 0, None
        for batch in batches:
            kinds = check_instance(batch, self._wire.tags, self._task)
            newer += int(np.count_nonzero(kinds == self._wire.tags.newer))
            if writer is None:
                writer = pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()
        return newer

    def _take_over(self, operator: SemiStreamJoin, newer: int) -> Iterator[Matches]:
        self._number += newer
        master = self._masters.open(self._number, self._task.instance)
        self._numbers[master.version] = self._number
        yield from operator.take_over(master)

    def _push(self, operator: JoinOperator, batch: pa.RecordBatch) -> Iterator[Matches]:
        began = time.monotonic()
        yield from super()._push(operator, batch)
        self._pushing += time.monotonic() - began

    def _after_rows(self, operator: JoinOperator) -> Iterator[Matches]:
        yield from self._use_time(operator)
        yield from operator.tidy()

    def _use_time(self, operator: JoinOperator) -> Iterator[Matches]:
        if self.settled:
            yield from operator.settle()
            return
        seconds = self._budget
        if any(self.contents.rows):
            seconds = min(seconds, max(self._pushing, _SCAN_SECONDS))
        end = time.monotonic() + seconds
        yield from operator.idle(lambda: time.monotonic() >= end)


def _read(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """The batches in a file, each when it is asked for."""
    if file.tell():
        file.seek(0)
        yield from pa.ipc.open_stream(file)
