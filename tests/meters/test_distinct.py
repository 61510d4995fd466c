"""The estimate of distinct keys is near the truth, whatever comes twice."""

from __future__ import annotations

import json

import numpy as np
import pytest

from watersmeet.kernels.hashing import hash_codes
from watersmeet.meters.distinct import DistinctKeys


def hashes(start: int, stop: int) -> np.ndarray:
    return np.asarray(hash_codes(np.arange(start, stop, dtype=np.uint64)))


@pytest.mark.parametrize("count", [10, 100, 1_000, 5_000, 10_000, 20_000, 100_000, 1_000_000])
def test_the_estimate_is_within_five_percent(count: int) -> None:
    keys = DistinctKeys()
    keys.update(hashes(0, count))
    assert keys.get() == pytest.approx(count, rel=0.05)


def test_keys_that_come_again_are_not_counted_again() -> None:
    keys = DistinctKeys()
    keys.update(hashes(0, 3000))
    once = keys.get()
    for _ in range(3):
        keys.update(hashes(1000, 3000))
    assert keys.get() == once


def test_nothing_came_and_nothing_is_counted() -> None:
    assert DistinctKeys().get() == 0


def test_a_hash_of_zeros_is_a_key() -> None:
    keys = DistinctKeys()
    keys.update(np.zeros(5, np.uint64))
    assert keys.get() == pytest.approx(1, rel=0.05)


def test_a_saved_count_goes_on_elsewhere() -> None:
    keys, other = DistinctKeys(), DistinctKeys()
    keys.update(hashes(0, 3000))
    other.load(json.loads(json.dumps(keys.save())))
    assert other.get() == keys.get()
    other.update(hashes(3000, 6000))
    assert other.get() == pytest.approx(6000, rel=0.05)
    assert keys.get() == pytest.approx(3000, rel=0.05)
