"""What has been promised so far, in plain values, for the check of rows to come.

Each memory forgets the oldest of what it remembers when that has become too many separate ranges or
values. A row that breaks a promise that was forgotten is not found; what was told to the join is
not forgotten with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.promises.values import from_json, present, to_json
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import Ranges, unite

REMEMBERED = 2**14
"""How many separate ranges or values are remembered of one promise, unless another number is given:
half a megabyte of JSON."""
_LONGEST = 2**20
"""How many bytes the values that one promise remembers may have together."""

_ONE = np.uint64(1)
_BYTES = pa.large_binary()


class Line:
    """Ranges of one column's codes, merged where they touch.

    >>> line = Line(2)
    >>> for first in (7, 3, 8, 1, 0): line.add(np.array([[first, first]], np.uint64))
    >>> line.save(), line.forgotten
    ({'ranges': [[0, 1], [7, 8]], 'ages': [5, 3]}, 1)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.ranges: Ranges = np.empty((0, 2), np.uint64)
        self._ages: NDArray[np.int64] = np.empty(0, np.int64)
        """When each range last grew, as a number that rises."""
        self._now = 0
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self.ranges)

    def covers(self, codes: Codes) -> Mask:
        if not len(self.ranges):
            return np.zeros(len(codes), np.bool_)
        place = np.searchsorted(self.ranges[:, 0], codes, side="right")
        inside: Mask = (place > 0) & (codes <= self.ranges[np.maximum(place, 1) - 1, 1])
        return inside

    def add(self, ranges: Ranges) -> None:
        """Remember ranges, which may be in any order and overlap; empty ones are left out."""
        ranges = unite(ranges[ranges[:, 0] <= ranges[:, 1]])
        if not len(ranges):
            return
        self._now += 1
        both = np.concatenate([self.ranges, ranges])
        ages = np.concatenate([self._ages, np.full(len(ranges), self._now)])
        united = unite(both)
        if len(united) < len(both):
            latest = np.zeros(len(united), np.int64)
            place = np.searchsorted(united[:, 0], both[:, 0], side="right") - 1
            np.maximum.at(latest, place, ages)
            ages = latest
        else:
            ages = ages[np.argsort(both[:, 0], kind="stable")]
        self.ranges, self._ages = united, ages
        if len(united) > self._most:
            self._keep(np.sort(np.argsort(ages, kind="stable")[-self._most :]))

    def _keep(self, index: NDArray[np.int64]) -> None:
        self.forgotten += len(self.ranges) - len(index)
        self.ranges, self._ages = self.ranges[index], self._ages[index]

    def let_go(self, first: int, last: int) -> None:
        """Forget what is about codes from `first` to `last` only: another promise is about them."""
        inside = (self.ranges[:, 0] >= np.uint64(first)) & (self.ranges[:, 1] <= np.uint64(last))
        if inside.any():
            self.ranges, self._ages = self.ranges[~inside], self._ages[~inside]

    def save(self) -> dict[str, Any]:
        return {"ranges": self.ranges.tolist(), "ages": self._ages.tolist()}

    def load(self, saved: dict[str, Any]) -> None:
        self.ranges = np.array(saved["ranges"], np.uint64).reshape(-1, 2)
        self._ages = np.array(saved["ages"], np.int64)
        self._now = int(self._ages.max(initial=0))


class Points:
    """Values that have no codes of their own: texts, and the values of several columns together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.values: pa.Array = pa.array([], _BYTES)
        """In the order in which they came."""
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self.values)

    def covers(self, values: pa.Array) -> Mask:
        if not len(self.values):
            return np.zeros(len(values), np.bool_)
        found = pc.is_in(values, value_set=self.values, skip_nulls=True)
        mask: Mask = found.to_numpy(zero_copy_only=False)
        return mask

    def add(self, values: pa.Array) -> None:
        new = pc.unique(values.filter(pa.array(present(values) & ~self.covers(values))))
        if not len(new):
            return
        both = pa.concat_arrays([self.values, new])
        sizes = pc.binary_length(both).to_numpy(zero_copy_only=False)
        behind = np.cumsum(sizes[::-1])[::-1]  # the bytes from a value to the last
        first = max(len(both) - self._most, int(np.searchsorted(-behind, -_LONGEST)))
        self.forgotten += first
        # A copy: a slice would keep all the bytes before it.
        self.values = pc.take(both, pa.array(np.arange(first, len(both)))) if first else both

    def save(self) -> dict[str, Any]:
        return {"values": to_json(self.values)}

    def load(self, saved: dict[str, Any]) -> None:
        self.values = from_json(saved["values"], _BYTES)
