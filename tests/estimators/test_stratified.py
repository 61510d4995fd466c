"""Strata of blocks: unbiased over every sample, exact when complete, and each by itself."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.estimators.test_enumerated import MOMENTS, ZERO, check, population
from watersmeet.errors import InvalidArgument
from watersmeet.estimators import ClusterSample, Evidence, Kind, Quantity, StratifiedSample, cells

# Blocks of three strata; the first is read in any case.
BLOCKS = (2, 4, 3)


def sample_of(drawn: tuple[tuple[int, ...], ...]) -> StratifiedSample:
    blocks = population(sum(BLOCKS), 1, seed=7)[:, 0]
    blocks[: BLOCKS[0]] *= 50
    starts = np.cumsum((0, *BLOCKS))
    sample = StratifiedSample(strata=[(count, 10 * count) for count in BLOCKS], moments=MOMENTS)
    for stratum, numbers in enumerate(drawn):
        for number in numbers:
            block = blocks[starts[stratum] + number, None]
            sample.add(ZERO, block, rows=10, stratum=stratum)
    return sample


def truth() -> NDArray[np.float64]:
    return np.asarray(sample_of(tuple(tuple(range(count)) for count in BLOCKS)).totals().value[0])


@pytest.mark.parametrize("read", [(2, 2, 2), (2, 3, 2), (2, 2, 3)])
def test_the_mean_of_every_sample_is_the_truth_and_so_is_the_mean_variance(
    read: tuple[int, ...],
) -> None:
    every = product(
        *(combinations(range(count), some) for count, some in zip(BLOCKS, read, strict=True))
    )
    check([sample_of(drawn).totals() for drawn in every], truth())


def test_everything_read_is_exact() -> None:
    totals = sample_of(tuple(tuple(range(count)) for count in BLOCKS)).totals()
    assert totals.exact
    assert not totals.covariance.any()
    assert totals.fraction == 1


def test_one_stratum_is_a_plain_sample_of_blocks() -> None:
    blocks = population(6, 1, seed=1)[:, 0]
    one = StratifiedSample(strata=[(0, 0), (6, 60)], moments=MOMENTS)
    plain = ClusterSample(blocks=6, rows=60, moments=MOMENTS)
    for block in (1, 3, 4):
        one.add(ZERO, blocks[block, None], rows=10, stratum=1)
        plain.add(ZERO, blocks[block, None], rows=10)
    for mine, theirs in zip(one.totals(), plain.totals(), strict=True):
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs)


def test_few_blocks_of_a_stratum_that_varies_most_make_the_interval_wide() -> None:
    """Degrees of freedom are those of the stratum with the variance, not of all blocks."""
    widths = []
    for wild in (0, 1):
        rng = np.random.default_rng(3)
        sample = StratifiedSample(strata=[(0, 0), (40, 400), (400, 4_000)], moments=1)
        for stratum, count in ((1, 3), (2, 60)):
            for _ in range(count):
                value = np.array([[100.0 + rng.normal() * (50 if stratum - 1 == wild else 0.01)]])
                sample.add(ZERO, value, rows=10, stratum=stratum)
        totals = sample.totals()
        evidence = Evidence()
        evidence.add(ZERO, pairs=np.array([9_000]), left_rows=np.array([9_000]))
        found = cells(totals, evidence, [Quantity(Kind.COUNT)])
        widths.append((found.high - found.low).item() / np.sqrt(totals.covariance.item()) / 2)
    # Student's quantile of 2 degrees, and of 59.
    assert widths[0] > 3.5
    assert widths[1] < 2.5


def test_a_block_too_many_is_refused() -> None:
    sample = StratifiedSample(strata=[(1, 10)], moments=1)
    sample.add(ZERO, np.ones((1, 1)), rows=10)
    with pytest.raises(InvalidArgument, match="have been added already"):
        sample.add(ZERO, np.ones((1, 1)), rows=10)
