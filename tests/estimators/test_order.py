"""Order tests: silent on random draws as often as they say, loud on sorted files."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.estimators.order import clustering, unshuffled


def test_clustering_from_footers() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((50, 1000))
    assert clustering(values.min(axis=1), values.max(axis=1)) > 0.99
    ordered = np.sort(values.ravel()).reshape(50, 1000)
    assert clustering(ordered.min(axis=1), ordered.max(axis=1)) == pytest.approx(1 / 50, rel=0.1)
    assert clustering(np.array([3, 3]), np.array([3, 3])) == 1


def test_a_prefix_is_no_random_draw() -> None:
    assert unshuffled((np.arange(12), 200)) < 1e-4
    assert unshuffled((np.arange(188, 200), 200)) < 1e-4
    assert unshuffled((np.arange(200), 200)) == 1


def test_random_draws_pass_as_often_as_promised() -> None:
    """400 draws at the 5% level: more than 9% alarms has probability below 0.001."""
    rng = np.random.default_rng(1)
    alarms = [unshuffled((rng.permutation(100)[:30], 100)) < 0.05 for _ in range(400)]
    assert 0.01 < np.mean(alarms) < 0.09
