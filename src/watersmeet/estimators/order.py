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
