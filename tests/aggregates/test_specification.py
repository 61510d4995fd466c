"""A question is resolved, or refused with what is wrong and what to write instead."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import watersmeet.aggregates.ask.specification as wm
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.estimators.quantities import Kind
from watersmeet.model import Side

ORDERS = pa.schema(
    {
        "id": pa.int64(),
        "priority": pa.dictionary(pa.int8(), pa.string()),
        "comment": pa.string(),
        "day": pa.date32(),
        "total": pa.decimal128(12, 2),
        "wide": pa.decimal128(38, 10),
    }
)
ITEMS = pa.schema(
    {
        "id": pa.int64(),
        "price": pa.decimal128(15, 2),
        "discount": pa.decimal128(15, 2),
        "comment": pa.string(),
        "rate": pa.float64(),
        "wide": pa.decimal128(38, 10),
        "left.odd": pa.int32(),
        "huge": pa.decimal256(50, 2),
    }
)


def parsed(group_by: Any = (), **aggregates: Any) -> wm.Aggregates:
    return wm.Aggregates.parse(aggregates, group_by, schemas=(ORDERS, ITEMS), keys=[("id", "id")])


def test_equal_expressions_are_numbered_once() -> None:
    question = parsed(
        ["priority", "day"],
        revenue=wm.sum("price * (1 - discount)"),
        n=wm.count(),
        mean=wm.avg("PRICE*(1-right.discount)"),
        rows=wm.count("*"),
        days=wm.count("day"),
        spread=wm.stddev("rate * total"),
    )
    assert [(a.name, a.kind, a.expression) for a in question.asked] == [
        ("revenue", Kind.SUM, 0),
        ("n", Kind.COUNT, None),
        ("mean", Kind.AVG, 0),
        ("rows", Kind.COUNT, None),
        ("days", Kind.COUNT, 1),
        ("spread", Kind.STDDEV, 2),
    ]
    assert [e.sides for e in question.expressions] == [{Side.RIGHT}, {Side.LEFT}, set(Side)]
    assert [(g.side, g.column, g.kind, g.shared) for g in question.groups] == [
        (Side.LEFT, "priority", pa.string(), False),
        (Side.LEFT, "day", pa.date32(), False),
    ]
    assert question.columns(Side.LEFT) == ("priority", "day", "total")
    assert question.columns(Side.RIGHT) == ("price", "discount", "rate")
    # It travels to workers.
    assert pickle.loads(pickle.dumps(question)) == question


def test_every_aggregate_has_its_kind() -> None:
    made = [wm.sum, wm.avg, wm.variance, wm.var_pop, wm.stddev, wm.stddev_pop, wm.count]
    kinds = [make("price").kind for make in made]
    assert [kind.name for kind in kinds] == [make.__name__.upper() for make in made]


def test_a_key_of_one_name_goes_with_the_other_columns() -> None:
    question = parsed(["id", "left.comment"], x=wm.sum("id * price"), y=wm.sum("id + total"))
    assert [expression.sides for expression in question.expressions] == [{Side.RIGHT}, {Side.LEFT}]
    assert [(g.name, g.side, g.shared) for g in question.groups] == [
        ("id", Side.LEFT, True),
        ("comment", Side.LEFT, False),
    ]
    both = parsed(["left.comment", "right.comment", "day"], n=wm.count()).groups
    assert [group.name for group in both] == ["left.comment", "right.comment", "day"]
    assert parsed("left.odd", n=wm.count()).groups[0].side is Side.RIGHT


@pytest.mark.parametrize(
    ("group_by", "aggregate", "error", "text"),
    [
        ((), None, InvalidArgument, "no aggregate"),
        ((), "sum(price)", InvalidArgument, "is no aggregate"),
        ((), wm.sum("cost"), SchemaError, "has a column 'cost'.*price, discount"),
        ((), wm.sum("right.total"), SchemaError, "no column 'right.total'.*priority"),
        ((), wm.sum("orders.total"), SchemaError, "neither input"),
        ((), wm.sum("a.b.c"), InvalidArgument, "Add it as a column"),
        ((), wm.count("comment"), SchemaError, "left.comment or right.comment"),
        ((), wm.sum("wide"), SchemaError, "left.wide or right.wide"),
        ((), wm.sum("priority"), SchemaError, "'priority'.*string and no number"),
        ((), wm.avg("left.comment"), SchemaError, "count it"),
        ((), wm.avg("day"), SchemaError, "date32"),
        ((), wm.sum("price > 3"), SchemaError, "bool"),
        ((), wm.sum("price + priority"), SchemaError, "needs a number"),
        ((), wm.sum("null + 1"), SchemaError, "needs a number"),
        ((), wm.sum("if(price, 1, 2)"), SchemaError, "a condition is needed"),
        ((), wm.sum("if(day > 3, 1, 2)"), SchemaError, "compares date32.*with int32"),
        ((), wm.sum("if(priority = 3, 1, 2)"), SchemaError, "compares string with int32"),
        ((), wm.sum("if(price > 3, 'a', 2)"), SchemaError, "string, int32.*numbers"),
        ((), wm.sum("if(day > 'today', 1, 2)"), InvalidArgument, "'today' is no date"),
        ((), wm.sum("sqrt(price)"), InvalidArgument, "'SQRT.price.'.*Add it as a column"),
        ((), wm.sum("my_function(price)"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("sum(price)"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("(select 1)"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("price as p"), InvalidArgument, "no SQL expression"),
        ((), wm.sum("select 1"), InvalidArgument, "no SQL expression"),
        ((), wm.sum("price; total"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("try_cast(price as int)"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("cast(rate as decimal(9, 2))"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("cast(priority as int)"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("cast(price as decimal(40, 2))"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("price in (select 1)"), InvalidArgument, "Add it as a column"),
        ((), wm.sum("2L * cast(price as int)"), InvalidArgument, "without its suffix"),
        ((), wm.sum("price +"), InvalidArgument, "no SQL expression"),
        ((), wm.sum("price 3"), InvalidArgument, "no SQL expression"),
        ((), wm.sum("'abc"), InvalidArgument, "no SQL expression"),
        ((), wm.sum(""), InvalidArgument, "expression of n is ''"),
        ((), wm.sum(3), InvalidArgument, "expression of n is 3"),  # type: ignore[arg-type]
        ((), wm.Aggregate(Kind.SUM), InvalidArgument, "expression of n is None"),
        ((), wm.sum("left.wide * right.wide"), SchemaError, "needs 77 digits"),
        ((), wm.sum("1" * 40), InvalidArgument, "more than 38 digits"),
        (["cost"], wm.count(), SchemaError, "has a column 'cost'"),
        (["comment"], wm.count(), SchemaError, "left.comment or right.comment"),
        (["priority", "PRIORITY"], wm.count(), InvalidArgument, "priority twice"),
        ((), wm.sum("huge"), SchemaError, "decimal256.*at most 38"),
        (3, wm.count(), InvalidArgument, "group_by=3"),
        ([3], wm.count(), InvalidArgument, "group_by="),
    ],
)
def test_what_is_refused(group_by: Any, aggregate: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        parsed(group_by) if aggregate is None else parsed(group_by, n=aggregate)


def test_an_aggregate_is_not_called_like_its_group() -> None:
    with pytest.raises(InvalidArgument, match="another name"):
        parsed("priority", Priority=wm.count())
