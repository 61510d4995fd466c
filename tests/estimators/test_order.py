"""Order tests: silent on random draws as often as they say, loud on sorted files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from watersmeet.estimators.order import RowOrder, clustering, unshuffled


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


def order_of(values: NDArray[np.float64], rows: int = 200) -> float:
    order = RowOrder()
    for start in range(0, len(values), rows):
        order.add(values[start : start + rows])
    return order.probability()


def test_rows_in_random_order_pass_as_often_as_promised() -> None:
    """400 inputs at the 5% level: more than 9% alarms has probability below 0.001."""
    rng = np.random.default_rng(4)
    alarms = [order_of(rng.gamma(2, 3, 4_000) + 1e6) < 0.05 for _ in range(400)]
    assert 0.01 < np.mean(alarms) < 0.09


def test_an_input_that_is_sorted_or_drifts_or_comes_in_heaps_is_noticed() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(5, 2, 8_000)
    assert order_of(np.sort(values)) < 1e-9
    assert order_of(values + np.linspace(0, 1, 8_000)) < 1e-9
    assert order_of(values + np.repeat(rng.normal(0, 1, 40), 200)) < 1e-9
    assert order_of(np.repeat([1.0, 2.0], 400)) == 0


def test_what_has_no_spread_or_few_rows_is_no_evidence() -> None:
    assert order_of(np.ones(1_000)) == 1
    assert order_of(np.array([1.0, 2.0])) == 1
    assert order_of(np.full(500, np.nan)) == 1
    assert order_of(np.where(np.arange(4_000) % 7 == 0, np.inf, 1.0)) == 1
