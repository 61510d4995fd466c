"""Do a few values hold most of the spread? Then the sample has not seen the tail.

A total of Pareto(1.5) values is estimated without bias, but its sample variance misses the
largest values: nominal 95% intervals hold the truth 75-90% of the time, whatever the quantile.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from watersmeet.estimators.moments import Floats

LARGEST_KEPT = 256
ROWS_TO_JUDGE = 200
MOST_SHARE = 0.10
LEAST_INDEX = 2.2
# A spread is as well known as a sum of fourth powers allows.
LEAST_INDEX_OF_SPREAD = 3.0
UNSEEN_TIMES = 6.0
_TAIL = 0.05


class TailSketch:
    """The largest absolute values of one expression, with count and moments. Mergeable.

    >>> sketch = TailSketch(centre=0.0)
    >>> sketch.add(np.array([1.0, -2.0, 10.0]))
    >>> round(sketch.largest_share(), 3)
    0.628
    """

    def __init__(
        self,
        *,
        centre: float = 0.0,
        bounds: tuple[float, float] | None = None,
        kept: int = LARGEST_KEPT,
    ) -> None:
        """`bounds` are least and most value in the files, where their footers know them."""
        self.centre = centre
        self.bounds = bounds
        self.count = 0
        self._kept = kept
        self._largest = np.zeros(0)  # of |x|, for the index
        self._ends = np.zeros(0)  # least and most x, for the share
        self._sums = np.zeros(2)  # of x - centre and its square

    def add(self, values: Floats) -> None:
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.count += len(values)
        shifted = values - self.centre
        self._sums += [shifted.sum(), (shifted**2).sum()]
        self._keep(np.abs(values), np.array([values.min(), values.max()]))

    def _keep(self, largest: Floats, ends: Floats) -> None:
        every = np.concatenate([self._largest, largest])
        if len(every) > self._kept:
            every = np.partition(every, len(every) - self._kept)[-self._kept :]
        self._largest = every
        every = np.concatenate([self._ends, ends])
        self._ends = np.array([every.min(), every.max()]) if len(every) else every

    def __iadd__(self, other: Self) -> Self:
        self.count += other.count
        self._sums = self._sums + other._sums
        moved = self.centre - other.centre
        if moved and other.count:
            first, _ = other._sums
            self._sums -= [other.count * moved, 2 * moved * first - other.count * moved**2]
        self._keep(other._largest, other._ends)
        return self

    def threshold(self) -> float:
        """A value that only the kept ones exceed: those beyond it are few, and were seen."""
        return float(self._largest.min()) if len(self._largest) else np.inf

    def largest_share(self) -> float:
        """The share of sum (x - mean)^2 that the most distant single value holds."""
        if self.count < 2:
            return 1.0
        mean = self._sums[0] / self.count
        spread = self._sums[1] - self.count * mean**2
        # Rounding leaves this much of a spread that is nothing.
        if spread <= 1e-12 * self._sums[1]:
            return 0.0
        return float(((self._ends - self.centre - mean) ** 2).max() / spread)

    def deviation(self) -> float:
        """The standard deviation of the values; 0 of none."""
        if not self.count:
            return 0.0
        mean = self._sums[0] / self.count
        return float(np.sqrt(max(self._sums[1] / self.count - mean**2, 0.0)))

    def hill(self) -> float:
        """Hill's tail index of the top 5% (of those kept): moments from it upwards diverge."""
        top = min(int(_TAIL * self.count), len(self._largest) - 1)
        if top < 2:
            return np.inf
        values = np.sort(self._largest)[-(top + 1) :]
        if values[0] <= 0:
            return np.inf
        logs = float(np.log(values[1:] / values[0]).mean())
        return 1 / logs if logs > 0 else np.inf

    def reason(self, least_index: float = LEAST_INDEX) -> str:
        """Why the tail is not to be trusted, or nothing; silent below 200 values."""
        if self.count < ROWS_TO_JUDGE:
            return ""
        most = max(map(abs, self.bounds)) if self.bounds else np.inf
        seen = float(self._largest.max())
        if seen >= most:
            return ""  # the files hold nothing larger: the tail has been seen
        if reason := self.heavy(least_index):
            return reason
        if UNSEEN_TIMES * seen < most < np.inf:
            return f"values of up to {most:.4g} are unread, the largest so far is {seen:.4g}"
        return ""

    def heavy(self, least_index: float = LEAST_INDEX) -> str:
        """The same by the values alone, whatever the files say of others."""
        if self.count < ROWS_TO_JUDGE:
            return ""
        share, index = self.largest_share(), self.hill()
        if share > MOST_SHARE:
            return f"one value holds {share:.0%} of the spread: heavy tail"
        if index < least_index:
            return f"the largest values thin out slowly (tail index {index:.1f}): heavy tail"
        return ""
