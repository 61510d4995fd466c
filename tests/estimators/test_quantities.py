"""Aggregates of moments: values as numpy has them, gradients as small steps show them."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.estimators import Kind, Quantity

VALUES = np.array([3.0, 5.0, 11.0, 4.5, 7.25])
CENTRE = 4.0
EXPECTED = {
    Kind.COUNT: 5.0,
    Kind.SUM: VALUES.sum(),
    Kind.AVG: VALUES.mean(),
    Kind.VARIANCE: VALUES.var(ddof=1),
    Kind.VAR_POP: VALUES.var(),
    Kind.STDDEV: VALUES.std(ddof=1),
    Kind.STDDEV_POP: VALUES.std(),
}


def moments() -> np.ndarray:
    """Two expressions; the second is the one that is asked for, and pairs outnumber it."""
    shifted = VALUES - CENTRE
    return np.array([[9.0, 9.0, 1.0, 2.0, 5.0, shifted.sum(), (shifted**2).sum()]])


@pytest.mark.parametrize("kind", list(Kind))
def test_value(kind: Kind) -> None:
    value, _ = Quantity(kind, 1).evaluate(moments(), centre=CENTRE)
    assert value.item() == pytest.approx(EXPECTED[kind])


def test_count_of_all_rows_needs_no_expression() -> None:
    assert Quantity(Kind.COUNT).evaluate(moments())[0].item() == 9


@pytest.mark.parametrize("kind", [kind for kind in Kind if not kind.of_sample])
def test_gradient(kind: Kind) -> None:
    _, form = Quantity(kind, 1).evaluate(moments(), centre=CENTRE)
    for position in range(3):
        step = np.zeros((1, 7))
        step[0, 4 + position] = 1e-6
        up, down = (
            Quantity(kind, 1).evaluate(moments() + sign * step, centre=CENTRE)[0].item()
            for sign in (1, -1)
        )
        assert form.gradient[0, position] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_nothing_to_average_is_null() -> None:
    empty = np.zeros((1, 4))
    for kind in (Kind.AVG, Kind.VARIANCE, Kind.STDDEV_POP):
        assert np.isnan(Quantity(kind, 0).evaluate(empty)[0]).all()
    one = np.array([[1.0, 1.0, 0.5, 0.25]])
    assert np.isnan(Quantity(Kind.STDDEV, 0).evaluate(one)[0]).all()
    assert Quantity(Kind.STDDEV_POP, 0).evaluate(one)[0].item() == 0


def test_forms_of_packed_products_are_those_of_the_full_arrays() -> None:
    rng = np.random.default_rng(0)
    gradient, units = rng.normal(size=(1, 3)), rng.normal(size=(20, 7))
    from watersmeet.estimators.moments import LinearForm, cubes, products

    form = LinearForm(gradient, expression=1)
    along = units[:, 4:7] @ gradient[0]
    assert form.first(units[:1]).item() == pytest.approx(along[0])
    assert form.second(products(units).sum(axis=0)[None]).item() == pytest.approx((along**2).sum())
    assert form.third(cubes(units).sum(axis=0)[None]).item() == pytest.approx((along**3).sum())
