"""Quantiles against printed tables, and sequences of looks against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.intervals import (
    gamma_interval,
    t_quantile,
    tail_probability,
    zero_match_bound,
)


def test_student() -> None:
    degrees = np.array([0.0, 1.0, 29.0, np.inf])
    np.testing.assert_allclose(
        t_quantile(0.05, degrees), [np.inf, 12.7062, 2.0452, 1.9600], rtol=1e-4
    )


def test_gamma_of_plain_counts_is_the_interval_of_jeffreys() -> None:
    """Half of chi-square's quantiles at 2x + 1 degrees of freedom, for 1, 5 and 20 events."""
    events = np.array([1.0, 5.0, 20.0])
    low, high = gamma_interval(events, events, largest=np.ones(3), tail=0.05)
    np.testing.assert_allclose(low, [0.10790, 1.9079, 12.6073], rtol=1e-4)
    np.testing.assert_allclose(high, [4.6742, 10.9600, 30.2805], rtol=1e-4)


def test_gamma_scales_with_the_weights() -> None:
    one = np.array([7.0])
    low, high = gamma_interval(one, one, largest=np.ones(1), tail=0.05)
    scaled = gamma_interval(10 * one, 100 * one, largest=np.full(1, 10.0), tail=0.05)
    np.testing.assert_allclose(scaled, [10 * low, 10 * high])


def test_no_spread_is_no_width() -> None:
    low, high = gamma_interval(np.array([7.0]), np.zeros(1), largest=np.ones(1), tail=0.05)
    assert low.item() == high.item() == 7


def test_rule_of_three() -> None:
    assert zero_match_bound(0.05, (0.01,)) == pytest.approx(368.9, rel=1e-3)
    assert zero_match_bound(0.05, (0.1, 0.1)) == pytest.approx(368.9, rel=1e-3)
    assert zero_match_bound(0.05, (0.0, 0.5)) == np.inf


def test_error_is_shared_out() -> None:
    assert tail_probability(0.95) == pytest.approx(0.05)
    assert tail_probability(0.95, statements=10) == pytest.approx(0.005)
    assert tail_probability(0.95, statements=10, looks=5) == pytest.approx(0.001)
    assert tail_probability(0.95, looks=None, units=40) < 0.05


@pytest.mark.parametrize("confidence", [0.0, 1.0, -3, 95])
def test_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(InvalidArgument, match="confidence"):
        tail_probability(confidence)


def test_unlimited_looks_hold_at_all_looks_at_once() -> None:
    """Sums of 20 to 2,000 draws, looked at after every draw.

    1,000 runs. The sequence promises at most 5% that ever leave it; with 5% exactly, more than
    7.2% has probability below 0.001. The plain interval is left by far more, so the test sees
    something.
    """
    rng = np.random.default_rng(6)
    looks = np.arange(20, 2001)
    sums = np.cumsum(rng.standard_normal((1000, 2000)), axis=1)[:, looks - 1]
    distance = np.abs(sums) / np.sqrt(looks)
    tails = np.array([tail_probability(0.95, looks=None, units=float(n)) for n in looks])
    radius = np.array([t_quantile(tail, np.array([np.inf])).item() for tail in tails])
    assert (distance > radius).any(axis=1).mean() < 0.072
    assert (distance > 1.96).any(axis=1).mean() > 0.3
