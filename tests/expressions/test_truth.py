"""Conditions have SQL's three values, whether Arrow or numpy found them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.expressions.evaluation import Evaluation
from watersmeet.expressions.nodes import (
    Arithmetic,
    AtLeast,
    Cast,
    Column,
    Compare,
    HasText,
    In,
    IsNan,
    IsNull,
    Literal,
    Logic,
    Node,
    Not,
    Ticks,
)
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.expressions.truth import Truth
from watersmeet.model import Side

BOOL, LONG, DOUBLE, TEXT = pa.bool_(), pa.int64(), pa.float64(), pa.string()
A, B = Column(Side.LEFT, "a", LONG), Column(Side.LEFT, "b", LONG)
X, Y = Column(Side.LEFT, "x", DOUBLE), Column(Side.LEFT, "y", DOUBLE)
T = Column(Side.LEFT, "t", TEXT)
NAN = math.nan

answers = st.lists(st.tuples(*[st.sampled_from([True, False, None])] * 2), min_size=1, max_size=9)


def answer(node: Node, **columns: pa.Array) -> list[bool | None]:
    given = {(Side.LEFT, name): values for name, values in columns.items()}
    truth = Evaluation(given).truth(node)
    found: list[bool | None] = truth.answer.to_pylist()
    # Both forms say the same.
    assert truth.holds.tolist() == [value is True for value in found]
    assert truth.fails.tolist() == [value is False for value in found]
    return found


def in_numpy(values: list[bool | None]) -> Truth:
    valid = np.array([value is not None for value in values])
    return Truth.known(np.array([value is True for value in values]), valid)


FORMS: dict[str, Callable[[list[bool | None]], Truth]] = {
    "arrow": lambda values: Truth.of(pa.array(values, BOOL)),
    "numpy": in_numpy,
}


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
@given(pairs=answers)
def test_logic_of_three_values(
    first: str, second: str, pairs: list[tuple[bool | None, bool | None]]
) -> None:
    left, right = FORMS[first]([a for a, _ in pairs]), FORMS[second]([b for _, b in pairs])
    both = [False if False in pair else None if None in pair else True for pair in pairs]
    either = [True if True in pair else None if None in pair else False for pair in pairs]
    assert left.and_(right).answer.to_pylist() == both
    assert left.or_(right).answer.to_pylist() == either
    opposite = [None if a is None else not a for a, _ in pairs]
    assert left.opposite().answer.to_pylist() == opposite


def test_a_constant_goes_with_any_column() -> None:
    for value, expected in ((True, [True, None]), (None, [None, None]), (False, [False, False])):
        node = Logic("AND", Compare("=", A, A, BOOL), Literal(value, BOOL), BOOL)
        assert answer(node, a=pa.array([1, None])) == expected


PLAIN: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b or (a != a and b != b),
    "<>": lambda a, b: not PLAIN["="](a, b),
    "<": lambda a, b: a < b or (a == a and b != b),
    "<=": lambda a, b: PLAIN["<"](a, b) or PLAIN["="](a, b),
    ">": lambda a, b: PLAIN["<"](b, a),
    ">=": lambda a, b: PLAIN["<="](b, a),
}
REALS = [None, -math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, NAN]


@pytest.mark.parametrize("sign", PLAIN)
@pytest.mark.parametrize("computed", [False, True])
def test_nan_equals_itself_and_is_above_all(sign: str, computed: bool) -> None:
    pairs = [(a, b) for a in REALS for b in REALS]
    left: Node = X
    if computed:  # No column as it is: numpy compares.
        left = Arithmetic("+", X, Literal(0.0, DOUBLE), DOUBLE)
    found = answer(
        Compare(sign, left, Y, BOOL),
        x=pa.array([a for a, _ in pairs], DOUBLE),
        y=pa.array([b for _, b in pairs], DOUBLE),
    )
    assert found == [None if a is None or b is None else PLAIN[sign](a, b) for a, b in pairs]


@pytest.mark.parametrize("computed", [False, True])
def test_two_nulls_are_equal_where_that_is_asked(computed: bool) -> None:
    pairs = [(a, b) for a in REALS for b in REALS]
    left: Node = Arithmetic("+", X, Literal(0.0, DOUBLE), DOUBLE) if computed else X
    found = answer(
        Compare("<=>", left, Y, BOOL),
        x=pa.array([a for a, _ in pairs], DOUBLE),
        y=pa.array([b for _, b in pairs], DOUBLE),
    )
    expected = [(a is b is None) or (None not in (a, b) and PLAIN["="](a, b)) for a, b in pairs]
    assert found == expected


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("or_null", [False, True])
def test_a_value_among_others(computed: bool, or_null: bool) -> None:
    operand: Node = Arithmetic("+", A, Literal(0, LONG), LONG) if computed else A
    found = answer(In(operand, (1, 3), or_null, BOOL), a=pa.array([1, 2, 3, None]))
    missing = None if or_null else False
    assert found == [True, missing, True, None]


def test_texts_are_looked_for_as_they_are() -> None:
    texts = pa.array(["a%b", "ab", "%", None, "ba%"])
    assert answer(HasText("begin", T, "a", BOOL), t=texts) == [True, True, False, None, False]
    assert answer(HasText("end", T, "%", BOOL), t=texts) == [False, False, True, None, True]
    assert answer(HasText("anywhere", T, "%", BOOL), t=texts) == [True, False, True, None, True]


def test_nulls_and_nan_are_told_apart() -> None:
    reals = pa.array([1.0, NAN, None])
    assert answer(IsNan(X, BOOL), x=reals) == [False, True, False]
    assert answer(IsNan(Arithmetic("+", X, X, DOUBLE), BOOL), x=reals) == [False, True, False]
    assert answer(IsNull(X, BOOL), x=reals) == [False, False, True]
    assert answer(Not(IsNull(Arithmetic("+", X, X, DOUBLE), BOOL), BOOL), x=reals) == [
        True, True, False,
    ]  # fmt: skip
    longs = pa.array([None, 1, None])
    assert answer(AtLeast(1, (X, A), BOOL), x=reals, a=longs) == [True, True, False]
    assert answer(AtLeast(2, (X, A), BOOL), x=reals, a=longs) == [False, False, False]


def test_what_a_condition_guards_cannot_fail() -> None:
    """a + 1 leaves its type in the second row, at which only the unguarded one looks."""
    largest = 2**63 - 1
    above = Compare(">", Arithmetic("+", A, Literal(1, LONG), LONG), Literal(5, LONG), BOOL)
    guard = Compare("<", A, B, BOOL)
    columns = {"a": pa.array([7, largest, 1]), "b": pa.array([9, 0, 9])}
    assert answer(Logic("AND", guard, above, BOOL), **columns) == [True, False, False]
    with pytest.raises(ArithmeticFailed):
        answer(Logic("AND", above, guard, BOOL), **columns)


def test_instants_are_counted_in_microseconds() -> None:
    kind, took = pa.timestamp("us", "UTC"), pa.duration("us")
    start, end = Column(Side.LEFT, "start", kind), Column(Side.LEFT, "end", kind)
    lasted = Arithmetic("-", Ticks(end, LONG), Ticks(start, LONG), took)
    columns = {
        "start": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3, kind),
        "end": pa.array([datetime(2024, 1, 1, 0, 0, s, tzinfo=UTC) for s in (1, 2)] + [None], kind),
    }
    assert answer(Compare(">", lasted, Literal(1_000_000, took), BOOL), **columns) == [
        False, True, None,
    ]  # fmt: skip
    at = Compare("=", Ticks(end, LONG), Literal(1_704_067_201_000_000, LONG), BOOL)
    assert answer(at, **columns) == [True, False, None]


def test_a_wider_type_changes_no_answer() -> None:
    small = Column(Side.LEFT, "a", pa.int32())
    for kind, value in ((LONG, 5), (DOUBLE, 5.0), (pa.decimal128(12, 2), 5)):
        node = Compare(">=", Cast(small, kind), Literal(value, kind), BOOL)
        assert answer(node, a=pa.array([4, 5, None], pa.int32())) == [False, True, None]
