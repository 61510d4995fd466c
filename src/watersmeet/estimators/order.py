"""Are the blocks read a random sample of the file, and is the file in random order at all?"""

from __future__ import annotations

import math

import numpy as np

from watersmeet.estimators.moments import Floats, Integers


def clustering(least: Floats | Integers, most: Floats | Integers) -> float:
    """Mean range of a column within a block over its range in the file, from footers alone.

    1 is shuffled, 1 / blocks is sorted. A column with one value counts as shuffled.

    >>> clustering(np.array([0, 10, 20]), np.array([9, 19, 29]))
    0.31...
    """
    whole = float(np.max(most)) - float(np.min(least))
    if whole <= 0:
        return 1.0
    return float(np.mean(np.asarray(most, np.float64) - np.asarray(least, np.float64)) / whole)


def unshuffled(*strata: tuple[Integers, int]) -> float:
    """The probability that a random draw of blocks lies as near one end of the file as this.

    Rank-sum test of the numbers of the blocks read, in each stratum among all of its own, with
    how many those are: a prefix of the file is caught at once, whatever its values.
    """
    from scipy.special import ndtr  # type: ignore[import-untyped]

    apart, variance = 0.0, 0.0
    for read, blocks in strata:
        count = len(read)
        if 0 < count < blocks:
            apart += float(np.sum(read)) - count * (blocks - 1) / 2
            variance += count * (blocks + 1) * (blocks - count) / 12
    return float(2 * ndtr(-abs(apart) / math.sqrt(variance))) if variance else 1.0


class RowOrder:
    """Do the parts of an input, as they come, differ from each other by more than chance?

    One-way analysis of variance: if rows are in random order, the means of the parts differ as
    much as the rows inside a part let them. It sees an input that is sorted or that drifts, and
    one whose parts are alike inside.
    """

    def __init__(self) -> None:
        self._centre: float | None = None
        self._parts = 0
        self._rows = 0
        # Of distances from the centre: weighted sums of the parts' means and of their squares, and
        # squares about the means of the parts.
        self._sums = np.zeros(3)

    def add(self, values: Floats) -> None:
        """The next part; what is no finite number does not count."""
        values = values[np.isfinite(values)]
        if not len(values):
            return
        if self._centre is None:
            self._centre = float(values.mean())
        away = values - self._centre
        mean, count = float(away.mean()), len(away)
        self._parts += 1
        self._rows += count
        self._sums += [count * mean, count * mean**2, float(((away - mean) ** 2).sum())]

    def probability(self) -> float:
        """Of parts as unlike as these, if rows come in random order."""
        from scipy.special import fdtrc

        degrees = self._parts - 1, self._rows - self._parts
        if min(degrees) < 1:
            return 1.0
        total, squares, within = self._sums.tolist()
        between = max(squares - total**2 / self._rows, 0.0)
        if within <= 0:
            return 0.0 if between > 0 else 1.0
        return float(fdtrc(*degrees, between / degrees[0] * degrees[1] / within))
