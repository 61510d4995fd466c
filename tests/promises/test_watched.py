"""Do promises of codes never cover a value that may still come, whatever the types?"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model import Side
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.promises.watched import Watched
from watersmeet.rows.promises import Promises
from watersmeet.rows.schema import JoinSchema

NAN, INF = float("nan"), float("inf")
LARGE = 2**53


def told_after(keeper: PromiseKeeper, side: Side, values: pa.Array) -> Promises:
    told = Promises()
    schema = keeper.schema.inputs[side]
    heard = keeper.take(side, pa.RecordBatch.from_arrays([values], schema=schema))
    for each, promise in heard.promises:
        told.accept(each, promise)
    return told


def joined(left: pa.DataType, right: pa.DataType, on: Any = "k") -> JoinSchema:
    return JoinSchema.resolve(pa.schema({"k": left}), pa.schema({"k": right}), on)


def covers(keeper: PromiseKeeper, told: Promises, number: int, side: Side, values: Any) -> Any:
    """Which rows of the other side can find no partner any more."""
    kind = keeper.schema.inputs[side.other].field("k").type
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["k"])
    predicate = keeper.watched.predicates[number]
    codes = predicate.encoder(side.other)(batch).codes
    return told.cover(side, number, *predicate.reach(side.other, codes)).tolist()


@pytest.mark.parametrize("side", Side)
def test_nan_and_infinity_are_keys_like_others(side: Side) -> None:
    name = side.name.lower()
    keeper = PromiseKeeper(joined(pa.float64(), pa.float64()), [wm.unique(name)])
    told = told_after(keeper, side, pa.array([NAN, -0.0, INF]))
    found = covers(keeper, told, 1, side, [NAN, 0.0, -0.0, INF, -INF, 1.0])
    assert found == [True, True, True, True, False, False]


@pytest.mark.parametrize("side", Side)
def test_nan_may_come_after_all_numbers_of_a_rising_band(side: Side) -> None:
    """A difference that is NaN is in every band without an upper end."""
    name = side.name.lower()
    schema = joined(pa.float64(), pa.float64(), [wm.band("k", low=-5.0)])
    keeper = PromiseKeeper(schema, [wm.ordered(name, "k")])
    told = told_after(keeper, side, pa.array([1e9]))
    if side is Side.RIGHT:  # a left row meets right values up to its own plus 5, and NaN
        assert covers(keeper, told, 0, side, [1.0]) == [False]
    both = joined(pa.float64(), pa.float64(), [wm.within("k", 5.0)])
    keeper = PromiseKeeper(both, [wm.ordered(name, "k")])
    told = told_after(keeper, side, pa.array([1e9]))
    assert covers(keeper, told, 0, side, [1.0, 1e9, 2e9]) == [True, False, False]


def test_falling_values_promise_nan_on_both_sides() -> None:
    for side in Side:
        schema = joined(pa.float64(), pa.float64(), [wm.band("k", low=0.0)])
        keeper = PromiseKeeper(schema, [wm.ordered(side.name.lower(), "k", False)])
        told = told_after(keeper, side, pa.array([7.0]))
        codec_nan = np.array([2**64 - 1 if side is Side.LEFT else 0], np.uint64)
        assert told.broken_by(side, 0, codec_nan).all()


@pytest.mark.parametrize(
    ("kind", "promised", "others"),
    [
        (pa.int64(), [LARGE + 2], [LARGE + 1, LARGE + 3]),
        (pa.decimal128(38, 18), [Decimal("0.1")], [Decimal("0.100000000000000001")]),
    ],
)
def test_values_that_doubles_round_are_not_promised_for_others(
    kind: pa.DataType, promised: list[Any], others: list[Any]
) -> None:
    keeper = PromiseKeeper(joined(kind, pa.float64()), [wm.unique("left")])
    told = told_after(keeper, Side.LEFT, pa.array(promised, kind))
    predicate = keeper.watched.predicates[1]
    batch = pa.RecordBatch.from_arrays([pa.array(others, kind)], names=["k"])
    assert not told.broken_by(Side.LEFT, 1, predicate.encoder(Side.LEFT)(batch).codes).any()


@pytest.mark.parametrize("slack", [None, 1, 3])
def test_an_order_of_large_numbers_that_are_compared_as_doubles_promises_less(slack: Any) -> None:
    for top in range(LARGE - 5, LARGE + 12):
        schema = joined(pa.int64(), pa.float64())
        keeper = PromiseKeeper(schema, [wm.ordered("left", "k", slack=slack)])
        told = told_after(keeper, Side.LEFT, pa.array([top]))
        still = pa.array(list(range(top - (slack or 0), top + 8)))
        batch = pa.RecordBatch.from_arrays([still], names=["k"])
        codes = keeper.watched.predicates[1].encoder(Side.LEFT)(batch).codes
        assert not told.broken_by(Side.LEFT, 1, codes).any()
        assert covers(keeper, told, 1, Side.LEFT, [float(top - 100)]) == [True]


def test_units_of_time_are_compared_as_the_join_does() -> None:
    schema = joined(pa.date32(), pa.timestamp("us"))
    keeper = PromiseKeeper(schema, [wm.ordered("left", "k", slack=2)])
    told = told_after(keeper, Side.LEFT, pa.array([10], pa.date32()))
    day = 86_400 * 10**6
    found = covers(keeper, told, 1, Side.LEFT, [day * 8 - 1, day * 8, day * 10])
    assert found == [True, False, False]


def test_several_key_columns_are_promised_together_by_their_hash() -> None:
    columns = pa.schema({"a": pa.int32(), "b": pa.int32()})
    schema = JoinSchema.resolve(columns, columns, ["a", "b"])
    keeper = PromiseKeeper(schema, [wm.unique("left")])
    batch = pa.RecordBatch.from_pydict({"a": [1, None], "b": [2, 2]}, columns)
    ((side, promise),) = keeper.take(Side.LEFT, batch).promises
    assert (side, promise.predicate) == (Side.LEFT, 0)
    codes = schema.encode(Side.RIGHT, batch).codes
    assert promise.ranges.tolist() == [[codes[0], codes[0]]]


def test_only_columns_that_promises_name_are_watched() -> None:
    columns = pa.schema({"a": pa.int32(), "b": pa.int32(), "t": pa.int64()})
    schema = JoinSchema.resolve(columns, columns, ["a", "b", wm.within("t", 5)])
    watched = Watched.of(schema, [wm.ordered("left", "b"), wm.ordered("right", "t")])
    assert [each.describe() for each in watched.predicates[1:]] == [
        ["b = b, in order"],
        ["t within 5"],
    ]
    assert len(Watched.of(schema, [wm.unique("left")]).predicates) == 1
