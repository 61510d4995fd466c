"""Every possible sample of tiny populations: the mean estimate and the mean variance are right."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from watersmeet.estimators import (
    ClusterSample,
    PartitionedSample,
    RippleSample,
    Totals,
)
from watersmeet.estimators.moments import packed
from watersmeet.estimators.rows import PairSums, row_totals
from watersmeet.estimators.totals import Reading
from watersmeet.model import Side

MOMENTS = 4
ZERO = np.zeros(1, np.int64)


def moments(values: NDArray[np.float64], centre: float = 1.0) -> NDArray[np.float64]:
    """The moments that pairs of these values add, of which none is null."""
    one = np.ones_like(values)
    return np.stack([one, one, values - centre, (values - centre) ** 2], axis=-1)


def population(rows: int, columns: int, seed: int) -> NDArray[np.float64]:
    """[rows, columns, J]: some pairs do not join, values have both signs."""
    rng = np.random.default_rng(seed)
    joins = rng.random((rows, columns)) < 0.6
    return moments(rng.normal(1, 3, (rows, columns))) * joins[..., None]


def check(samples: list[Totals], truth: NDArray[np.float64]) -> None:
    values = np.array([totals.value[0] for totals in samples])
    np.testing.assert_allclose(values.mean(axis=0), truth, rtol=1e-9)
    first, second = packed(MOMENTS, 2).T
    apart = values - truth
    exact = (apart[:, first] * apart[:, second]).mean(axis=0)
    estimated = np.mean([totals.covariance[0] for totals in samples], axis=0)
    np.testing.assert_allclose(estimated, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("read", [2, 3, 5])
def test_blocks_of_equal_size(read: int) -> None:
    blocks = population(6, 1, seed=1)[:, 0]
    samples = []
    for drawn in combinations(range(6), read):
        sample = ClusterSample(blocks=6, rows=60, moments=MOMENTS)
        for block in drawn:
            sample.add(ZERO, blocks[block, None], rows=10)
        samples.append(sample.totals())
    check(samples, blocks.sum(axis=0))


@pytest.mark.parametrize("read", [(2, 2), (3, 2), (4, 3), (5, 2), (2, 4)])
def test_pairs_of_blocks(read: tuple[int, int]) -> None:
    pairs = population(5, 4, seed=2)
    samples = []
    for left in combinations(range(5), read[0]):
        for right in combinations(range(4), read[1]):
            sample = RippleSample(blocks=(5, 4), rows=(50, 28), moments=MOMENTS)
            for block in left:
                sample.read(Side.LEFT, block, rows=10)
            for block in right:
                sample.read(Side.RIGHT, block, rows=7)
            b, c = (axis.ravel() for axis in np.meshgrid(left, right, indexing="ij"))
            sample.add(b, c, np.zeros(len(b), np.int64), pairs[b, c])
            samples.append(sample.totals())
    check(samples, pairs.sum(axis=(0, 1)))


@pytest.mark.parametrize("read", [(2, 2), (3, 4), (5, 3), (2, 4)])
def test_rows(read: tuple[int, int]) -> None:
    pairs = population(5, 4, seed=3)
    samples = []
    for left in combinations(range(5), read[0]):
        for right in combinations(range(4), read[1]):
            seen = PairSums(MOMENTS)
            r, s = (axis.ravel() for axis in np.meshgrid(left, right, indexing="ij"))
            joins = pairs[r, s, 0] > 0
            r, s = r[joins], s[joins]
            seen.observe(r, s, np.zeros(len(r), np.int64), pairs[r, s])
            seen.grow_to(1)
            readings = Reading(read[0], 5, "left rows"), Reading(read[1], 4, "right rows")
            samples.append(row_totals(seen, readings))
    check(samples, pairs.sum(axis=(0, 1)))


@pytest.mark.parametrize(
    "depths", [[(2, 2), (2, 2)], [(2, 3), (3, 3)], [(2, 2), (3, 3)], [(3, 2), (4, 3)]]
)
def test_staggered_partitions(depths: list[tuple[int, int]]) -> None:
    """Prefixes of one random order: estimates add up, and so do variances with covariances."""
    pairs = population(4, 3, seed=4)
    partition = (np.array([0, 1, 0, 1]), np.array([0, 1, 1]))
    pairs *= (partition[0][:, None] == partition[1])[..., None]
    samples = []
    for left in permutations(range(4)):
        for right in permutations(range(3)):
            sample = PartitionedSample(partitions=2, rows=(4, 3), moments=MOMENTS)
            for number, depth in enumerate(depths):
                r, s = np.meshgrid(left[: depth[0]], right[: depth[1]], indexing="ij")
                mine = (partition[0][r] == number) & (pairs[r, s, 0] > 0)
                r, s = r[mine], s[mine]
                sample.observe(
                    number,
                    r,
                    right_numbers=s,
                    groups=np.zeros(len(r), np.int64),
                    values=pairs[r, s],
                )
                sample.joined(number, read=depth)
                sample._pairs[number].grow_to(1)
            samples.append(sample.totals())
    check(samples, pairs.sum(axis=(0, 1)))


@pytest.mark.parametrize("read", [2, 3])
def test_some_partitions_only(read: int) -> None:
    """Partitions joined completely, of equal size: each is one draw."""
    totals = population(4, 1, seed=5)[:, 0]
    samples = []
    for drawn in combinations(range(4), read):
        sample = PartitionedSample(partitions=4, rows=(40, 40), moments=MOMENTS)
        for number in drawn:
            sample.observe(
                number,
                np.array([number]),
                right_numbers=np.array([number]),
                groups=ZERO,
                values=totals[number, None],
            )
            sample.joined(number, read=(40, 40), own=((10, 10), (10, 10)))
        samples.append(sample.totals())
    check(samples, totals.sum(axis=0))


def test_known_sizes_of_partitions_are_strata() -> None:
    """Rows drawn within each partition: variances simply add."""
    pairs = [population(3, 3, seed=6), population(4, 2, seed=7)]
    draws = [
        [
            (left, right)
            for left in combinations(range(part.shape[0]), 2)
            for right in combinations(range(part.shape[1]), 2)
        ]
        for part in pairs
    ]
    samples = []
    for one in draws[0]:
        for two in draws[1]:
            sample = PartitionedSample(partitions=2, rows=(7, 5), moments=MOMENTS)
            for number, (left, right) in enumerate((one, two)):
                r, s = (axis.ravel() for axis in np.meshgrid(left, right, indexing="ij"))
                sample.observe(
                    number,
                    r,
                    right_numbers=s,
                    groups=np.zeros(len(r), np.int64),
                    values=pairs[number][r, s],
                )
                sizes = pairs[number].shape
                sample.joined(number, read=(4, 4), own=((2, sizes[0]), (2, sizes[1])))
            samples.append(sample.totals())
    check(samples, sum(part.sum(axis=(0, 1)) for part in pairs))
