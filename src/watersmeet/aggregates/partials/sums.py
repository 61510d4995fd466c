"""Sums of numbers by group: exact for integers and decimals, and for floats as if rounded once.

Sums of two sets of rows add up to the sums of both, so they can be made anywhere, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from watersmeet.expressions.numbers import LONG, Mask, Numbers, exactly, inside
from watersmeet.expressions.numbers import sums as sums_of_bounds
from watersmeet.kernels.grouping import count_valid, extremes, sum_floats, sum_longs, sum_squares
from watersmeet.kernels.grouping import sum_wide as sum_wide_longs

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
_NO_LONGS: Longs = np.empty(0, np.int64)
_NO_MASK: Mask = np.empty(0, np.bool_)
_WIDE = 1 << 94
_A = TypeVar("_A", Longs, Floats)


@dataclass(frozen=True, slots=True)
class Sums:
    """Per group: how many numbers are not null, and their sum. Weights count rows several times.

    A sum of floats is `total` plus `error`, the part that rounding took from it. `squares` are
    those of the distances from the group's own mean: about any other number, the spread of values
    that lie far from it would be lost in rounding. `ends` are the least and the most of the
    numbers, each group in a row, infinite where it has none.
    """

    count: Longs
    total: Numbers
    error: Floats | None = None
    squares: Floats | None = None
    ends: Floats | None = None

    @classmethod
    def of(
        cls,
        numbers: Numbers,
        codes: Longs | None = None,
        *,
        groups: int = 1,
        weights: Longs | None = None,
        spread: bool = False,
        rows: Longs | None = None,
    ) -> Sums:
        """Sums by `codes`, the group of each row, all below `groups`; None: there is one group.

        `weights` are not negative: how many partners a row has. With `spread`, squares too. `rows`
        are those of each group, if they have been counted.

        >>> sums = Sums.of(Numbers(np.array([125, 250, -25]), None, 2, (-25, 250)),
        ...                np.array([0, 1, 0]), groups=2, weights=np.array([2, 1, 1]))
        >>> sums.count.tolist(), sums.total.values.tolist(), sums.floats().tolist()
        ([3, 1], [225, 250], [2.25, 2.5])
        """
        codes = _NO_LONGS if codes is None else np.ascontiguousarray(codes, np.int64)
        if weights is not None or numbers.valid is not None:
            rows = None
        weights = _NO_LONGS if weights is None else np.ascontiguousarray(weights, np.int64)
        count = _count(numbers, codes, weights, groups) if rows is None else rows
        if numbers.exact:
            found = cls(count, _exact(numbers, codes, weights, groups))
        else:
            totals, errors = np.zeros(groups), np.zeros(groups)
            sum_floats(np.asarray(numbers.values, np.float64), codes, weights, totals, errors)
            found = cls(count, Numbers(totals, None), errors)
        if not spread:
            return found
        squares = _squares(numbers, codes, weights, groups, centres=found.means())
        return replace(found, squares=squares)

    def __add__(self, other: Sums) -> Sums:
        count = self.count + other.count
        if self.error is None or other.error is None:
            scale = self.total.scale
            total = exactly(np.add, self.total, other.total, sums_of_bounds)
            both = Sums(count, Numbers(total.values, None, scale, total.bounds))
            return replace(both, squares=self._squares_with(other, both))
        mine, theirs = self.total.values, other.total.values
        with np.errstate(invalid="ignore"):
            after = mine + theirs
            part = after - mine
            error = self.error + other.error + ((mine - (after - part)) + (theirs - part))
        both = Sums(count, Numbers(after, None), error)
        return replace(both, squares=self._squares_with(other, both))

    def _squares_with(self, other: Sums, both: Sums) -> Floats | None:
        if self.squares is None or other.squares is None:
            return None
        mean = both.means()
        return self.squares_about(mean) + other.squares_about(mean)

    def means(self) -> Floats:
        """Zero of nothing."""
        with np.errstate(all="ignore"):
            return np.asarray(self.floats() / np.maximum(self.count, 1))

    def squares_about(self, centre: float | Floats) -> Floats:
        """Squares of the distances from another number for each group."""
        assert self.squares is not None
        with np.errstate(all="ignore"):
            moved = self.means() - centre
            return np.asarray(self.squares + np.where(self.count > 0, moved**2 * self.count, 0.0))

    def placed(self, positions: Longs, groups: int) -> Sums:
        """The same sums among `groups`, the i-th of them at `positions[i]`, no two at one."""
        values = np.zeros(groups, self.total.values.dtype)
        values[positions] = self.total.values
        low, high = self.total.bounds
        return Sums(
            _placed(self.count, positions, groups),
            Numbers(values, None, self.total.scale, (min(low, 0), max(high, 0))),
            None if self.error is None else _placed(self.error, positions, groups),
            None if self.squares is None else _placed(self.squares, positions, groups),
        )

    def floats(self) -> Floats:
        """The sums as floats: zero for a group without numbers."""
        totals = self.total.floats()
        if self.error is None:
            return totals
        # The error of an infinite sum means nothing.
        return np.where(np.isfinite(totals), totals + self.error, totals)


def extremes_of(
    numbers: Numbers, codes: Longs | None = None, *, groups: int = 1
) -> tuple[Numbers, Numbers]:
    """The least and the most of each group; null where it has no number."""
    codes = _NO_LONGS if codes is None else np.ascontiguousarray(codes, np.int64)
    valid = _NO_MASK if numbers.valid is None else numbers.valid
    if numbers.values.dtype == object:
        chosen = numbers.values if numbers.valid is None else numbers.values[numbers.valid]
        places = codes if codes.size else np.zeros(numbers.values.size, np.int64)
        places = places if numbers.valid is None else places[numbers.valid]
        least, most = np.full(groups, np.inf, object), np.full(groups, -np.inf, object)
        np.minimum.at(least, places, chosen)
        np.maximum.at(most, places, chosen)
    else:
        values: NDArray[Any] = numbers.values if numbers.exact else numbers.floats()
        lowest, highest = LONG if numbers.exact else (-np.inf, np.inf)
        least, most = np.full(groups, highest, values.dtype), np.full(groups, lowest, values.dtype)
        extremes(values, valid, codes, least, most)
    known = _count(numbers, codes, _NO_LONGS, groups) > 0
    mask = None if known.all() else known
    least, most = np.where(known, least, 0), np.where(known, most, 0)
    scale, bounds = numbers.scale, numbers.bounds
    return Numbers(least, mask, scale, bounds), Numbers(most, mask, scale, bounds)


def _placed(values: _A, positions: Longs, groups: int) -> _A:
    out = np.zeros(groups, values.dtype)
    out[positions] = values
    return out


def _count(numbers: Numbers, codes: Longs, weights: Longs, groups: int) -> Longs:
    count = np.zeros(groups, np.int64)
    if numbers.valid is not None:
        count_valid(numbers.valid, codes, weights, count)
    elif not codes.size:
        # Without rows there may be no group either.
        count[:1] = weights.sum() if weights.size else numbers.values.size
    elif weights.size:
        sum_longs(weights, codes, _NO_LONGS, count)
    else:
        count += np.bincount(codes, minlength=groups)
    return count


def _exact(numbers: Numbers, codes: Longs, weights: Longs, groups: int) -> Numbers:
    values, scale = numbers.values, numbers.scale
    rows = int(weights.sum()) if weights.size else values.size
    low, high = numbers.bounds
    bounds = (min(low, 0) * rows, max(high, 0) * rows)
    if values.dtype == object:
        return _slow(numbers, codes, weights, groups)
    if inside(bounds, LONG):
        out = np.zeros(groups, np.int64)
        sum_longs(values, codes, weights, out)
        return Numbers(out, None, scale, bounds)
    if not inside(bounds, (-_WIDE, _WIDE)) or (weights.size and int(weights.max()) >> 31):
        return _slow(numbers, codes, weights, groups)
    upper, lower = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    sum_wide_longs(values, codes, weights, upper, lower)
    return Numbers(upper.astype(object) * (1 << 32) + lower, None, scale).tight()


def _slow(numbers: Numbers, codes: Longs, weights: Longs, groups: int) -> Numbers:
    """In Python's integers, for values that need more than 64 bits."""
    values: NDArray[Any] = numbers.values.astype(object)
    if weights.size:
        values = values * weights.astype(object)
    out = np.zeros(groups, object)
    np.add.at(out, codes if codes.size else np.zeros(values.size, np.int64), values)
    return Numbers(out, None, numbers.scale).tight()


def _squares(
    numbers: Numbers, codes: Longs, weights: Longs, groups: int, *, centres: Floats
) -> Floats:
    squares = np.zeros(groups)
    valid = _NO_MASK if numbers.valid is None else numbers.valid
    values = numbers.values
    if values.dtype != np.int64:
        values = numbers.floats()
    elif numbers.scale:
        # As the mean is made: of one value, it is the value.
        values = values / 10.0**numbers.scale
    sum_squares(values, valid, centres, codes, weights, squares)
    return squares
