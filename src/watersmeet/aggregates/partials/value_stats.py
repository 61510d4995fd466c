"""What is noticed about the values of an expression while they pass, beside their sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from watersmeet.aggregates.partials.sums import Sums, extremes_of
from watersmeet.aggregates.partials.totals import Traits
from watersmeet.estimators.tails import TailSketch
from watersmeet.expressions.numbers import Numbers

Positions = NDArray[np.int64]
Longs = NDArray[np.int64]

_FEW = 1024
# Of a block's values, those that are looked at for a heavy tail. All of 100,000 took a tenth of the
# time of reading and joining the block.
_SKETCHED = 16_384


class ValueStats:
    """Takes down what is noticed about one expression while a block passes."""

    def __init__(self, *, sketched: bool) -> None:
        self.centre: float | None = None
        self.sketched = sketched
        self._least, self._most = np.inf, -np.inf
        self._tail = TailSketch() if sketched else None

    def take(self, value: Numbers, counts: Longs | None = None) -> None:
        """Values, or sums of as many values as `counts` says."""
        if not value.values.size:
            return
        if self.centre is None:
            self.centre = _mean(value, counts)
        if self._tail is None:
            return
        values = value.values if value.valid is None else value.values[value.valid]
        if not len(values):
            return
        ends = Numbers(np.array([values.min(), values.max()]), None, value.scale, value.bounds)
        least, most = ends.floats().tolist()
        self._least, self._most = min(self._least, least), max(self._most, most)
        # Every so many of them tell whether a few hold most of the spread.
        some = values[:: len(values) // _SKETCHED + 1]
        self._tail.add(Numbers(some, None, value.scale, value.bounds).floats())

    def traits(self) -> Traits:
        return Traits(self.centre, self._least, self._most, self._tail)


def _mean(value: Numbers, counts: Longs | None) -> float | None:
    """A number near the mean of values, or of sums of so many values; None of none."""
    # Of the first few: near the mean is near enough.
    some = slice(_FEW) if value.valid is None else np.flatnonzero(value.valid)[:_FEW]
    values = Numbers(value.values[some], None, value.scale, value.bounds).floats()
    counts = None if counts is None else counts[some]
    finite = np.isfinite(values)
    if not finite.all():
        values, counts = values[finite], None if counts is None else counts[finite]
        if not len(values):
            return 0.0
    number = len(values) if counts is None else int(counts.sum())
    return float(values.sum() / number) if number else None


def with_ends(sums: Sums, value: Numbers, codes: Positions | None, size: int) -> Sums:
    """Sums with the least and the most value of each group."""
    ends = extremes_of(value, codes, groups=size)
    least, most = (
        each.floats() if each.valid is None else np.where(each.valid, each.floats(), empty)
        for each, empty in zip(ends, (np.inf, -np.inf), strict=True)
    )
    return replace(sums, ends=np.stack([least, most], axis=1))
