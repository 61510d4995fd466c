"""Which blocks are read in any case, and in what order the others follow?

A sample stands for what it was drawn from. So blocks that stand out, by their size or by what
files say of their content, are not left to chance: they come first and count as they are. The
others are divided into a few strata of blocks that look alike, each is sampled by itself, and
at every moment each has its share. Where files do not tell blocks apart there is one stratum, and
the order is a plain random one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge

import numpy as np
from numpy.typing import NDArray

from watersmeet.aggregates.sampling.facts import ColumnFacts, Floats
from watersmeet.aggregates.sampling.signs import Sign, best_cut, signs_of
from watersmeet.expressions.bounds import BlockBounds

FIRST_DRAW = 24
"""Blocks of a first look: with fewer than 20 an interval misses more often than it says."""

# Blocks that stand out are read in any case while they hold no more of all rows than this; more
# of them are no exceptions but a kind of their own.
_MOST_CERTAIN = 0.06
# Blocks with so much of all that varies are read whatever they hold of the rows.
_MOST_DOMINANT = 0.15
# Fewer blocks than this are all read soon, and quartiles of them say nothing.
_FEWEST = 40
_MOST_STRATA = 8
_BLOCKS_PER_STRATUM = 4
# So many of each stratum come at once, to know its spread. With three, a spread that came out far
# too small by chance made the interval narrow and sure of itself: 89 to 92% held at a first look.
AT_ONCE = 5
# More would make a first look late, unless the table is so large that it is long anyway.
_MOST_AT_ONCE = 30
FEWEST_DRAWN = 20
"""Of a first look, blocks that were drawn at random."""
# Blocks that cannot hold a row that counts are hardly read.
_IDLE = 0.05
# A cut that explains less of the signs is not worth a stratum.
_LEAST_GAIN = 0.04


@dataclass(frozen=True)
class Division:
    """`strata` has the stratum of each block, by its number; -1 is read in any case. A stratum is
    read in proportion to the `weights` of its blocks."""

    strata: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def certain(self) -> int:
        return sum(stratum < 0 for stratum in self.strata)

    @property
    def count(self) -> int:
        """How many strata are sampled."""
        return max(self.strata, default=-1) + 1

    @property
    def at_once(self) -> int:
        """So many come before any estimate: what is certain, and some of each stratum."""
        return self.certain + (AT_ONCE * self.count if self.count > 1 else 0)

    def order(self, seed: int) -> tuple[int, ...]:
        """What is certain, some of each stratum, and then each in proportion to its weight."""
        chance = random.Random(seed)
        strata = np.array(self.strata, np.int64)
        begin: list[int] = np.flatnonzero(strata < 0).tolist()
        some = AT_ONCE if self.count > 1 else 0
        queues = []
        for stratum in range(self.count):
            members = np.flatnonzero(strata == stratum).tolist()
            chance.shuffle(members)
            begin += members[:some]
            weight = sum(self.weights[block] for block in members)
            places = ((place + 0.5) / weight for place in range(len(members)))
            queues.append(list(zip(places, members, strict=True))[some:])
        return (*begin, *(block for _, block in merge(*queues)))


def divided(
    rows: Sequence[int],
    values: Sequence[BlockBounds | None],
    columns: Sequence[ColumnFacts],
    passes: Floats | None = None,
) -> Division:
    """From the rows of the blocks, the bounds of what is added up, all columns in use, and
    whether rows of a block can pass the filter."""
    sizes = np.asarray(rows, np.float64)
    strata = np.zeros(len(rows), np.int64)
    if len(rows) < _FEWEST:
        return Division(tuple(strata.tolist()), (1.0,) * len(rows))
    signs = list(signs_of(sizes, values, columns))
    weights = _weights(sizes, values)
    kinds = np.zeros(len(rows)) if passes is None else passes
    idle = np.zeros(len(rows), np.bool_) if passes is None else kinds == 0
    weights = np.where(idle, _IDLE * weights, weights)
    certain = _outstanding(sizes, signs) | _dominant(sizes, weights) | _scarce(kinds)
    strata[certain] = -1
    rest = np.flatnonzero(~certain)
    strata[rest] = np.unique(kinds[rest], return_inverse=True)[1]
    again = [column.taken(rest) for column in columns]
    inside = [None if each is None else (each[0][rest], each[1][rest]) for each in values]
    strata[rest] = _cut(strata[rest], list(signs_of(sizes[rest], inside, again)), weights[rest])
    strata = _sampled(strata)
    return Division(tuple(strata.tolist()), tuple(_levelled(weights, strata, idle=idle).tolist()))


def _levelled(weights: Floats, strata: NDArray[np.int64], *, idle: NDArray[np.bool_]) -> Floats:
    """Strata are read by the root of their weight, and not by the weight itself.

    A small stratum of unlike blocks may hold most of what varies, which no footer says. By its
    weight it would stay at the few blocks that came at once for several looks, and if the odd
    ones are not among those nobody knows (Bankier's power allocation).
    """
    weights = weights.copy()
    drawn = (strata >= 0) & ~idle
    whole = weights[drawn].sum()
    for stratum in np.unique(strata[drawn]):
        inside = drawn & (strata == stratum)
        weights[inside] /= max(np.sqrt(weights[inside].sum()), 1e-12)
    weights[drawn] *= whole / max(weights[drawn].sum(), 1e-12)
    return weights


def _sampled(strata: NDArray[np.int64]) -> NDArray[np.int64]:
    """A stratum that comes at once as a whole is no sample: it is read in any case."""
    names, which, counts = np.unique(strata, return_inverse=True, return_counts=True)
    whole = (names < 0) | ((counts <= AT_ONCE) & (len(names[names >= 0]) > 1))
    return np.asarray(np.where(whole, -1, np.cumsum(~whole) - 1)[which])


def _scarce(kinds: Floats) -> NDArray[np.bool_]:
    """Blocks of a kind of which there are too few to sample."""
    _, which, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    return np.asarray(counts[which] < _BLOCKS_PER_STRATUM)


def _weights(sizes: Floats, values: Sequence[BlockBounds | None]) -> Floats:
    """How much a block may vary: half by its rows, half by how far its values spread.

    Rows that are alike within a block vary with their number, rows that are not with its root:
    the middle of both. By their number alone, small blocks among large ones were so few that a
    count, which varies in them most, was known by five of them.
    """
    spans = []
    for bounds in values:
        if bounds is not None:
            span = sizes * (bounds[1] - bounds[0])
            if np.nansum(span) > 0:
                spans.append(np.nan_to_num(span / np.nanmean(span), nan=1.0))
    root = np.sqrt(sizes)
    share = (sizes / sizes.mean() + root / max(root.mean(), 1e-12)) / 2
    return share if not spans else np.asarray((share + np.max(spans, axis=0)) / 2)


def _outstanding(sizes: Floats, signs: Sequence[Sign]) -> NDArray[np.bool_]:
    """Blocks far from the others by a sign that few blocks stand out by."""
    farthest = np.zeros(len(sizes))
    for sign in signs:
        far = sign.far_out()
        if sizes[far > 1].sum() <= _MOST_CERTAIN * sizes.sum():
            farthest = np.maximum(farthest, far)
    order = np.argsort(-farthest, kind="stable")
    fits = np.cumsum(sizes[order]) <= _MOST_CERTAIN * sizes.sum()
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[order[fits]] = True
    return chosen & (farthest > 1)


def _dominant(sizes: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Blocks that a draw in proportion to their weight would take anyway."""
    chosen = np.zeros(len(sizes), np.bool_)
    order = np.argsort(-weights, kind="stable")
    left = weights.sum()
    held = 0.0
    for block in order.tolist():
        held += sizes[block]
        if weights[block] * FIRST_DRAW <= left or held > _MOST_DOMINANT * sizes.sum():
            break
        chosen[block] = True
        left -= weights[block]
    return chosen


def _first(blocks: int) -> int:
    """So many a first look may draw for strata: of a small table no more than it would anyway."""
    return max(min(blocks // 6, _MOST_AT_ONCE), blocks // 50, FEWEST_DRAWN)


def _cut(strata: NDArray[np.int64], signs: Sequence[Sign], weights: Floats) -> NDArray[np.int64]:
    """Cut in two, again and again, where that makes blocks most alike."""
    telling = [sign.places for sign in signs if sign.tells]
    if not telling:
        return strata
    strata = strata.copy()
    places = [(each - each.mean()) / each.std() for each in telling]
    least = _LEAST_GAIN * float(weights.sum())
    for number in range(strata.max() + 1, min(_MOST_STRATA, _first(len(weights)) // AT_ONCE)):
        best = (least, 0, places[0], 0.0)
        for stratum in range(number):
            inside = strata == stratum
            for place in places:
                cut, gain = best_cut(place[inside], weights[inside], fewest=_BLOCKS_PER_STRATUM)
                if gain > best[0]:
                    best = gain, stratum, place, cut
        gain, stratum, place, cut = best
        if gain <= least:
            break
        strata[(strata == stratum) & (place > cut)] = number
    return strata
