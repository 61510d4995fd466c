"""Routes the rows of a join without equal keys by ranges of values, one for each instance.

One side is the *owner*: each of its rows goes to the instance of the range that its value lies in,
and no other. A row of the other side is copied to every instance in whose range it can have a
partner. So each pair is found in one instance, that of the owner's row, and a row of the owner
that has no partner there has none.

Ranges are ranges of codes, which rise with values (`spark/placing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels.spans import group_by_span
from watersmeet.model import Side
from watersmeet.rows.encoded import Codes
from watersmeet.spark.placing import Placing
from watersmeet.spark.routing import Grouped, Instances

Spans = tuple[Instances, Instances]


@dataclass(frozen=True)
class Ranges:
    """The first code of each instance's range, in rising order.

    Codes below all of them belong to the first instance. Several instances may have the same first
    code: rows of the owner with just that code, of which there are very many then, are divided
    among these instances, and codes above it belong to the last of them.
    """

    owner: Side
    starts: tuple[int, ...] = (0,)

    @property
    def instances(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class RangeRouter:
    """Each row of the owner to one instance, each row of the other side to all it can meet.

    A row that can meet none, because its value is null, say, may go to any instance; such rows are
    dealt out in turn.
    """

    ranges: Ranges
    placing: Placing

    @property
    def instances(self) -> int:
        return self.ranges.instances

    @cached_property
    def _starts(self) -> Codes:
        return np.array(self.ranges.starts, np.uint64)

    def spans(self, side: Side, batch: pa.RecordBatch) -> Spans:
        """The first and the last instance of every row."""
        columns = [batch.column(place) for place in self.placing.columns(side)]
        extent = self.placing.extent(side, columns)
        if side is self.ranges.owner:
            spans = self._owned(extent.starts)
        else:
            spans = self._within(*self.placing.reach(side, extent.starts, extent.ends))
        first, last = spans
        lost = first > last
        if extent.valid is not None:
            lost |= ~extent.valid
        first[lost] = last[lost] = _dealt(lost, self.instances)
        return spans

    def group(self, input: int, batch: pa.RecordBatch) -> Grouped:
        grouped: Grouped = group_by_span(*self.spans(Side(input), batch), self.instances)
        return grouped

    def _owned(self, codes: Codes) -> Spans:
        last = self._last_with(codes)
        first = np.searchsorted(self._starts, codes, "left")
        # More than one instance only if several have just this code as their first.
        several = first < last
        if several.any():
            rows = np.flatnonzero(several)
            last[rows] = first[rows] + rows % (last[rows] - first[rows] + 1)
        return last, last.copy()

    def _within(self, least: Codes, most: Codes) -> Spans:
        """The instances that can have a code from `least` to `most`."""
        found = np.searchsorted(self._starts, least, "left")
        begins = self._starts[np.minimum(found, self.instances - 1)]
        # The range before reaches up to the next start, but for rows that have just that code.
        found -= (found == self.instances) | (begins != least)
        first: Instances = np.maximum(found, 0).astype(np.int32)
        last = self._last_with(most)
        last[least > most] = -1
        return first, last

    def _last_with(self, codes: Codes) -> Instances:
        found = np.searchsorted(self._starts, codes, "right") - 1
        return np.maximum(found, 0).astype(np.int32)


def _dealt(rows: NDArray[np.bool_], instances: int) -> NDArray[np.int64]:
    """An instance for each of these rows, by their place in the batch: a task that is tried again
    reads the same batches."""
    return np.flatnonzero(rows) % instances
