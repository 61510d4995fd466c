"""Key distributions: the stated probabilities, repeatable by seed."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.sim.keys import (
    Keys,
    NormalKeys,
    PartitionedKeys,
    PartlySorted,
    Periods,
    Shifting,
    SortedIntervals,
    UniformKeys,
    ZipfKeys,
    harmony,
    reverse,
    rising_weights,
)

MEMBERS = np.arange(1, 101, dtype=np.int64).reshape(20, 5)

DISTRIBUTIONS = [
    UniformKeys(100),
    ZipfKeys(100, 1.0),
    NormalKeys((10.0, 80.0), deviation=4.0, lowest=1, highest=100),
    Shifting(UniformKeys(10), UniformKeys(1000)),
    PartlySorted(UniformKeys(1000), 0.1),
    PartitionedKeys(MEMBERS, rising_weights()),
]


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def chi_square(seen: np.ndarray, expected: np.ndarray) -> float:
    return float(np.sum((seen - expected) ** 2 / expected))


@pytest.mark.parametrize("keys", DISTRIBUTIONS, ids=lambda keys: type(keys).__name__)
def test_keys_are_int64_and_repeat_with_their_seed(keys: Keys) -> None:
    drawn = keys.draw(1_000, rng(3))
    assert drawn.dtype == np.int64
    assert drawn.shape == (1_000,)
    assert np.array_equal(drawn, keys.draw(1_000, rng(3)))
    assert not np.array_equal(drawn, keys.draw(1_000, rng(4)))
    assert keys.draw(0, rng()).tolist() == []


def test_partition_probabilities_are_the_papers() -> None:
    rising = rising_weights()
    assert rising[0] == pytest.approx(0.01)
    assert rising[19] == pytest.approx(0.09)
    assert np.diff(rising) == pytest.approx(np.full(19, 0.08 / 19))
    assert rising.sum() == pytest.approx(1.0)


def test_harmony_is_alike_on_both_sides_and_reverse_is_mirrored() -> None:
    left, right = harmony()
    assert np.array_equal(left, right)
    left, right = reverse()
    for j in range(1, 21):  # P(j|R2) = P(21-j|R1), partitions counted from 1 as in the paper
        assert right[j - 1] == left[21 - j - 1]


@pytest.mark.parametrize("weights", reverse(), ids=["R1", "R2"])
def test_partitioned_keys_fall_into_partitions_with_the_stated_odds(weights: np.ndarray) -> None:
    count = 100_000
    drawn = PartitionedKeys(MEMBERS, weights).draw(count, rng())
    # Chi-square, 19 and 99 degrees of freedom: exceeded once in a thousand seeds.
    partitions = np.bincount((drawn - 1) // 5, minlength=20)
    assert chi_square(partitions, count * weights) < 43.8
    every_key = np.bincount(drawn - 1, minlength=100)
    assert chi_square(every_key, count * np.repeat(weights / 5, 5)) < 148.2


def test_zipf_keys_have_the_stated_odds() -> None:
    count = 100_000
    drawn = ZipfKeys(50, 1.2).draw(count, rng())
    odds = np.arange(1, 51) ** -1.2
    assert chi_square(np.bincount(drawn, minlength=51)[1:], count * odds / odds.sum()) < 85.4


def test_normal_keys_lie_around_their_centres_and_inside_the_domain() -> None:
    keys = NormalKeys((100.0, 900.0), deviation=10.0, lowest=1, highest=1_000)
    drawn = keys.draw(20_000, rng())
    low = drawn[drawn < 500]
    assert len(low) == pytest.approx(10_000, rel=0.05)
    assert low.mean() == pytest.approx(100, abs=1)
    assert low.std() == pytest.approx(10, rel=0.05)
    clipped = NormalKeys((0.0,), deviation=50.0, lowest=1, highest=20).draw(1_000, rng())
    assert clipped.min() == 1
    assert clipped.max() == 20


def test_shifting_keys_leave_one_distribution_for_the_other() -> None:
    keys = Shifting(UniformKeys(10), UniformKeys(10_000), start=0.25, stop=0.75)
    drawn = keys.draw(40_000, rng())
    assert drawn[:10_000].max() <= 10
    assert np.mean(drawn[30_000:] > 10) > 0.99
    assert np.mean(drawn[19_000:21_000] > 10) == pytest.approx(0.5, abs=0.05)


def test_partly_sorted_keys_keep_their_keys_and_most_of_their_order() -> None:
    drawn = PartlySorted(UniformKeys(1_000_000), 0.1).draw(10_000, rng())
    inversions = np.mean(np.diff(drawn) < 0)
    assert 0.05 < inversions < 0.11  # a displaced row makes about one descent
    assert np.all(np.diff(PartlySorted(UniformKeys(1_000), 0.0).draw(5_000, rng())) >= 0)
    ordered = np.sort(UniformKeys(1_000_000).draw(10_000, rng()))
    assert np.array_equal(np.sort(drawn), ordered)


def test_weights_that_do_not_share_out_the_partitions_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one weight per partition"):
        PartitionedKeys(MEMBERS, rising_weights(10))
    with pytest.raises(InvalidArgument, match="sum of 1"):
        PartitionedKeys(MEMBERS, rising_weights() * 2)


def test_sorted_intervals_are_sorted_inside_and_come_in_another_order() -> None:
    drawn = SortedIntervals(UniformKeys(500), 10).draw(1_000, np.random.default_rng(4))
    parts = drawn.reshape(10, -1)
    assert np.all(np.diff(parts, axis=1) >= 0)
    assert np.any(np.diff(parts[:, 0]) < 0)
    assert np.array_equal(np.sort(drawn), np.sort(parts[np.argsort(parts[:, 0])].ravel()))


def test_periods_shift_their_centre() -> None:
    drawn = Periods(75, 20, 15, 10).draw(100_000, np.random.default_rng(5)).reshape(10, -1)
    assert np.allclose(drawn.mean(axis=1), 75 + 20 * np.arange(10), atol=1.0)
    assert drawn.std(axis=1).max() < 16
