"""A product of both sides' factors is the expression itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.expressions.expression import Expression
from watersmeet.expressions.factors import factored
from watersmeet.expressions.scope import Scope
from watersmeet.model import Side

LEFT = {"a": pa.int32(), "b": pa.decimal128(9, 2), "c": pa.float64(), "s": pa.float32()}
RIGHT = {"x": pa.int32(), "y": pa.decimal128(9, 2), "z": pa.float64(), "t": pa.float32()}
SCOPE = Scope((pa.schema(LEFT), pa.schema(RIGHT)))
ROWS = 5

PRODUCTS = [
    "a * x", "b * y",
    "b * (1 - y)", "b * y * (b + 1)", "b * (1 - y) * (1 + y)", "(b * y) * (b * 2)", "c * z",
    "c / z", "a / x", "c / (z * a)", "-(b * y)", "-(a * x) * a", "cast(b * y as double)",
    "b * y * z", "2 * (a * (3 * x))", "b * case when x > 3 then y else 0 end", "c * t", "a * y",
    "(b / 3) * y", "coalesce(b, 1) * y", "-(c / x)", "abs(b) * abs(y)", "1.5 * x * -a",
]  # fmt: skip
NO_PRODUCTS = [
    "a + x", "b * (y + b)", "b / y", "s * t", "abs(b * y)", "coalesce(b, y)", "a % x",
    "case when a > x then 1 else 0 end", "cast(b * y as decimal(10, 1))", "cast(a as float) * t",
]  # fmt: skip


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    # No zeros, which are no divisors; small, so that no product of integers overflows.
    whole = st.integers(1, 1000) | st.integers(-1000, -1)
    if pa.types.is_decimal(kind):
        return st.none() | whole.map(lambda value: Decimal(value).scaleb(-2))
    return st.none() | whole.map(lambda value: value / 8 if pa.types.is_floating(kind) else value)


TABLES = st.fixed_dictionaries(
    {
        (side, name): st.lists(values_of(kind), min_size=ROWS, max_size=ROWS)
        for side, columns in ((Side.LEFT, LEFT), (Side.RIGHT, RIGHT))
        for name, kind in columns.items()
    }
)


@pytest.mark.parametrize("text", PRODUCTS)
@settings(max_examples=15)
@given(table=TABLES)
def test_the_product_of_the_factors(text: str, table: dict[tuple[Side, str], list[Any]]) -> None:
    schemas = {Side.LEFT: LEFT, Side.RIGHT: RIGHT}
    columns = {key: pa.array(values, schemas[key[0]][key[1]]) for key, values in table.items()}
    expression = Expression.parse(text, SCOPE)
    factors = factored(expression)
    assert factors is not None
    left, right = factors
    assert left is not None
    assert right is not None
    assert left.sides == {Side.LEFT}
    assert right.sides == {Side.RIGHT}
    direct = expression.evaluate(columns, ROWS)
    mine, others = left.evaluate(columns, ROWS), right.evaluate(columns, ROWS)
    valid = np.ones(ROWS, np.bool_)
    for part in (mine, others):
        valid &= True if part.valid is None else part.valid
    assert valid.tolist() == (direct.valid if direct.valid is not None else valid).tolist()
    if direct.exact:
        assert mine.scale + others.scale == direct.scale
        product = mine.values.astype(object) * others.values.astype(object)
        assert product[valid].tolist() == direct.values[valid].tolist()
    else:
        product = mine.floats() * others.floats()
        np.testing.assert_allclose(product[valid], direct.values[valid], rtol=1e-14)


@pytest.mark.parametrize("text", NO_PRODUCTS)
def test_what_is_no_product(text: str) -> None:
    assert factored(Expression.parse(text, SCOPE)) is None


def test_one_side_is_its_own_factor() -> None:
    left, right = Expression.parse("a + b", SCOPE), Expression.parse("x / y", SCOPE)
    constant = Expression.parse("2", SCOPE)
    assert factored(left) == (left, None)
    assert factored(right) == (None, right)
    assert factored(constant) == (constant, None)
