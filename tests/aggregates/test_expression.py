"""What an expression looks at, and its values where no other engine is needed to know them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aggregates.test_numbers import nonnull
from watersmeet.expressions.expression import _BLOCK, Expression
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.expressions.scope import Scope
from watersmeet.model import Side

PRICE = pa.decimal128(15, 2)
SCOPE = Scope((pa.schema({"k": pa.int32(), "a": pa.int64()}),
               pa.schema({"k": pa.int32(), "p": PRICE, "d": PRICE, "text": pa.string()})),
              keys=[("k", "k")])  # fmt: skip
LEFT, RIGHT = Side


def test_which_columns_of_which_side() -> None:
    both = Expression.parse("a * p + a * d - p", SCOPE)
    assert both.sides == {LEFT, RIGHT}
    assert both.columns(LEFT) == ("a",)
    assert both.columns(RIGHT) == ("p", "d")
    assert Expression.parse("1 + 1", SCOPE).sides == set()


def test_spelling_does_not_make_another_expression() -> None:
    first = Expression.parse("p*(1-d)", SCOPE)
    assert first == Expression.parse("`P` * ((1 - right.d))", SCOPE)
    assert hash(first) == hash(Expression.parse("p * (1 - d)", SCOPE))
    assert first != Expression.parse("p * (1.0 - d)", SCOPE)


MONEY = st.integers(-(10**15) + 1, 10**15 - 1) | st.integers(0, 10**7)


@given(st.lists(st.tuples(st.none() | MONEY, st.none() | MONEY)))
def test_revenue_of_any_size(rows: list[tuple[int | None, int | None]]) -> None:
    """Small values stay in 64 bits; large ones leave them, and are exact in both cases."""
    expression = Expression.parse("p * (1 - d)", SCOPE)
    columns = {
        (RIGHT, name): pa.array(
            [None if value is None else Decimal(value).scaleb(-2) for value in values], PRICE
        )
        for name, values in zip("pd", zip(*rows, strict=True) if rows else ((), ()), strict=True)
    }
    numbers = expression.evaluate(columns, len(rows))
    assert numbers.scale == 4
    valid = [True] * len(rows) if numbers.valid is None else numbers.valid.tolist()
    expected = [None if None in row else row[0] * (100 - row[1]) for row in rows]  # type: ignore[operator]
    actual = [v if known else None for v, known in zip(numbers.values, valid, strict=True)]
    assert actual == expected
    assert all(numbers.bounds[0] <= value <= numbers.bounds[1] for value in numbers.values)
    assert all(value == 0 for value, known in zip(numbers.values, valid, strict=True) if not known)


def test_blocks_that_differ() -> None:
    """One block is small, the next needs wide integers, the last has nulls."""
    rows = 2 * _BLOCK + 10
    whole = np.arange(rows, dtype=np.int64)
    whole[_BLOCK + 1] = 10**15 - 1
    words = np.stack([whole, whole >> 63], axis=1)
    prices = pa.Array.from_buffers(PRICE, rows, [None, pa.py_buffer(words)])
    known = whole != rows - 1
    integers = pa.array(whole, mask=~known)
    both = {(RIGHT, "p"): prices, (LEFT, "a"): pa.chunked_array([integers[:7], integers[7:]])}
    numbers = Expression.parse("p * p + a", SCOPE).evaluate(both, rows)
    exact = whole.astype(object) ** 2 + 10_000 * whole.astype(object)
    assert numbers.valid is not None
    assert numbers.valid.tolist() == known.tolist()
    assert (numbers.values[known] == exact[known]).all()
    assert numbers.values[-1] == 0
    assert numbers.bounds[1] >= max(exact[known])


def test_only_rows_that_are_looked_at_can_fail() -> None:
    columns = {(LEFT, "a"): pa.array([2, 0, 2**62])}
    active = np.array([True, False, True])
    for text, fine in (("10 / a", [5.0, 10 / 2**62]), ("10 % a", [0, 10])):
        expression = Expression.parse(text, SCOPE)
        assert expression.evaluate(columns, 3, active=active).values[active].tolist() == fine
        with pytest.raises(ArithmeticFailed, match="zero"):
            expression.evaluate(columns, 3)
    double = Expression.parse("a * 2", SCOPE)
    first = np.array([True, False, False])
    assert double.evaluate(columns, 3, active=first).values[0] == 4
    with pytest.raises(ArithmeticFailed, match="int64"):
        double.evaluate(columns, 3, active=active)


def test_a_condition_guards_what_comes_after_it() -> None:
    columns = {(LEFT, "a"): pa.array([2, 0])}
    for text in (
        "case when a = 0 then 0 when 10 / a > 0 then 1 end",
        "if(a = 0, 0, 2 / a)",
        "if(a <> 0 and 10 / a > 0, 1, 0)",
        "coalesce(if(a = 0, 0, null), 2 / a)",
    ):
        assert Expression.parse(text, SCOPE).evaluate(columns, 2).values.tolist() == [1, 0]


def test_a_constant_has_a_value_in_every_row() -> None:
    numbers = Expression.parse("1.25", SCOPE).evaluate({}, 3)
    assert (numbers.values.tolist(), numbers.scale) == ([125, 125, 125], 2)
    assert Expression.parse("1.25", SCOPE).evaluate({}, 0).values.size == 0


def test_what_is_no_number_can_be_counted() -> None:
    columns = {(RIGHT, "text"): pa.array(["x", None, ""])}
    assert nonnull(Expression.parse("text", SCOPE).evaluate(columns, 3)) == 2
    assert nonnull(Expression.parse("'x'", SCOPE).evaluate({}, 3)) == 3
    truth = Expression.parse("text > ''", SCOPE).evaluate(columns, 3)
    assert (truth.values.tolist(), nonnull(truth)) == ([1, 0, 0], 2)


@pytest.mark.parametrize(
    "kind", [pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string_view()]
)
def test_text_is_compared_however_it_is_kept(kind: pa.DataType) -> None:
    columns = {(RIGHT, name): pa.array(["x", None, "y"], kind) for name in ("text", "more")}
    scope = Scope((SCOPE.schemas[0], pa.schema({"text": kind, "more": kind})))
    same = Expression.parse("if(text = more, 1, 0)", scope).evaluate(columns, 3)
    assert same.values.tolist() == [1, 0, 1]
    numbers = Expression.parse("if(text in ('x', 'z'), 1, 0)", scope).evaluate(columns, 3)
    assert numbers.values.tolist() == [1, 0, 0]
    assert numbers.valid is None


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.sampled_from([1, -1]))
def test_a_quotient_of_decimals_is_rounded_half_up(up: int, down: int, sign: int) -> None:
    columns = {
        (RIGHT, "p"): pa.array([Decimal(up).scaleb(-2)], PRICE),
        (RIGHT, "d"): pa.array([Decimal(sign * down).scaleb(-2)], PRICE),
    }
    expression = Expression.parse("p / d", SCOPE)
    numbers = expression.evaluate(columns, 1)
    exact = Fraction(up, sign * down) * 10**numbers.scale
    assert numbers.scale == expression.kind.scale == 18
    assert abs(numbers.values[0] - exact) <= Fraction(1, 2)
