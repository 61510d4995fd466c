"""Which keys are joined in which wave, if both tables are clustered on their key.

Every wave has keys of its own: some stretches of all values of a key column. Rows of different
waves never meet, so each wave is a join by itself: its operators begin empty, end with it, and
nothing has to be kept or built again for the next. What decides is the value in a row, and not
where the row was found: of a row group with keys of several waves, which is read in the first of
them, the other rows are put aside for theirs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.errors import InputChanged
from watersmeet.model import Side
from watersmeet.policies.order import random_order
from watersmeet.spark.scans.ranges import ranges_of
from watersmeet.spark.scans.scan import PlainScan
from watersmeet.spark.tables.order import Range, is_clustered
from watersmeet.spark.tables.plan import Plan

# The last part of a wave's last stretch has to be read together with rows of later waves. If parts
# are fewer than this, that would be most of the first wave.
_FEWEST_PARTS = 16
# More stretches are a better sample of all keys, but each has an end inside a part of either table,
# whose other rows have to be put aside.
_MOST_STRETCHES = 64
# A stretch is not cut for less than this share of all rows.
_LEAST_SHARE = 1 / 400

Waves = NDArray[np.int64]


@dataclass(frozen=True)
class KeyRanges:
    """Two tables that are clustered on a pair of key columns: the values in each of their parts."""

    columns: tuple[str, str]
    ranges: tuple[Sequence[Range], Sequence[Range]]
    rows: tuple[Sequence[int], Sequence[int]]

    @property
    def has_many_parts(self) -> bool:
        """Whether waves can have keys of their own: parts are small beside the first wave."""
        return min(map(len, self.ranges)) >= _FEWEST_PARTS


def key_ranges(plan: Plan, tables: Mapping[int, PlainScan]) -> KeyRanges | None:
    """Those of the first key on which both tables are clustered, by what footers say."""
    if len(plan.inputs) != 2 or len(tables) != 2:
        return None
    sides = [tables[input] for input in plan.inputs]
    for key in plan.join.keys:
        if not pa.types.is_integer(key.kind) and not pa.types.is_temporal(key.kind):
            continue
        left, right = (
            _known(ranges_of(side, name))
            for side, name in zip(sides, (key.left, key.right), strict=True)
        )
        if left is not None and right is not None and is_clustered(left) and is_clustered(right):
            counts = [[group.rows for group in side.row_groups] for side in sides]
            return KeyRanges((key.left, key.right), (left, right), (counts[0], counts[1]))
    return None


def _known(ranges: Sequence[Range | None]) -> list[Range] | None:
    known = [each for each in ranges if each is not None]
    return known if len(known) == len(ranges) else None


@dataclass(frozen=True)
class Stretches:
    """The wave of every key. It is sent to scan tasks."""

    columns: tuple[str, str]
    """The key of each side."""
    starts: NDArray[np.int64]
    """Where every stretch but the first begins."""
    waves: Waves
    """The wave of each stretch; one more than starts."""

    @classmethod
    def of(cls, known: KeyRanges, ends: Sequence[float], *, seed: int) -> Stretches:
        """Stretches in random order, in waves that end after about these shares of the rows."""
        spread = _Spread.of(known)
        firsts = sorted({least for least, _ in min(known.ranges, key=len)})
        starts = [spread.least, *firsts[1 :: ceil(len(firsts) / _MOST_STRETCHES)]]
        stops = [*starts[1:], spread.stop]
        found: list[tuple[int, int]] = []
        read = 0.0
        for number in random_order(len(starts), seed=seed):
            start, share = starts[number], spread.share(starts[number], stops[number])
            inside = [
                each for each in ends if read + _LEAST_SHARE < each < read + share - _LEAST_SHARE
            ]
            cuts = [start, *(spread.value_after(start, end - read) for end in inside)]
            places = [read, *inside, read + share]
            for cut, middle in zip(cuts, map(mean, pairwise(places)), strict=True):
                found.append((cut, min(bisect_right(ends, middle), len(ends) - 1)))
            read += share
        return cls._joined(known.columns, found)

    @classmethod
    def _joined(cls, columns: tuple[str, str], found: list[tuple[int, int]]) -> Stretches:
        """Neighbours of the same wave are one stretch, and the first begins below all values."""
        merged = [next(same) for _, same in groupby(sorted(found), key=itemgetter(1))]
        starts = np.array([start for start, _ in merged[1:]], np.int64)
        return cls(columns, starts, np.array([wave for _, wave in merged], np.int64))

    def reached(self, values: Range) -> Waves:
        """The waves of all values from the first to the last of a range."""
        first, last = (int(self._stretch(np.int64(value))) for value in values)
        return self.waves[first : last + 1]

    def divided(
        self, side: Side, batch: pa.RecordBatch, wave: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """A batch that is read in some wave, as (wave, rows). Rows without a key have no partner,
        and are as good in this wave as in any other."""
        keys = batch.column(self.columns[side])
        ends = pc.min_max(_numbers(keys)).as_py()
        if ends["min"] is None:
            yield wave, batch
            return
        reached = self.reached((ends["min"], ends["max"]))
        if (reached == reached[0]).all() and (reached[0] == wave or not keys.null_count):
            yield self._checked(int(reached[0]), wave, side), batch
            return
        numbers = _numbers(keys).fill_null(ends["min"]).to_numpy()
        waves = self.waves[self._stretch(numbers)]
        if keys.null_count:
            waves[keys.is_null().to_numpy(zero_copy_only=False)] = wave
        for each in np.unique(waves).tolist():
            rows = batch.filter(pa.array(waves == each))
            yield self._checked(each, wave, side), rows

    def _stretch(self, values: NDArray[np.int64] | np.int64) -> Any:
        return np.searchsorted(self.starts, values, side="right")

    def _checked(self, found: int, wave: int, side: Side) -> int:
        if found < wave:
            raise InputChanged(
                f"A row group has values of {self.columns[side]!r} outside of those that its "
                "file's footer tells, and the rows that they would meet have been joined before.",
                remedy="Write that file again; to_df() reads it as it is, if it is called before "
                "any wave is asked for.",
            )
        return found


@dataclass(frozen=True)
class _Spread:
    """About how the rows of both tables, of which each counts as one, are spread over values."""

    least: int
    stop: int
    _places: NDArray[np.float64]
    """Values, less the least: differences can be told apart where values are large."""
    _shares: NDArray[np.float64]
    """Of the rows before each."""

    @classmethod
    def of(cls, known: KeyRanges) -> _Spread:
        """Rows of a part are taken to be evenly spread between its ends."""
        least = min(first for side in known.ranges for first, _ in side)
        stop = max(last for side in known.ranges for _, last in side) + 1
        slopes: dict[int, float] = defaultdict(float)
        for ranges, counts in zip(known.ranges, known.rows, strict=True):
            total = 2 * sum(counts)
            for (first, last), rows in zip(ranges, counts, strict=True):
                slope = rows / total / (last + 1 - first)
                slopes[first - least] += slope
                slopes[last + 1 - least] -= slope
        places = np.array(sorted(slopes), np.float64)
        steep = np.cumsum([slopes[place] for place in sorted(slopes)])
        shares = np.cumsum(np.append(0.0, steep[:-1] * np.diff(places)))
        return cls(least, stop, places, shares / shares[-1])

    def share(self, start: int, stop: int) -> float:
        """Of the rows whose values are from start to before stop."""
        return self._before(stop) - self._before(start)

    def value_after(self, start: int, share: float) -> int:
        """Where this share of the rows has come since a value."""
        wanted = self._before(start) + share
        place = int(np.interp(wanted, self._shares, self._places))
        return min(max(self.least + place, start + 1), self.stop - 1)

    def _before(self, value: int) -> float:
        return float(np.interp(value - self.least, self._places, self._shares))


def _numbers(keys: pa.Array) -> pa.Array:
    """Whole numbers, days or microseconds, as `ranges_of` tells them."""
    return (
        keys.cast(pa.int32()).cast(pa.int64())
        if pa.types.is_date32(keys.type)
        else keys.cast(pa.int64())
    )
