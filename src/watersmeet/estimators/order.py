"""Are the blocks read a random sample of the file, and is the file in random order at all?"""

from __future__ import annotations

import math

import numpy as np

from watersmeet.estimators.moments import Floats, Integers

# A design effect from which on rows must not stand in for blocks.
ROWS_DO = 1.3
_REPLICATES = 10


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


def design_effect(block_variance: Floats, row_variance: Floats) -> Floats:
    """How many times wider (squared) blocks make the interval than as many single rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(row_variance > 0, block_variance / row_variance, 1.0)


def homogeneity(estimates: Floats, sizes: Floats) -> float:
    """The probability of blocks as unlike each other as these, if ten replicates of them agree.

    Blocks in the order they were read are dealt to ten replicates; the chi-square statistic of
    the replicates' means is compared with nine degrees of freedom. Small: not one population.
    `estimates` are the blocks' values per unit of `sizes`, rows for example.
    """
    from scipy.special import chdtrc  # type: ignore[import-untyped]

    blocks = len(estimates)
    if blocks < 2 * _REPLICATES:
        return 1.0
    # Consecutive blocks form a replicate: a trend along the reading order shows up.
    replicate = np.arange(blocks) * _REPLICATES // blocks
    mean = float(np.average(estimates, weights=sizes))
    residuals = sizes * (estimates - mean)
    variance = float(np.sum(residuals**2)) / (blocks - 1)
    if variance <= 0:
        return 1.0
    sums = np.bincount(replicate, residuals, _REPLICATES)
    counts = np.bincount(replicate, minlength=_REPLICATES)
    statistic = float(np.sum(sums**2 / (counts * variance)))
    return float(chdtrc(_REPLICATES - 1, statistic))


def drift(blocks: Integers, means: Floats) -> float:
    """The probability of so strong a trend of block means along the file, if there is none.

    Spearman's rank correlation. A drift is harmless while blocks are drawn at random, and fatal
    for a prefix.
    """
    from scipy.special import ndtr

    count = len(blocks)
    if count < 5 or np.ptp(means) == 0:
        return 1.0
    correlation = float(np.corrcoef(_ranks(blocks), _ranks(means))[0, 1])
    return float(2 * ndtr(-abs(correlation) * math.sqrt(count - 1)))


def unshuffled(*strata: tuple[Integers, int]) -> float:
    """The probability that a random draw of blocks lies as near one end of the file as this.

    Rank-sum test of the numbers of the blocks read, in each stratum among all of its own, with
    how many those are: a prefix of the file is caught at once, whatever its values.
    """
    from scipy.special import ndtr

    apart, variance = 0.0, 0.0
    for read, blocks in strata:
        count = len(read)
        if 0 < count < blocks:
            apart += float(np.sum(read)) - count * (blocks - 1) / 2
            variance += count * (blocks + 1) * (blocks - count) / 12
    return float(2 * ndtr(-abs(apart) / math.sqrt(variance))) if variance else 1.0


def _ranks(values: Floats | Integers) -> Floats:
    """Ranks, ties sharing their mean."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Floats = ((ends - counts + ends - 1) / 2)[which]
    return shared
