"""An aggregate over a join as the user put it, and with all its names resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.ask.specification import Aggregate, Aggregates, GroupColumn
from watersmeet.errors import InvalidArgument
from watersmeet.estimators.quantities import Quantity
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.factors import factored
from watersmeet.expressions.nodes import Logic, Node
from watersmeet.expressions.promotion import is_number
from watersmeet.expressions.scope import Scope
from watersmeet.model import JoinType, Side
from watersmeet.rows.on import near_of
from watersmeet.rows.schema import JoinSchema, On

Schemas = tuple[pa.Schema, pa.Schema]
Factors = tuple[Expression | None, Expression | None]


@dataclass(frozen=True)
class AggregateQuestion:
    """What is asked, before the inputs' columns are known."""

    on: On
    how: JoinType
    group_by: tuple[str, ...]
    where: str | None
    aggregates: Mapping[str, Aggregate]

    @classmethod
    def parse(
        cls,
        on: Any,
        how: str,
        *,
        group_by: str | Sequence[str] | None,
        where: str | None,
        aggregates: Mapping[str, Aggregate],
    ) -> AggregateQuestion:
        near = near_of(on)
        if near:
            raise InvalidArgument(
                f"on= has {', '.join(map(str, near))}, and aggregates are of joins on equal keys.",
                remedy="Beside equal keys, say it in where=, as in where='abs(t - u) <= 5'.",
            )
        if not isinstance(how, str):
            raise InvalidArgument(f"how={how!r} is no text.", remedy='Use for example "inner".')
        kind = JoinType.parse(how)
        if kind is JoinType.FULL:
            raise InvalidArgument(
                "A full join has no estimate before both sides are complete: whether a row stays "
                "alone is known only when all of the other side has been seen.",
                remedy="Ask for how='left' and how='right' apart, or use Spark's own aggregate.",
            )
        if group_by is None:
            group_by = ()
        groups = (group_by,) if isinstance(group_by, str) else group_by
        if not isinstance(groups, Sequence):
            raise InvalidArgument(
                f"group_by={group_by!r} names no columns.",
                remedy='Give a name or a list of names, as in group_by=["o_orderpriority"].',
            )
        return cls(on, kind, tuple(groups), where, aggregates)

    def resolve(self, schemas: Schemas) -> ResolvedQuestion:
        """Find everything that can be wrong with it. Columns that it does not need are left out."""
        whole = JoinSchema.resolve(*schemas, self.on)
        keys = [(key.left, key.right) for key in whole.keys]
        aggregates = Aggregates.parse(
            self.aggregates, self.group_by, schemas=schemas, keys=keys, how=self.how
        )
        sides, pairs = self._conditions(Scope.of(schemas, keys, self.how))
        needed: list[list[str]] = [[], []]
        for side in Side:
            needed[side] = [pair[side] for pair in keys]
            needed[side] += aggregates.columns(side)
            for condition in (*sides, pairs):
                if condition is not None:
                    needed[side] += condition.columns(side)
        narrow = [
            pa.schema([schemas[side].field(name) for name in dict.fromkeys(needed[side])])
            for side in Side
        ]
        resolved = ResolvedQuestion(
            schemas=(narrow[0], narrow[1]),
            keys=tuple(keys),
            how=self.how,
            aggregates=aggregates,
            sides=sides,
            pairs=pairs,
            words=self._words(keys),
        )
        resolved.check()
        return resolved

    def _words(self, keys: Sequence[tuple[str, str]]) -> str:
        """The question as one may say it."""
        asked = ", ".join(
            f"{name} = {aggregate.kind.value}({aggregate.expression or '*'})"
            for name, aggregate in self.aggregates.items()
        )
        by = f" by {', '.join(self.group_by)}" if self.group_by else ""
        on = " and ".join(left if left == right else f"{left} = {right}" for left, right in keys)
        where = f" where {self.where}" if self.where else ""
        return f"{asked}{by}, {self.how} join on {on}{where}"

    def _conditions(self, scope: Scope) -> tuple[Factors, Expression | None]:
        """`where` in three parts: what concerns one side alone, and what concerns pairs."""
        if self.where is None:
            return (None, None), None
        if not isinstance(self.where, str):
            raise InvalidArgument(
                f"where={self.where!r} is no text.",
                remedy="Write SQL, as in where=\"price > 10 AND day >= DATE '2026-01-01'\".",
            )
        condition = Expression.parse(self.where, scope)
        if not pt.is_boolean(condition.kind):
            raise InvalidArgument(
                f"where={self.where!r} is of type {condition.kind}, and neither true nor false.",
                remedy='Compare it with something, as in where="price > 10".',
            )
        parts: dict[Side | None, list[Node]] = {Side.LEFT: [], Side.RIGHT: [], None: []}
        for part in _conjuncts(condition.tree):
            sides = Expression(part).sides
            parts[next(iter(sides)) if len(sides) == 1 else None].append(part)
        left, right, both = (_all(parts[side]) for side in (Side.LEFT, Side.RIGHT, None))
        return (left, right), both


