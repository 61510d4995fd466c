"""Blocks of one input, each joined with everything it can meet.

The other input is complete, or a block is a range of keys that is read from both. Blocks are
read in random order, and a block is one draw: its rows may be alike (one day, one range of
keys), so the spread *between* blocks is the only spread that counts. Counting rows instead takes
them for independent and makes the interval too narrow.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.totals import Reading, ResidualMoments, Totals
from watersmeet.estimators.units import UnitSums, gathered


class ClusterSample:
    """Totals from some blocks, scaled up by rows: a ratio, so that large blocks do no harm.

    >>> sample = ClusterSample(blocks=4, rows=32, moments=1)
    >>> sample.add(np.array([0]), np.array([[3.0]]), rows=8)
    >>> sample.add(np.array([0]), np.array([[5.0]]), rows=8)
    >>> totals = sample.totals()
    >>> totals.value.item(), totals.covariance.item(), totals.degrees
    (16.0, 8.0, 1.0)
    """

    def __init__(self, *, blocks: int, rows: int | None, moments: int) -> None:
        self.blocks = blocks
        self.rows = rows
        self.moments = moments
        self._units = UnitSums(moments)

    @property
    def blocks_read(self) -> int:
        return self._units.units

    def add(self, groups: Integers, totals: Floats, *, rows: int) -> None:
        """One block: its groups with their totals (others are zero), its rows before filters.

        Groups are dense numbers from 0; a new one may come up in any block.
        """
        if self.blocks_read == self.blocks:
            raise InvalidArgument(
                f"All {self.blocks} blocks have been added already.",
                remedy="Add each block once.",
            )
        size = np.array([1.0 if self.rows is None else float(rows)])
        self._units.count(size)
        groups, totals = gathered(groups, totals)
        self._units.add(groups, totals, sizes=np.broadcast_to(size, len(groups)))

    def __iadd__(self, other: Self) -> Self:
        self._units += other._units
        return self

    def totals(self) -> Totals:
        return expanded(self._units, Reading(self.blocks_read, self.blocks), whole=self.rows)


def expanded(units: UnitSums, reading: Reading, *, whole: float | None) -> Totals:
    """The ratio estimate from one sample of units; `whole` is the size of them all together."""
    seen = units.total
    size = units.sizes[0]
    second, third = units.residuals()
    exact = reading.complete
    if exact:
        scale, factor = 1.0, 0.0
    else:
        if whole is None:
            whole = float(reading.of or size)
        scale = whole / size if size else np.nan
        spread = units.units / (units.units - 1) if units.units > 1 else np.inf
        factor = scale**2 * (1 - reading.fraction) * spread
    with np.errstate(invalid="ignore"):
        covariance = np.zeros_like(second) if exact else factor * second
    return Totals(
        value=scale * seen,
        covariance=covariance,
        degrees=float(units.units - 1),
        exact=exact,
        seen=seen,
        readings=(reading,),
        shapes=(ResidualMoments(second, third, reading),),
        contributing=units.contributing,
        largest=scale * units.largest,
        fraction=1.0 if exact else (size / whole if whole else 0.0),
    )
