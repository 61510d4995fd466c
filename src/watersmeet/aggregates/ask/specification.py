"""What is asked: named aggregates of expressions, by groups, checked before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.estimators.quantities import Kind
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.nodes import Column
from watersmeet.expressions.scope import Scope
from watersmeet.model import JoinType, Side
from watersmeet.rows.types import padding_of


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate as it is written: `sum("price * (1 - discount)")`. No expression: all rows."""

    kind: Kind
    expression: str | None = None


def count(expression: str | None = None) -> Aggregate:
    """How many joined rows there are, or for how many of them the expression is not null."""
    return Aggregate(Kind.COUNT, None if expression == "*" else expression)


def sum(expression: str) -> Aggregate:
    """The sum of an expression, as in `sum("price * (1 - discount)")`."""
    return Aggregate(Kind.SUM, expression)


def avg(expression: str) -> Aggregate:
    """The mean of an expression over the joined rows where it is not null."""
    return Aggregate(Kind.AVG, expression)


def variance(expression: str) -> Aggregate:
    """The sample variance, which divides by n - 1: SQL's `variance` and `var_samp`."""
    return Aggregate(Kind.VARIANCE, expression)


def var_pop(expression: str) -> Aggregate:
    """The variance of the joined rows as they are, which divides by n."""
    return Aggregate(Kind.VAR_POP, expression)


def stddev(expression: str) -> Aggregate:
    """The square root of the sample variance: SQL's `stddev` and `stddev_samp`."""
    return Aggregate(Kind.STDDEV, expression)


def stddev_pop(expression: str) -> Aggregate:
    """The square root of `var_pop`."""
    return Aggregate(Kind.STDDEV_POP, expression)


