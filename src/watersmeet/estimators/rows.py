"""Rows of both inputs in random order: the sampling unit is a row.

Holds for iterators and streams whose order is random. On files it does not: rows of one block
are alike, see `cluster`.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from watersmeet.estimators.keyed import KeyedSums
from watersmeet.estimators.moments import Floats, Integers, packed, products
from watersmeet.estimators.ripple import Spread, shape_of, two_sided
from watersmeet.estimators.totals import Reading, Totals
from watersmeet.estimators.units import UnitSums, gathered, grown
from watersmeet.model import Side


class PairSums:
    """t, A, B, Q of the pairs seen: sums per row of each side, and squares per pair.

    They add up over hash partitions of the join key, because a row lives in one partition.
    """

    def __init__(self, moments: int, *, most: int | None = None) -> None:
        """At `most` so many sums are kept of each side's rows, those of random ones if need be."""
        self.moments = moments
        self.groups = 0
        self._rows = (KeyedSums(moments, most=most), KeyedSums(moments, most=most))
        self._totals = np.zeros((0, moments))
        self._squares = np.zeros((0, len(packed(moments, 2))))

    def observe(
        self, left_numbers: Integers, right_numbers: Integers, groups: Integers, values: Floats
    ) -> None:
        if not len(groups):
            return
        for side, numbers in zip(Side, (left_numbers, right_numbers), strict=True):
            self._rows[side].add(groups, numbers, values)
        named, sums = gathered(groups, np.concatenate([products(values), values], axis=1))
        self.grow_to(int(named[-1]) + 1)
        width = self._squares.shape[1]
        self._squares[named] += sums[:, :width]
        self._totals[named] += sums[:, width:]

    def grow_to(self, groups: int) -> None:
        self.groups = max(self.groups, groups)
        self._squares = grown(self._squares, groups)
        self._totals = grown(self._totals, groups)

    def __iadd__(self, other: Self) -> Self:
        for side in Side:
            self._rows[side].__iadd__(other._rows[side])
        self.grow_to(other.groups)
        self._squares[: other.groups] += other._squares[: other.groups]
        self._totals[: other.groups] += other._totals[: other.groups]
        return self

    def units(self, side: Side, *, read: int) -> UnitSums:
        """Sums over the rows of one side, of which `read` are known, matched or not."""
        units = UnitSums(self.moments)
        units.count_equal(read)
        groups, _, sums = self._rows[side].entries()
        units.add(groups, sums, sizes=np.ones(len(groups)))
        units.grow_to(self.groups)
        if (share := self._rows[side].share) < 1:
            units.stand_for_all(share, self._totals[: self.groups])
        return units

    def spread(self, left: UnitSums, right: UnitSums) -> Spread:
        """Residuals around the mean; (A - tt'/n), (B - tt'/m), Q - A/m - B/n + tt'/nm."""
        n, m = max(left.units, 1), max(right.units, 1)
        squares = self._squares[: self.groups]
        total = left.total
        pairs = squares - left.square / m - right.square / n + products(total) / (n * m)
        return Spread(total, (left.residuals()[0], right.residuals()[0]), pairs)


def row_totals(pairs: PairSums, readings: tuple[Reading, Reading]) -> Totals:
    scaled = all(reading.of is not None for reading in readings)
    scale = 1.0
    for reading in readings:
        if scaled and not reading.complete:
            scale *= (reading.of or 0) / reading.read if reading.read else np.nan
    left, right = (
        pairs.units(side, read=reading.read) for side, reading in zip(Side, readings, strict=True)
    )
    spread = pairs.spread(left, right)
    covariance, floor = two_sided(spread, readings, scale=scale)
    sampled = [(r, u) for r, u in zip(readings, (left, right), strict=True) if not r.complete]
    return Totals(
        value=scale * spread.total,
        covariance=covariance,
        degrees=np.inf,
        exact=not sampled,
        seen=spread.total,
        readings=tuple(reading for reading, _ in sampled) or readings,
        shapes=tuple(shape_of(units, reading) for reading, units in sampled),
        floor=floor,
        contributing=np.minimum(left.contributing, right.contributing),
        largest=scale * np.minimum(left.largest, right.largest),
        scaled=scaled,
        fraction=1 / scale if scaled and scale == scale else 0.0,
    )
