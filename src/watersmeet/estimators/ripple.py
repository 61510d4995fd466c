"""Blocks of both inputs: totals T[B, C] per pair of blocks that were both read.

Each input is sampled on its own, so the variance has three parts: the left units' sums vary,
the right units' sums vary, and single pairs vary beyond both. The large-sample formula of
ripple joins adds the first two, each of which already holds the third, and so counts it twice;
on sparse joins that makes it up to twice too large. Here the interaction is subtracted, which
is exactly unbiased for two units per side and more.

References
----------
Haas and Hellerstein, "Ripple joins for online aggregation", SIGMOD 1999.
Nirkhiwale, Dobra and Jermaine, "A sampling algebra for aggregate estimation", VLDB 2013.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.keyed import KeyedSums
from watersmeet.estimators.moments import Floats, Integers, packed, products
from watersmeet.estimators.totals import Reading, ResidualMoments, Totals
from watersmeet.estimators.units import UnitSums, gathered, grown
from watersmeet.model import Side


class Spread(NamedTuple):
    """Sums of squared residuals, packed per group: of the units of each side, and of pairs."""

    total: Floats  # [G, J]
    sides: tuple[Floats, Floats]
    pairs: Floats


def two_sided(
    spread: Spread, readings: tuple[Reading, Reading], *, scale: float
) -> tuple[Floats, Floats]:
    """Covariance and its floor, half the classic formula. Zero exactly where all was read."""
    classic = np.zeros_like(spread.pairs)
    both = scale**2
    # Of one unit there is no spread: infinite times zero is not known.
    with np.errstate(invalid="ignore"):
        for reading, squares in zip(readings, spread.sides, strict=True):
            # Integers decide: a complete side adds nothing, not even rounding.
            if reading.complete:
                both = 0.0
                continue
            share = (1 - reading.fraction) * _unbiased(reading.read)
            classic = classic + scale**2 * share * squares
            both *= share
        covariance = classic - both * spread.pairs if both else classic
    return covariance, classic / 2


def shape_of(units: UnitSums, reading: Reading) -> ResidualMoments:
    second, third = units.residuals()
    return ResidualMoments(second, third, reading)


def _unbiased(read: int) -> float:
    return read / (read - 1) if read > 1 else np.inf


def total_scale(
    readings: tuple[Reading, Reading], sizes: tuple[float, float], wholes: tuple[float, float]
) -> float:
    scale = 1.0
    for reading, size, whole in zip(readings, sizes, wholes, strict=True):
        if not reading.complete:
            scale *= whole / size if size else np.nan
    return scale


class RippleSample:
    """Blocks of both inputs as sampling units, scaled up by rows on both sides.

    With one input complete this is exactly `ClusterSample` over the other.
    """

    def __init__(
        self, *, blocks: tuple[int, int], rows: tuple[int | None, int | None], moments: int
    ) -> None:
        self.blocks = blocks
        self.rows = rows
        self.moments = moments
        # Rows of the blocks that have been read; a block that has not is NaN.
        self._sizes = tuple(np.full(count, np.nan) for count in blocks)
        # Per block of one side: its sum over the other's blocks, plain and weighted by size.
        self._sums = (KeyedSums(2 * moments), KeyedSums(2 * moments))
        self._squares = np.zeros((0, len(packed(moments, 2))))
        self._crossed = np.zeros((0, moments))  # sum of T[B, C] times both sizes
        self.groups = 0

    def read(self, side: Side, block: int, *, rows: int) -> None:
        """This block is part of the rectangle from now on, whatever it matches."""
        if not np.isnan(self._sizes[side][block]):
            raise InvalidArgument(
                f"Block {block} of the {side.name.lower()} input was read before.",
                remedy="Read each block once.",
            )
        self._sizes[side][block] = 1.0 if self.rows[side] is None else float(rows)

    def add(
        self, left_blocks: Integers, right_blocks: Integers, groups: Integers, totals: Floats
    ) -> None:
        """Totals of pairs of blocks, each pair and group once; both blocks have been read."""
        if not len(groups):
            return
        sizes = (self._sizes[0][left_blocks], self._sizes[1][right_blocks])
        if np.isnan(sizes[0]).any() or np.isnan(sizes[1]).any():
            raise InvalidArgument(
                "A pair of blocks was added of which one has not been read.",
                remedy="Call read() for both blocks first.",
            )
        for side, blocks in enumerate((left_blocks, right_blocks)):
            weighted = sizes[1 - side][:, None] * totals
            self._sums[side].add(groups, blocks, np.concatenate([totals, weighted], axis=1))
        crossed = (sizes[0] * sizes[1])[:, None] * totals
        named, sums = gathered(groups, np.concatenate([products(totals), crossed], axis=1))
        self._room(int(named[-1]) + 1)
        width = self._squares.shape[1]
        self._squares[named] += sums[:, :width]
        self._crossed[named] += sums[:, width:]

    def _room(self, groups: int) -> None:
        self.groups = max(self.groups, groups)
        self._squares = grown(self._squares, groups)
        self._crossed = grown(self._crossed, groups)

    def __iadd__(self, other: Self) -> Self:
        """Another part of the same rectangle, for example another partition of the keys."""
        for side in Side:
            mine, theirs = self._sizes[side], other._sizes[side]
            mine[np.isnan(mine)] = theirs[np.isnan(mine)]
            self._sums[side].__iadd__(other._sums[side])
        self._room(other.groups)
        self._squares[: other.groups] += other._squares[: other.groups]
        self._crossed[: other.groups] += other._crossed[: other.groups]
        return self

    def totals(self) -> Totals:
        readings = tuple(
            Reading(int((~np.isnan(sizes)).sum()), count, f"{side.name.lower()} blocks")
            for side, sizes, count in zip(Side, self._sizes, self.blocks, strict=True)
        )
        units, crossings = zip(*(self._side(side) for side in Side), strict=True)
        left, right = units
        spread = Spread(
            total=left.total,
            sides=(left.residuals()[0], right.residuals()[0]),
            pairs=self._interaction(left, right, crossings),
        )
        wholes = tuple(
            float(count if rows is None else rows)
            for count, rows in zip(self.blocks, self.rows, strict=True)
        )
        sizes = (float(left.sizes[0]), float(right.sizes[0]))
        scale = total_scale((readings[0], readings[1]), sizes, (wholes[0], wholes[1]))
        covariance, floor = two_sided(spread, (readings[0], readings[1]), scale=scale)
        sampled = [(r, u) for r, u in zip(readings, units, strict=True) if not r.complete]
        return Totals(
            value=scale * spread.total,
            covariance=covariance,
            degrees=float(min((r.read for r, _ in sampled), default=min(self.blocks)) - 1),
            exact=not sampled,
            seen=spread.total,
            readings=tuple(r for r, _ in sampled) or readings,
            shapes=tuple(shape_of(units, reading) for reading, units in sampled),
            floor=floor,
            contributing=np.minimum.reduce(
                [u.contributing for _, u in sampled or [(readings[0], left)]]
            ),
            largest=scale * np.minimum(left.largest, right.largest),
            fraction=1 / scale if scale == scale else 0.0,
        )

    def _side(self, side: Side) -> tuple[UnitSums, Floats]:
        """Sums over one side's blocks, and sum of a_B times what B's sum is when weighted."""
        sizes = self._sizes[side]
        units = UnitSums(self.moments)
        units.count(sizes[~np.isnan(sizes)])
        groups, blocks, sums = self._sums[side].entries()
        plain, weighted = sums[:, : self.moments], sums[:, self.moments :]
        units.add(groups, plain, sizes=sizes[blocks])
        units.grow_to(self.groups)
        crossing = np.zeros((self.groups, self._squares.shape[1]))
        if len(groups):
            named, crossed = gathered(groups, products(plain, weighted))
            crossing[named] = crossed
        return units, crossing

    def _interaction(
        self, left: UnitSums, right: UnitSums, crossings: tuple[Floats, Floats]
    ) -> Floats:
        """Sum over pairs of (T_BC - a_B s_C - b_C r_B + t r_B s_C)^2, sizes as shares r, s."""
        shares = [units.sizes[0] or 1.0 for units in (left, right)]
        even = [
            units.sizes[1] / share**2 for units, share in zip((left, right), shares, strict=True)
        ]
        total = left.total
        leaning = [
            units.weighted / share for units, share in zip((left, right), shares, strict=True)
        ]
        some = slice(self.groups)
        spread: Floats = (
            self._squares[some]
            + left.square * even[1]
            + right.square * even[0]
            + products(total) * even[0] * even[1]
            - 2 * crossings[0] / shares[1]
            - 2 * crossings[1] / shares[0]
            + 2 * products(total, self._crossed[some]) / (shares[0] * shares[1])
            + 2 * products(leaning[0], leaning[1])
            - 2 * products(total, leaning[0]) * even[1]
            - 2 * products(total, leaning[1]) * even[0]
        )
        return spread
