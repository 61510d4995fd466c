"""Sums over sampling units (blocks, rows, keys) from which variance and skewness follow.

A unit B contributes the totals y_B to a group and has a size R_B. What matters is how far the
units lie off the line through the origin, e_B = y_B - r R_B with r = sum y / sum R. As r
changes with every unit, only sums of products are kept, and units without a row of the group
(e_B = -r R_B) cost nothing: they enter through the sums of R alone.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from watersmeet.estimators.moments import Floats, Integers, cubes, packed, place, products


def gathered(keys: Integers, values: Floats) -> tuple[Integers, Floats]:
    """Rows of equal key added up, keys ascending."""
    if len(keys) > 1:
        steps = np.diff(keys)
        if (steps < 0).any():
            order = np.argsort(keys, kind="stable")
            keys, values = keys[order], values[order]
            steps = np.diff(keys)
        if (steps == 0).any():
            starts = np.concatenate([[0], np.flatnonzero(steps) + 1])
            keys, values = keys[starts], np.add.reduceat(values, starts, axis=0)
    return keys, values


def grown(array: Floats, groups: int, *, fill: float = 0.0) -> Floats:
    """Room for `groups` first rows; doubled, so that late groups cost little."""
    if groups <= len(array):
        return array
    grow_to = np.full((max(groups, 2 * len(array)), *array.shape[1:]), fill)
    grow_to[: len(array)] = array
    return grow_to


class UnitSums:
    """Mergeable sums over units, per group."""

    def __init__(self, moments: int) -> None:
        self.moments = moments
        self.units = 0
        self.sizes = np.zeros(3)  # sums of R, R^2, R^3
        self.groups = 0
        widths = (moments,) * 3 + (len(packed(moments, 2)),) * 2 + (len(packed(moments, 3)), 1)
        self._ends = np.cumsum(widths)
        self._sums = np.zeros((0, self._ends[-1]))
        self._largest = np.zeros((0, moments))

    def count(self, sizes: Floats) -> None:
        """These units have been read, whatever they contributed."""
        self.units += len(sizes)
        self.sizes += [sizes.sum(), (sizes**2).sum(), (sizes**3).sum()]

    def count_equal(self, units: int) -> None:
        """As many units of size 1."""
        self.units += units
        self.sizes += units

    def add(self, groups: Integers, totals: Floats, *, sizes: Floats) -> None:
        """What units contributed: one entry per unit and group, with the unit's size."""
        if not len(groups):
            return
        size = sizes[:, None]
        square = products(totals)
        parts = [totals, size * totals, size**2 * totals, square, size * square, cubes(totals)]
        sums = np.concatenate([*parts, totals.any(axis=1, keepdims=True)], axis=1)
        named, most = groups, totals
        if (np.diff(groups) <= 0).any():  # several units at once
            order = np.argsort(groups, kind="stable")
            ascending = groups[order]
            starts = np.concatenate([[0], np.flatnonzero(np.diff(ascending)) + 1])
            named = ascending[starts]
            sums = np.add.reduceat(sums[order], starts, axis=0)
            most = np.maximum.reduceat(totals[order], starts, axis=0)
        self.grow_to(int(named[-1]) + 1)
        self._sums[named] += sums
        self._largest[named] = np.maximum(self._largest[named], most)

    def grow_to(self, groups: int) -> None:
        self.groups = max(self.groups, groups)
        self._sums = grown(self._sums, groups)
        self._largest = grown(self._largest, groups)

    def stand_for_all(self, share: float, totals: Floats) -> None:
        """A random share of the units was added, all of size 1; `totals` are those of all."""
        self._sums[: self.groups] /= share
        self._sums[: self.groups, : 3 * self.moments] = np.tile(totals, 3)

    def __iadd__(self, other: Self) -> Self:
        self.units += other.units
        self.sizes = self.sizes + other.sizes
        self.grow_to(other.groups)
        some = slice(other.groups)
        self._sums[some] += other._sums[some]
        self._largest[some] = np.maximum(self._largest[some], other._largest[some])
        return self

    def _part(self, number: int) -> Floats:
        start = self._ends[number - 1] if number else 0
        return self._sums[: self.groups, start : self._ends[number]]

    @property
    def total(self) -> Floats:
        return self._part(0).copy()

    @property
    def weighted(self) -> Floats:
        """Sum of R y."""
        return self._part(1)

    @property
    def square(self) -> Floats:
        """Packed sum of y y'."""
        return self._part(3)

    @property
    def contributing(self) -> Floats:
        """Units with anything of the group."""
        return self._part(6)[:, 0].copy()

    @property
    def largest(self) -> Floats:
        return self._largest[: self.groups].copy()

    def residuals(self) -> tuple[Floats, Floats]:
        """Packed sums of e e' and of e e e."""
        sum_, square_, cube_ = self.sizes
        rate = self._part(0) / sum_ if sum_ else np.zeros_like(self._part(0))
        y_size, y_size2, yy, yy_size, yyy = (self._part(number) for number in range(1, 6))
        second = yy - 2 * products(rate, y_size) + products(rate) * square_
        variances = packed(self.moments, 2)
        diagonal = variances[:, 0] == variances[:, 1]
        # A sum of squares is not negative, whatever rounding says.
        second[:, diagonal] = np.maximum(second[:, diagonal], 0)
        i, j, k = packed(self.moments, 3).T
        at = place(self.moments)
        third = yyy - cubes(rate) * cube_
        for one, two, three in ((i, j, k), (j, i, k), (k, i, j)):
            third -= rate[:, one] * yy_size[:, at[two, three]]
            third += rate[:, two] * rate[:, three] * y_size2[:, one]
        return second, third
