"""By what do blocks differ, as far as files tell before anything is read?

Each sign is a number for every block, on a scale on which blocks of one kind lie close together:
its size, the least and the most of what is added up and of every column that a question uses, the
share of nulls, the bytes of a row. A block far from all others in one of them holds something
that no sample of the others shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.aggregates.sampling.facts import ColumnFacts, Floats
from watersmeet.expressions.bounds import BlockBounds

# How far from the quartiles, in distances between the quartiles, is far out. The ends of what is
# added up matter most, and one block too many that is read costs little.
_FAR = 3.0
_FAR_OF_VALUES = 2.0
# Between the least and the most of a block there is no relation if rows are in random order.
_FOLLOWS = 0.3
# Of the logarithms of sizes: above this, many blocks are several times as large as others.
_UNEVEN = 0.3
# The part of the spread that two heaps explain: three quarters, if it were spread evenly.
_TWO_HEAPS = 0.85


@dataclass(frozen=True)
class Sign:
    """`places` has a number for each block; differences below `grain` mean nothing.

    `follows`: the block as a whole lies higher or lower, and not only its ends.
    """

    places: Floats
    grain: float
    far: float = _FAR
    follows: bool = False

    def distances(self) -> Floats:
        """From the nearer quartile, in distances between quartiles; 0 between them."""
        first, third = np.quantile(self.places, (0.25, 0.75))
        beyond = np.maximum(np.maximum(first - self.places, self.places - third), 0)
        return np.asarray(beyond / max(third - first, self.grain, 1e-12))

    def far_out(self) -> Floats:
        """How many times farther than what is still near; more than 1 is far."""
        return self.distances() / self.far

    @property
    def tells(self) -> bool:
        """Whether it divides blocks into kinds: a line of them, or two heaps."""
        if np.ptp(self.places) <= 2 * self.grain:
            return False
        return self.follows or two_heaps(self.places) >= _TWO_HEAPS


def signs_of(
    rows: Floats, values: Sequence[BlockBounds | None], columns: Sequence[ColumnFacts]
) -> Iterator[Sign]:
    """All signs of blocks of so many rows; `values` are the bounds of what is added up."""
    sizes = np.log(np.maximum(rows, 1))
    yield Sign(sizes, grain=0.25, follows=bool(sizes.std() > _UNEVEN))
    for bounds in values:
        if bounds is not None:
            yield from _ends(*bounds, far=_FAR_OF_VALUES, added=True)
    for column in columns:
        yield from _ends(column.least, column.most, far=_FAR, added=False)
        yield _filled(column.nulls, grain=0.01)
        yield _filled(np.log(np.maximum(column.width, 1e-3)), grain=0.03)


def _ends(least: Floats, most: Floats, *, far: float, added: bool) -> Iterator[Sign]:
    known = ~np.isnan(least)
    if not known.any():
        return
    if not known.all():
        yield Sign(known.astype(np.float64), grain=0.1)
        least = np.where(known, least, np.median(least[known]))
        most = np.where(known, most, np.median(most[known]))
    low, high = _scaled(least, most)
    middle = (low + high) / 2
    follows = related(low, high) >= _FOLLOWS
    yield Sign(low, grain=0.1, far=far)
    yield Sign(high, grain=0.1, far=far)
    yield Sign(middle, grain=0.1, far=far)
    if added:
        # As it is, not in powers: the large ones make the spread.
        yield Sign((least + most) / 2, grain=0.0, far=np.inf, follows=True)
    elif follows:
        yield Sign(middle, grain=0.0, far=np.inf, follows=True)
    if not added:
        span = high - low
        yield Sign(np.log(span / max(float(np.median(span)), 1e-12) + 0.01), grain=0.1, far=far)


def _scaled(least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """On a scale of powers, above and below zero."""
    unit = float(np.median(most - least)) / 100
    if (least > 0).all() or (most < 0).all():
        unit = float(np.median(np.minimum(np.abs(least), np.abs(most))))
    if not unit > 0:
        unit = float(np.median(np.maximum(np.abs(least), np.abs(most)))) or 1.0
    low, high = (np.sign(end) * np.log1p(np.abs(end) / unit) for end in (least, most))
    return low, high


def _filled(places: Floats, *, grain: float) -> Sign:
    known = ~np.isnan(places)
    if not known.any():
        return Sign(np.zeros(len(places)), grain=grain)
    return Sign(np.where(known, places, np.median(places[known])), grain=grain)


def related(first: Floats, second: Floats) -> float:
    """Correlation of ranks: a few far ones do not make it."""
    ranks = [np.unique(each, return_inverse=True)[1] for each in (first, second)]
    # All alike, or all NaN, which footers give for a column of NaN.
    if len(first) < 8 or not ranks[0].any() or not ranks[1].any():
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def best_cut(places: Floats, weights: Floats, *, fewest: int = 1) -> tuple[float, float]:
    """Where to cut so that both parts are most alike within, and by how much the sum of squares
    falls; nothing falls if there is no such place."""
    order = np.argsort(places, kind="stable")
    ascending, weight = places[order], weights[order]
    share, moment = np.cumsum(weight), np.cumsum(weight * ascending)
    left, first = share[:-1], moment[:-1]
    right, second = share[-1] - left, moment[-1] - first
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = left * right / share[-1] * (first / left - second / right) ** 2
    allowed = np.diff(ascending) > 0
    numbers = np.arange(1, len(places))
    allowed &= (numbers >= fewest) & (numbers <= len(places) - fewest)
    gain = np.where(allowed & np.isfinite(gain), gain, 0.0)
    if not gain.size or gain.max() <= 0:
        return 0.0, 0.0
    at = int(np.argmax(gain))
    return float(ascending[at] + ascending[at + 1]) / 2, float(gain[at])


def two_heaps(places: Floats) -> float:
    """The part of the sum of squares that the best cut in two explains."""
    whole = float(np.sum((places - places.mean()) ** 2))
    return best_cut(places, np.ones(len(places)))[1] / whole if whole > 0 else 0.0
