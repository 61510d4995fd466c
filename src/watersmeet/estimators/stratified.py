"""Blocks of one input in strata: each is a sample of its own, and their totals add up.

What a stratum says is scaled up to that stratum alone, so strata may be read to different depths,
and how they differ from each other costs nothing. A stratum that was read to its end is exact.

References
----------
Cochran, *Sampling Techniques*, 1977, chapters 5 and 6 (the separate ratio estimate; degrees of
freedom after Satterthwaite).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.cluster import expanded
from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.totals import Reading, ResidualMoments, Totals
from watersmeet.estimators.units import UnitSums, gathered


class StratifiedSample:
    """Totals from some blocks of every stratum, in each scaled up by rows.

    >>> sample = StratifiedSample(strata=[(2, 16), (1, 40)], moments=1)
    >>> sample.add(np.array([0]), np.array([[3.0]]), rows=8, stratum=0)
    >>> sample.add(np.array([0]), np.array([[90.0]]), rows=40, stratum=1)
    >>> sample.totals().value.item()
    96.0
    """

    def __init__(self, *, strata: Sequence[tuple[int, int | None]], moments: int) -> None:
        """`strata` are blocks and rows of each; rows that are not known are left out."""
        self.strata = list(strata)
        self.moments = moments
        self._units = [UnitSums(moments) for _ in strata]

    @property
    def blocks(self) -> int:
        return sum(blocks for blocks, _ in self.strata)

    @property
    def blocks_read(self) -> int:
        return sum(units.units for units in self._units)

    def add(self, groups: Integers, totals: Floats, *, rows: int, stratum: int = 0) -> None:
        """One block: its groups with their totals (others are zero), its rows before filters.

        Groups are dense numbers from 0; a new one may come up in any block.
        """
        blocks, whole = self.strata[stratum]
        units = self._units[stratum]
        if units.units == blocks:
            raise InvalidArgument(
                f"All {blocks} blocks of this stratum have been added already.",
                remedy="Add each block once.",
            )
        size = np.array([1.0 if whole is None else float(rows)])
        units.count(size)
        groups, totals = gathered(groups, totals)
        units.add(groups, totals, sizes=np.broadcast_to(size, len(groups)))

    def totals(self) -> Totals:
        groups = max((units.groups for units in self._units), default=0)
        found = [
            expanded(units, Reading(units.units, blocks), whole=rows).padded(groups)
            for units, (blocks, rows) in zip(self._units, self.strata, strict=True)
            if blocks
        ]
        return found[0] if len(found) == 1 else _added(found, self._share())

    def _share(self) -> float:
        """Of all rows, those that were read."""
        wholes = [blocks if rows is None else rows for blocks, rows in self.strata]
        read = sum(float(units.sizes[0]) for units in self._units)
        return read / sum(wholes) if sum(wholes) else 0.0


def _added(strata: Sequence[Totals], share: float) -> Totals:
    """The strata together. What was read to its end varies no more, and judges nothing."""
    open_ = [totals for totals in strata if not totals.exact]
    value, covariance, seen = (
        np.sum([getattr(totals, name) for totals in strata], axis=0)
        for name in ("value", "covariance", "seen")
    )
    if not open_:
        return strata[0]._replace(
            value=value, covariance=np.zeros_like(covariance), seen=seen, fraction=1.0
        )
    read = sum(totals.readings[0].read for totals in open_)
    reading = Reading(read, sum(totals.readings[0].of or 0 for totals in open_))
    return Totals(
        value=value,
        covariance=covariance,
        degrees=float(max(read - len(open_), 0)),
        exact=False,
        seen=seen,
        readings=(reading,),
        shapes=(_pooled(open_, covariance, reading, share),),
        contributing=np.sum(np.stack([_known(totals.contributing) for totals in open_]), axis=0),
        largest=np.max(np.stack([_known(totals.largest) for totals in open_]), axis=0),
        fraction=share,
        strata=tuple(
            ResidualMoments(totals.covariance, totals.shapes[0].third, totals.readings[0])
            for totals in open_
        ),
    )


def _pooled(
    strata: Sequence[Totals], covariance: Floats, reading: Reading, share: float
) -> ResidualMoments:
    """The moments that one sample of as many units would need for the same variance, and for the
    same skewness of what is estimated."""
    scale = 1 / share if share else np.nan
    left = 1 - reading.fraction
    with np.errstate(invalid="ignore", divide="ignore"):
        once = scale**2 * left * _spread(reading)
        second = covariance / once
        third = np.zeros_like(strata[0].shapes[0].third)
        for totals in strata:
            own = totals.readings[0]
            # The share of a stratum gives its scale.
            weight = (1 / totals.fraction / scale) ** 3 * (1 - own.fraction) / left
            third = third + weight * totals.shapes[0].third
    return ResidualMoments(second, third, reading)


def _known(array: Floats | None) -> Floats:
    assert array is not None
    return array


def _spread(reading: Reading) -> float:
    return reading.read / (reading.read - 1) if reading.read > 1 else np.inf
