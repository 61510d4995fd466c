"""Forecasts against what reading on then shows; unseen groups against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.estimators import (
    ClusterSample,
    Forecast,
    Kind,
    Quantity,
    RippleSample,
    Totals,
    unseen_groups,
)
from watersmeet.estimators.intervals import t_quantile
from watersmeet.model import Side

COUNT = Quantity(Kind.COUNT)


def cluster(totals: np.ndarray, read: int) -> Totals:
    sample = ClusterSample(blocks=len(totals), rows=None, moments=1)
    for total in totals[:read]:
        sample.add(np.array([0]), total.reshape(1, 1), rows=1)
    return sample.totals()


def ripple(pairs: np.ndarray, left: int, right: int) -> Totals:
    sample = RippleSample(blocks=pairs.shape, rows=(None, None), moments=1)
    for side, count in ((Side.LEFT, left), (Side.RIGHT, right)):
        for block in range(count):
            sample.read(side, block, rows=1)
    b, c = (axis.ravel() for axis in np.mgrid[:left, :right])
    sample.add(b, c, np.zeros(len(b), np.int64), pairs[b, c][:, None])
    return sample.totals()


def test_now_is_what_the_forecast_says_about_now() -> None:
    rng = np.random.default_rng(0)
    totals = cluster(rng.gamma(2, 5, 200), 40)
    forecast = Forecast.of(totals, COUNT)
    np.testing.assert_allclose(forecast.variance((40,)), totals.covariance[:, 0])
    assert forecast.variance((200,)).item() == pytest.approx(0, abs=1e-9)
    two = ripple(rng.poisson(2.0, (60, 50)).astype(float), 20, 15)
    forecast = Forecast.of(two, COUNT)
    np.testing.assert_allclose(forecast.variance((20, 15)), two.covariance[:, 0])
    assert forecast.variance((60, 50)).item() == pytest.approx(0, abs=1e-9)


def test_the_fraction_that_is_needed_is_enough() -> None:
    rng = np.random.default_rng(1)
    blocks = rng.gamma(20, 5, 400)
    totals = cluster(blocks, 40)
    needed = Forecast.of(totals, COUNT).fraction_needed(relative_error=0.02).item()
    read = round(needed * 400)
    assert 40 < read < 400
    later = cluster(blocks, read)
    width = t_quantile(0.05, np.array([read - 1.0])) * np.sqrt(later.covariance[:, 0])
    assert (width / later.value[:, 0]).item() == pytest.approx(0.02, rel=0.25)


def test_reached_and_unreachable_targets() -> None:
    totals = cluster(np.random.default_rng(2).gamma(20, 5, 400), 40)
    forecast = Forecast.of(totals, COUNT)
    assert forecast.fraction_needed(relative_error=10.0).item() == 0.1
    assert forecast.fraction_needed(relative_error=1e-9).item() == pytest.approx(1.0, abs=1e-3)


def test_two_sided_forecast_meets_the_later_variance() -> None:
    """Fitted at 25 of 100 blocks a side, used at 60; averaged over 30 populations."""
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(30):
        pairs = rng.poisson(1.0, (100, 100)) * rng.gamma(3, 1, (100, 1)) * rng.gamma(9, 1, 100)
        forecast = Forecast.of(ripple(pairs, 25, 25), COUNT).variance((60, 60)).item()
        ratios.append(forecast / ripple(pairs, 60, 60).covariance.item())
    assert np.median(np.sqrt(ratios)) == pytest.approx(1.0, abs=0.1)


def test_the_side_that_varies_is_read_next_unless_it_is_slow() -> None:
    rng = np.random.default_rng(4)
    pairs = rng.gamma(1, 5, (60, 1)) * np.ones((60, 60)) + rng.random((60, 60))
    forecast = Forecast.of(ripple(pairs, 20, 20), COUNT)
    assert forecast.next_side((1.0, 1.0)) == Side.LEFT
    assert forecast.next_side((1e-6, 1.0)) == Side.RIGHT
    turned = Forecast.of(ripple(pairs.T, 20, 20), COUNT)
    assert turned.next_side((1.0, 1.0)) == Side.RIGHT


def test_unseen_groups() -> None:
    """Zipf groups, 5% of the rows: on average the share is right, and the bound holds.

    The mean of 200 estimates has a standard error of 0.1 points; a bound of 97.5% fails more
    than 12 times in 200 with probability below 0.005.
    """
    rng = np.random.default_rng(5)
    shares = 1 / np.arange(1, 3001)
    rows = rng.choice(3000, 20_000, p=shares / shares.sum())
    apart, held = [], []
    for _ in range(200):
        drawn = rng.permutation(len(rows))[:1000]
        seen = np.bincount(rows[drawn], minlength=3000)
        truth = (seen[rows] == 0).mean()
        estimate = unseen_groups(seen[seen > 0], fraction=0.05)
        apart.append(estimate.share - truth)
        held.append(truth <= estimate.at_most)
    assert abs(np.mean(apart)) < 0.005
    assert np.sum(held) >= 188


def test_unseen_groups_at_the_ends() -> None:
    assert unseen_groups(np.array([1, 1]), fraction=1.0) == (0.0, 0.0)
    assert unseen_groups(np.zeros(0), fraction=0.1) == (1.0, 1.0)