@dataclass(frozen=True)
class ResolvedQuestion:
    """A question that tasks can answer. Values only: it travels without a parser.

    `sides` are conditions on one input's rows, `pairs` is one on joined rows, `words` is all of it
    for a person to read.
    """

    schemas: Schemas
    keys: tuple[tuple[str, str], ...]
    how: JoinType
    aggregates: Aggregates
    sides: Factors
    pairs: Expression | None
    words: str = ""

    @cached_property
    def join(self) -> JoinSchema:
        return JoinSchema.resolve(*self.schemas, list(self.keys))

    @cached_property
    def factors(self) -> tuple[Factors | None, ...]:
        """Each expression as a product of a left and a right factor; None if it is no product."""
        return tuple(factored(expression) for expression in self.aggregates.expressions)

    @cached_property
    def needs_pairs(self) -> bool:
        """Whether rows of both sides must be seen together, not only sums over a key's rows."""
        return self.pairs is not None or any(each is None for each in self.factors)

    @property
    def quantities(self) -> list[Quantity]:
        return [Quantity(asked.kind, asked.expression) for asked in self.aggregates.asked]

    @cached_property
    def spreads(self) -> tuple[bool, ...]:
        """For which expressions squares are needed."""
        wanted = {asked.expression for asked in self.aggregates.asked if asked.kind.is_spread}
        return tuple(number in wanted for number in range(len(self.aggregates.expressions)))

    @property
    def moments(self) -> int:
        return 1 + 3 * len(self.aggregates.expressions)

    @property
    def ordered_alike(self) -> bool:
        """Whether ranges of the first key mean the same on both sides: days and times do not."""
        dates = [pt.is_date(self.schemas[side].field(self.keys[0][side]).type) for side in Side]
        return bool(dates[0] == dates[1])

    def names(self, side: Side) -> list[str]:
        return list(self.schemas[side].names)

    def groups(self, side: Side, *, sampled: Side) -> list[tuple[int, str]]:
        """The group columns that this side gives: place among all, and name."""
        return [
            (place, group.column)
            for place, group in enumerate(self.aggregates.groups)
            if (sampled if group.shared else group.side) is side
        ]

    def _takes_numbers(self, side: Side) -> bool:
        """Whether rows are looked at by column, and never as a whole."""
        join = self.join
        return not self.needs_pairs and join.codes_decide and join.inputs[side] == join.stored(side)

    def numbered(self, side: Side) -> frozenset[str]:
        """Columns of numbers and days that are a key, part of an expression, or of a condition that
        looks at one column at a time. They may come as numbers of values in a dictionary, as files
        have them."""
        if not self._takes_numbers(side):
            return frozenset()
        used = {group.column for group in self.aggregates.groups if side is group.side}
        used |= {pair[side] for pair in self.keys} if len(self.keys) > 1 else set()
        for part in self.conjuncts(side):
            columns = part.columns(side)
            used |= set(columns) if len(columns) > 1 else set()
        schema = self.schemas[side]
        return frozenset(
            field.name for field in schema if field.name not in used and _is_counted(field.type)
        )

    def conjuncts(self, side: Side) -> tuple[Expression, ...]:
        """Conditions on one side's rows that all must hold."""
        return self._conjuncts[side]

    @cached_property
    def _conjuncts(self) -> tuple[tuple[Expression, ...], ...]:
        return tuple(
            () if condition is None else tuple(map(Expression, _conjuncts(condition.tree)))
            for condition in self.sides
        )

    def labels(self, side: Side) -> frozenset[str]:
        """Columns of text of which only the group of each row is asked. They may come as numbers
        with a dictionary, as files have them."""
        if not self._takes_numbers(side):
            return frozenset()
        used = {pair[side] for pair in self.keys}
        for each in (*self.aggregates.expressions, *filter(None, self.sides)):
            used |= set(each.columns(side))
        return frozenset(
            group.column
            for group in self.aggregates.groups
            if group.side is side and group.column not in used and _is_text(self, group)
        )

    def check(self) -> None:
        """Refuse what an outer join cannot be asked."""
        if self.how is JoinType.INNER:
            return
        kept = Side.RIGHT if self.how is JoinType.RIGHT else Side.LEFT
        word = kept.other.name.lower()
        if self.sides[kept.other] is not None or self.pairs is not None:
            raise InvalidArgument(
                f"where= looks at the {word} side of a {self.how} join, whose rows without a "
                "partner have none.",
                remedy=f"Filter the {word} input itself, before the join.",
            )
        if self.how in (JoinType.SEMI, JoinType.ANTI):
            sides = {side for each in self.aggregates.expressions for side in each.sides}
            sides |= {group.side for group in self.aggregates.groups if not group.shared}
            if kept.other in sides:
                raise InvalidArgument(
                    f"A {self.how} join has no columns of the right side.",
                    remedy="Use columns of the left side, or how='inner'.",
                )

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again from the rest cannot travel.
        return {name: value for name, value in vars(self).items() if name not in _DERIVED}


_DERIVED = ("join", "factors", "needs_pairs", "spreads", "_conjuncts")


def _is_counted(kind: pa.DataType) -> bool:
    return bool(is_number(kind) or pt.is_date(kind))


def _is_text(question: ResolvedQuestion, group: GroupColumn) -> bool:
    kind = question.schemas[group.side].field(group.column).type
    return bool(pt.is_string(kind) or pt.is_binary(kind))


def _conjuncts(node: Node) -> list[Node]:
    if isinstance(node, Logic) and node.operator.upper() == "AND":
        return _conjuncts(node.left) + _conjuncts(node.right)
    return [node]


def _all(parts: Sequence[Node]) -> Expression | None:
    if not parts:
        return None
    tree = parts[0]
    for part in parts[1:]:
        tree = Logic("AND", tree, part, pa.bool_())
    return Expression(tree)