@dataclass(frozen=True, slots=True)
class Asked:
    """One column of the answer. `expression` is a position in `Aggregates.expressions`."""

    name: str
    kind: Kind
    expression: int | None


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A column to group by. A `shared` one is a key of one name, which both inputs have."""

    name: str
    side: Side
    column: str
    kind: pa.DataType
    shared: bool


@dataclass(frozen=True)
class Aggregates:
    """A question whose names are resolved: equal expressions stand once in `expressions`."""

    asked: tuple[Asked, ...]
    expressions: tuple[Expression, ...]
    groups: tuple[GroupColumn, ...]

    @classmethod
    def parse(
        cls,
        aggregates: Mapping[str, Aggregate],
        group_by: str | Sequence[str] = (),
        *,
        schemas: tuple[pa.Schema, pa.Schema],
        keys: Sequence[tuple[str, str]],
        how: JoinType = JoinType.INNER,
    ) -> Aggregates:
        """Find everything that can be wrong with the question. `keys` are pairs of column names.

        >>> orders = pa.schema({"id": pa.int64(), "priority": pa.string()})
        >>> items = pa.schema({"id": pa.int64(), "price": pa.decimal128(9, 2)})
        >>> asked = {"revenue": sum("price"), "mean": avg("price"), "n": count()}
        >>> question = Aggregates.parse(
        ...     asked, "priority", schemas=(orders, items), keys=[("id", "id")]
        ... )
        >>> [column.expression for column in question.asked], len(question.expressions)
        ([0, 0, None], 1)
        """
        if not aggregates:
            raise InvalidArgument(
                "There is no aggregate.", remedy='Name one, as in revenue=wm.sum("price").'
            )
        scope = Scope.of(schemas, tuple((left, right) for left, right in keys), how)
        groups = _groups(group_by, scope)
        numbered: dict[Expression, int] = {}
        asked = []
        for name, aggregate in aggregates.items():
            _check(name, aggregate, groups)
            expression = _expression(name, aggregate, scope)
            number = None
            if expression is not None:
                number = numbered.setdefault(expression, len(numbered))
            asked.append(Asked(name, aggregate.kind, number))
        _check_columns([each.name for each in asked], groups)
        return cls(tuple(asked), tuple(numbered), groups)

    def columns(self, side: Side) -> tuple[str, ...]:
        """The columns of one input that the answer needs, keys not counted."""
        names = [group.column for group in self.groups if group.side is side]
        for expression in self.expressions:
            names.extend(expression.columns(side))
        return tuple(dict.fromkeys(names))


def _check(name: str, aggregate: object, groups: Sequence[GroupColumn]) -> None:
    if not isinstance(aggregate, Aggregate):
        raise InvalidArgument(
            f"{name}={aggregate!r} is no aggregate.",
            remedy=f'Write {name}=wm.sum("price"), or wm.count(), wm.avg, wm.variance, '
            "wm.var_pop, wm.stddev, wm.stddev_pop.",
        )
    if any(group.name.lower() == name.lower() for group in groups):
        raise InvalidArgument(
            f"{name!r} names both an aggregate and a column to group by.",
            remedy="Give the aggregate another name.",
        )


def _check_columns(names: Sequence[str], groups: Sequence[GroupColumn]) -> None:
    """An estimate has the ends of its interval beside it, under names made of its own."""
    taken = [*names, *(group.name for group in groups)]
    for name in names:
        for ending in ("low", "high", "trusted"):
            if f"{name}_{ending}" in taken:
                raise InvalidArgument(
                    f"{name}_{ending} is asked for, and is also the column beside {name} that says "
                    "how sure an estimate is.",
                    remedy=f"Give {name} or {name}_{ending} another name.",
                )


def _expression(name: str, aggregate: Aggregate, scope: Scope) -> Expression | None:
    text = aggregate.expression
    if text is None and aggregate.kind is Kind.COUNT:
        return None
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(
            f"The expression of {name} is {text!r}.",
            remedy='Give SQL text over column names, as in wm.sum("price * (1 - discount)").',
        )
    expression = Expression.parse(text, scope)
    if aggregate.kind is not Kind.COUNT and not expression.is_numeric:
        raise SchemaError(
            f"{name} is the {aggregate.kind.value} of {text!r}, which is of type "
            f"{expression.kind} and no number.",
            remedy="Use a numeric column, or count it.",
        )
    return expression


def _groups(group_by: object, scope: Scope) -> tuple[GroupColumn, ...]:
    names = [group_by] if isinstance(group_by, str) else group_by
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(
            f"group_by={group_by!r} names no columns.",
            remedy='Give a name or a list of names, as in group_by=["o_orderpriority"].',
        )
    groups = _named([_group(name, scope) for name in names])
    shown = [group.name.lower() for group in groups]
    twice = {name for name in shown if shown.count(name) > 1}
    if twice:
        raise InvalidArgument(
            f"group_by has {', '.join(sorted(twice))} twice.", remedy="Name each column once."
        )
    return tuple(groups)


def _named(groups: list[GroupColumn]) -> list[GroupColumn]:
    """Columns of both inputs that have one name are told apart as they are written."""
    names = [group.name.lower() for group in groups]
    return [
        group
        if names.count(group.name.lower()) == 1
        else replace(group, name=f"{group.side.name.lower()}.{group.column}")
        for group in groups
    ]


def _group(name: str, scope: Scope) -> GroupColumn:
    column = _find(name, scope)
    if not _can_group(column.kind):
        raise SchemaError(
            f"group_by has {name!r}, which is of type {column.kind}: rows are grouped by single "
            "values only.",
            remedy="Group by a field of it that has been made a column of its own, or by a text "
            "made of it.",
        )
    # Keys that are padded before they are compared are equal and not the same.
    shared = any(pair == (column.name, column.name) for pair in scope.keys) and not any(
        padding_of(schema.field(column.name)) for schema in scope.schemas
    )
    return GroupColumn(column.name, column.side, column.name, column.kind, shared)


def _can_group(kind: pa.DataType) -> bool:
    """Neither structs nor lists nor maps, nor intervals of several units."""
    single = (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal128, pt.is_date,
              pt.is_time, pt.is_timestamp, pt.is_duration, pt.is_string, pt.is_binary,
              pt.is_large_binary, pt.is_fixed_size_binary, pt.is_null)  # fmt: skip
    return any(test(kind) for test in single)


def _find(name: str, scope: Scope) -> Column:
    """A column by its name; `left.x` is the left input's x unless a column is called that."""
    qualifier, dot, rest = name.partition(".")
    known = any(name in schema.names for schema in scope.schemas)
    if dot and not known and qualifier.lower() in ("left", "right"):
        return scope.column(rest, qualifier=qualifier)
    return scope.column(name)
