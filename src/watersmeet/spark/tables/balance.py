"""Chooses the ranges of a join on a band, so that no instance has much more than its share.

An instance is given the rows of the owner in its range, and the other side's rows that reach into
it. Both grow with the range, so the smallest possible maximum is found by halving: for a number of
rows that an instance may have, each range is made as long as that allows, and the number is right
if there are enough instances.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.rows.predicates import ValuesInBand
from watersmeet.spark.ranges import Ranges
from watersmeet.spark.tables.histograms import Histogram

Histograms = tuple[Histogram, Histogram]
_HALVINGS = 40


@dataclass(frozen=True)
class Division:
    """Ranges, and what is expected of them."""

    ranges: Ranges
    rows: tuple[int, ...]
    """About how many rows each instance is given."""
    read: int
    """About how many rows there are."""
    sources: tuple[str, str] = ("", "")
    """From what it is known, by side."""
    reduced: int | None = None
    """How many instances there would have been, if copies had not become too many."""

    @property
    def sent(self) -> int:
        """How many rows are sent to instances, copies included."""
        return sum(self.rows)

    @property
    def replication(self) -> float:
        return self.sent / self.read if self.read else 1.0


def divide(
    histograms: Histograms, band: ValuesInBand, *, owners: tuple[Side, ...], instances: int
) -> Division:
    """At most `instances` ranges; of the sides that can be their owner, the one with less work."""
    found = [_divide(histograms, band, owner=side, instances=instances) for side in owners]
    return min(found, key=lambda each: (max(each.rows), each.sent))


def _divide(histograms: Histograms, band: ValuesInBand, *, owner: Side, instances: int) -> Division:
    given = _RowsGiven(histograms[owner], histograms[owner.other], band, other=owner.other)
    lost = sum(each.lost for each in histograms) + given.alone
    cuts = given.cuts(instances)
    each = given.to_each(cuts) + lost / len(cuts)
    rows = tuple(round(float(rows)) for rows in each)
    read = round(sum(each.rows for each in histograms))
    left, right = (each.source for each in histograms)
    starts = tuple(int(given.codes[cut]) for cut in cuts) if len(given.codes) else (0,)
    return Division(Ranges(owner, starts), rows, read, sources=(left, right))


class _RowsGiven:
    """How many rows an instance is given for a range of the owner's codes.

    Codes of the owner are numbered; range [a, b) has those numbers. It gives `up[b] - down[a]`
    rows: the owner's rows below b less those below a, and the other side's rows that begin to
    reach below b less those that have ended to reach below a.
    """

    def __init__(
        self, mine: Histogram, others: Histogram, band: ValuesInBand, *, other: Side
    ) -> None:
        self.codes, places = np.unique(mine.codes, return_inverse=True)
        self.weights = np.bincount(places, mine.weights, len(self.codes))
        first, last = band.codec.reach(other, others.codes)
        reaches = first <= last
        self.alone = float(others.weights[~reaches].sum())
        """Rows of the other side that reach nothing."""
        first, last, weights = first[reaches], last[reaches], others.weights[reaches]
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        begun = _weight_below(first, weights, self.codes)
        ended = _weight_below(last, weights, self.codes)
        whole = weights.sum()
        # The first range begins before the first code, and the last ends behind the last.
        ended[:1] = 0.0
        self._up = below + np.append(begun, whole)
        self._down = below + np.append(ended, whole)
        self._copied = np.append(begun[1:], whole)[: len(self.codes)] - ended
        """For each code, the rows of the other side that reach it or the gap behind it."""
        self._ups = self._up.tolist()

    def cuts(self, instances: int) -> list[int]:
        """The number of the first code of each range; a number that comes several times is a code
        whose rows are divided."""
        if not len(self.codes):
            return [0]
        most = float(self._up[-1] - self._down[0])
        least, best = most / instances / 2, [0]
        for _ in range(_HALVINGS if instances > 1 else 0):
            tried = (least + most) / 2
            cuts = self._cuts(tried, instances)
            if cuts is None:
                least = tried
            else:
                most, best = tried, cuts
        return best

    def _cuts(self, most: float, instances: int) -> list[int] | None:
        """Ranges of at most so many rows each; None if they would be too many."""
        cuts: list[int] = []
        start, count = 0, len(self.codes)
        while start < count:
            stop = bisect_right(self._ups, most + self._down[start]) - 1
            sharers = 1
            if stop <= start:
                room = most - self._copied[start]
                if room <= 0:
                    return None
                sharers, stop = ceil(self.weights[start] / room), start + 1
            cuts += [start] * sharers
            if len(cuts) > instances:
                return None
            start = min(stop, count)
        return cuts

    def to_each(self, cuts: list[int]) -> NDArray[np.float64]:
        """How many rows each of these ranges gives."""
        if not len(self.codes):
            return np.array([self._up[-1]])
        starts, sharers = np.unique(cuts, return_counts=True)
        stops = np.append(starts[1:], len(self.codes))
        whole = self._up[stops] - self._down[starts]
        part = self.weights[starts] / sharers + self._copied[starts]
        return np.repeat(np.where(sharers == 1, whole, part), sharers)


def _weight_below(
    codes: NDArray[np.uint64], weights: NDArray[np.float64], ends: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """For each end, the weight of the codes below it."""
    order = np.argsort(codes)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return sums[np.searchsorted(codes[order], ends, "left")]
