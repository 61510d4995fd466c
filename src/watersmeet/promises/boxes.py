"""Boxes: what has been promised about several columns together, as a range of values of each.

Boxes that are the same in all columns but one, and touch in that one, become one box. So do a
year of punctuations that say of one machine after the other that its next hour is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.kernels import promised
from watersmeet.promises.values import Scale, comparable, from_json, present, to_json
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import LAST_CODE

Places = NDArray[np.int64]

Ends = list[tuple[pa.Array, pa.Array]]
"""For each column, the low and the high ends of boxes, as plain values; null for no such end."""


class Boxes:
    """Boxes over some columns of one input."""

    def __init__(self, scales: Sequence[Scale], most: int) -> None:
        self._most = most
        self._scales = tuple(scales)
        self._ends: Ends = [(_none(scale), _none(scale)) for scale in scales]
        self._ages: Places = np.empty(0, np.int64)
        self._now = 0
        self._merged = 0
        """How many boxes there were after they had been merged last."""
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._ages)

    def covers(self, values: Sequence[pa.Array]) -> Mask:
        """Which rows, given by their plain values, lie in a box."""
        rows, boxes = np.zeros(len(values[0]), np.int64), np.full(len(self), -1, np.int64)
        return covered(values, rows, self._ends, boxes)

    def add(self, ends: Ends) -> None:
        """Remember boxes; none of them is empty."""
        new = len(ends[0][0])
        if not new:
            return
        self._now += 1
        self._ends = [
            (pa.concat_arrays([low, more_low]), pa.concat_arrays([high, more_high]))
            for (low, high), (more_low, more_high) in zip(self._ends, ends, strict=True)
        ]
        self._ages = np.concatenate([self._ages, np.full(new, self._now)])
        # Merging looks at all boxes: done when they have doubled, it costs little for each.
        if len(self) > max(2 * self._merged, 16):
            for column in range(len(self._scales)):
                self._merge(column)
            self._merged = len(self)
        if len(self) > self._most:
            latest = np.sort(np.argsort(self._ages, kind="stable")[-self._most :])
            self.forgotten += len(self) - len(latest)
            self._take([(latest, latest)] * len(self._scales), self._ages[latest])

    def _merge(self, column: int) -> None:
        """Make one box of those that are the same but for this column, and touch there."""
        codes = [_codes(low, high) for low, high in self._ends]
        others = [end for number, pair in enumerate(codes) if number != column for end in pair]
        low, high = codes[column]
        order = np.lexsort([low, *others])
        differs = np.zeros(len(self), np.bool_)
        for end in others:
            differs[1:] |= end[order][1:] != end[order][:-1]
        merged = np.empty(len(self), np.int64)
        count = promised.merge_neighbours(low[order], high[order], np.cumsum(differs), merged)
        if count == len(self):
            return
        first = np.searchsorted(merged, np.arange(count))
        # The box that reaches furthest gives the high end of those that become one.
        furthest = np.lexsort([high[order], merged])
        last = furthest[np.searchsorted(merged, np.arange(count), side="right") - 1]
        ages = np.zeros(count, np.int64)
        np.maximum.at(ages, merged, self._ages[order])
        places = [(order[first], order[first])] * len(self._scales)
        places[column] = (order[first], order[last])
        self._take(places, ages)

    def _take(self, places: Sequence[tuple[Places, Places]], ages: Places) -> None:
        self._ends = [
            (pc.take(low, pa.array(lows)), pc.take(high, pa.array(highs)))
            for (low, high), (lows, highs) in zip(self._ends, places, strict=True)
        ]
        self._ages = ages

    def save(self) -> dict[str, Any]:
        ends = [[to_json(low), to_json(high)] for low, high in self._ends]
        return {"ends": ends, "ages": self._ages.tolist()}

    def load(self, saved: dict[str, Any]) -> None:
        self._ends = [
            (from_json(low, scale.plain_type), from_json(high, scale.plain_type))
            for (low, high), scale in zip(saved["ends"], self._scales, strict=True)
        ]
        self._ages = np.array(saved["ages"], np.int64)
        self._now = int(self._ages.max(initial=0))
        self._merged = len(self)


def covered(values: Sequence[pa.Array], rows_came: Places, ends: Ends, boxes_came: Places) -> Mask:
    """Which rows, given by their plain values, lie in a box that came before them."""
    inside = np.zeros(len(rows_came), np.bool_)
    there = np.ones(len(rows_came), np.bool_)
    lines: list[tuple[Codes, Codes, Codes]] = []
    for column, (low, high) in zip(values, ends, strict=True):
        there &= present(column)
        codes, lows, highs = comparable(column, low, high)
        lines.append((codes, *_opened(low, high, lows, highs)))
    if not len(boxes_came) or not there.any():
        return inside
    # The column with the most different low ends comes first: it leaves the fewest boxes to try.
    lines.sort(key=lambda line: -len(np.unique(line[1])))
    order = np.argsort(lines[0][1], kind="stable")
    codes = np.stack([line[0][there] for line in lines])
    lows = np.stack([line[1][order] for line in lines])
    highs = np.stack([line[2][order] for line in lines])
    found = np.zeros(int(there.sum()), np.bool_)
    reached = np.maximum.accumulate(highs[0])
    promised.find_boxed(codes, rows_came[there], lows, highs, boxes_came[order], reached, found)
    inside[there] = found
    return inside


def _codes(low: pa.Array, high: pa.Array) -> tuple[Codes, Codes]:
    return _opened(low, high, *comparable(low, high))


def _opened(low: pa.Array, high: pa.Array, lows: Codes, highs: Codes) -> tuple[Codes, Codes]:
    """The codes of both ends, where an end that is null is the first or the last code."""
    first = np.where(present(low), lows, np.uint64(0))
    return first, np.where(present(high), highs, np.uint64(LAST_CODE))


def _none(scale: Scale) -> pa.Array:
    return pa.array([], scale.plain_type)
