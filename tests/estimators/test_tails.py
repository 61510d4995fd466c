"""Heavy tails are found, light ones are left alone, and sketches merge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.estimators import TailSketch

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def flagged(draw: Draw, count: int = 1000) -> float:
    rng = np.random.default_rng(0)
    reasons = []
    for _ in range(100):
        sketch = TailSketch()
        sketch.add(draw(rng, count))
        reasons.append(bool(sketch.reason()))
    return float(np.mean(reasons))


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        (lambda rng, n: rng.pareto(1.5, n) + 1, 0.95, 1.0),
        (lambda rng, n: -rng.pareto(1.5, n) - 1, 0.95, 1.0),
        (lambda rng, n: rng.lognormal(0, 0.5, n), 0.0, 0.10),
        (lambda rng, n: rng.exponential(1, n), 0.0, 0.05),
        (lambda rng, n: rng.uniform(0, 1, n), 0.0, 0.0),
        (lambda rng, n: rng.normal(1e6, 1, n), 0.0, 0.0),
    ],
)
def test_which_distributions_are_flagged(draw: Draw, least: float, most: float) -> None:
    assert least <= flagged(draw) <= most


def test_few_values_are_not_judged() -> None:
    assert flagged(lambda rng, n: rng.pareto(1.5, n) + 1, count=150) == 0


def test_values_the_files_hold_but_nobody_saw() -> None:
    rng = np.random.default_rng(1)
    values = rng.uniform(0, 1, 500)
    sketch = TailSketch(bounds=(0.0, 40.0))
    sketch.add(values)
    assert "values of up to 40 are unread" in sketch.reason()
    fine = TailSketch(bounds=(0.0, 1.5))
    fine.add(values)
    assert not fine.reason()


def test_a_tail_that_was_seen_to_its_end_is_no_threat() -> None:
    values = np.random.default_rng(2).pareto(1.5, 1000) + 1
    sketch = TailSketch(bounds=(1.0, float(values.max())))
    sketch.add(values)
    assert not sketch.reason()


def test_index_of_a_pareto_is_its_exponent() -> None:
    sketch = TailSketch()
    sketch.add(np.random.default_rng(3).pareto(1.5, 5000) + 1)
    # Of the top 250: a standard error of 0.1.
    assert sketch.hill() == pytest.approx(1.5, abs=0.4)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), max_size=8), min_size=1, max_size=4),
    st.floats(-100, 100),
)
def test_sketches_merge(parts: list[list[float]], centre: float) -> None:
    whole, merged = TailSketch(kept=5), TailSketch(kept=5)
    for part in parts:
        values = np.array(part, np.float64)
        whole.add(values)
        other = TailSketch(centre=centre, kept=5)
        other.add(values)
        merged += other
    assert merged.count == whole.count
    assert sorted(merged._largest) == sorted(whole._largest)
    np.testing.assert_allclose(merged._sums, whole._sums, rtol=1e-6, atol=1e-3)


def test_share_of_the_most_distant_value() -> None:
    values = np.array([1.0, 2.0, 3.0, -30.0, 5.0])
    sketch = TailSketch(centre=2.0)
    sketch.add(np.array([np.nan, *values[:2]]))
    sketch.add(values[2:])
    apart = (values - values.mean()) ** 2
    assert sketch.largest_share() == pytest.approx(apart.max() / apart.sum())


def test_deviation_is_that_of_the_values() -> None:
    values = np.random.default_rng(6).gamma(2.0, 3.0, 500)
    sketch = TailSketch(centre=4.0)
    assert sketch.deviation() == 0
    sketch.add(values)
    assert sketch.deviation() == pytest.approx(values.std())
