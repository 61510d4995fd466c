"""Chooses the ranges of a join without equal keys: no instance shall have much more than its share.

An instance is given the rows of the owner in its range, and the other side's rows that reach into
it. What it has to do is counted in rows, a result as a part of one. It grows with the range, so the
smallest possible maximum is found by halving: for an amount of work that an instance may have, each
range is made as long as that allows, and the amount is right if there are enough instances.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.rows.encoded import Codes
from watersmeet.spark.placing import Placing
from watersmeet.spark.ranges import Ranges
from watersmeet.spark.tables.histograms import Histogram

Histograms = tuple[Histogram, Histogram]
_HALVINGS = 40
# To find and write a result takes about half as long as to read a row and put it in its place.
_ROWS_A_RESULT = 0.5
_NEIGHBOURS = 8


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
    histograms: Histograms, placing: Placing, *, owners: tuple[Side, ...], instances: int
) -> Division:
    """At most `instances` ranges, of the side for which fewer rows of the other are copied."""
    found = [_divide(histograms, placing, owner=side, instances=instances) for side in owners]
    return min(found, key=lambda each: each.sent)


def _divide(histograms: Histograms, placing: Placing, *, owner: Side, instances: int) -> Division:
    mine, others = histograms[owner], histograms[owner.other]
    reach = placing.reach(owner.other, others.starts, others.ends)
    given = _Given(mine.starts, mine.weights, reach, others.weights)
    results = _partners(mine, others, placing, owner=owner)
    work = _Given(mine.starts, mine.weights * (1 + _ROWS_A_RESULT * results), reach, others.weights)
    cuts = work.cuts(instances)
    lost = (sum(each.lost for each in histograms) + given.alone) / len(cuts)
    rows = tuple(round(float(each)) for each in given.to_each(cuts) + lost)
    read = round(sum(each.rows for each in histograms))
    left, right = (each.source for each in histograms)
    starts = tuple(int(given.codes[cut]) for cut in cuts) if len(given.codes) else (0,)
    return Division(Ranges(owner, starts), rows, read, sources=(left, right))


def _partners(
    mine: Histogram, others: Histogram, placing: Placing, *, owner: Side
) -> NDArray[np.float64]:
    """About how many partners each row of the owner has: rows that start where it meets others, and
    rows that have started before and have not ended."""
    first, last = placing.met(owner, mine.starts, mine.ends)
    before = _weight_below(others.starts, others.weights, first)
    ended = _weight_below(others.ends, others.weights, first)
    found = _density(others, first, last) + np.maximum(before - ended, 0)
    return np.where(first <= last, found, 0)


def _density(others: Histogram, first: Codes, last: Codes) -> NDArray[np.float64]:
    """About how many rows start from `first` to `last`.

    A row that was looked at stands for many that were not, and lie beside it. So some more on
    both sides are counted, and of them the share that the length has.
    """
    if not len(others.starts):
        return np.zeros(len(first))
    order = np.argsort(others.starts)
    starts = others.starts[order]
    sums = np.concatenate([[0.0], np.cumsum(others.weights[order])])
    low = np.maximum(np.searchsorted(starts, first, "left") - _NEIGHBOURS, 0)
    high = np.minimum(np.searchsorted(starts, last, "right") + _NEIGHBOURS, len(starts))
    wide = (starts[high - 1] - starts[low]).astype(np.float64) + 1
    share = np.minimum(((last - first).astype(np.float64) + 1) / wide, 1)
    found: NDArray[np.float64] = (sums[high] - sums[low]) * share
    return found


class _Given:
    """How much an instance is given for a range of the owner's codes.

    Codes of the owner are numbered; range [a, b) has those numbers. It gives `up[b] - down[a]`:
    the owner's rows below b less those below a, and the other side's rows that begin to reach
    below b less those that have ended to reach below a.
    """

    def __init__(
        self,
        starts: Codes,
        weights: NDArray[np.float64],
        reach: tuple[Codes, Codes],
        copied: NDArray[np.float64],
    ) -> None:
        """Of rows of the owner their starts, of rows of the other side their reach, and of each
        row its weight."""
        self.codes, places = np.unique(starts, return_inverse=True)
        self.weights = np.bincount(places, weights, len(self.codes))
        reaches = reach[0] <= reach[1]
        self.alone = float(copied[~reaches].sum())
        """Rows of the other side that reach nothing."""
        first, last, copied = reach[0][reaches], reach[1][reaches], copied[reaches]
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        begun = _weight_below(first, copied, self.codes)
        ended = _weight_below(last, copied, self.codes)
        whole = copied.sum()
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
        """Ranges of at most so much each; None if they would be too many."""
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
        """How much each of these ranges gives."""
        if not len(self.codes):
            return np.array([self._up[-1]])
        starts, sharers = np.unique(cuts, return_counts=True)
        stops = np.append(starts[1:], len(self.codes))
        whole = self._up[stops] - self._down[starts]
        part = self.weights[starts] / sharers + self._copied[starts]
        return np.repeat(np.where(sharers == 1, whole, part), sharers)


def _weight_below(codes: Codes, weights: NDArray[np.float64], ends: Codes) -> NDArray[np.float64]:
    """For each end, the weight of the codes below it."""
    order = np.argsort(codes)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return sums[np.searchsorted(codes[order], ends, "left")]
