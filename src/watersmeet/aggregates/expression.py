"""SQL arithmetic over the columns of a join, with the types and values Spark would give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.evaluation import Evaluation
from watersmeet.aggregates.nodes import Node, columns_of
from watersmeet.aggregates.numbers import Numbers
from watersmeet.aggregates.parsing import parse
from watersmeet.aggregates.promotion import is_number
from watersmeet.aggregates.scope import Scope
from watersmeet.model import Side

Columns = Mapping[tuple[Side, str], pa.Array]


@dataclass(frozen=True)
class Expression:
    """A resolved expression; equal trees are equal expressions, however they were spelled.

    >>> items = pa.schema({"price": pa.decimal128(15, 2), "discount": pa.decimal128(15, 2)})
    >>> expression = Expression.parse("price * (1 - discount)", Scope((items, pa.schema([]))))
    >>> expression.kind, expression.sides
    (Decimal128Type(decimal128(32, 4)), frozenset({<Side.LEFT: 0>}))
    """

    tree: Node

    @classmethod
    def parse(cls, text: str, scope: Scope) -> Expression:
        tree = parse(text, scope)
        sides = {column.side for column in columns_of(tree)}
        if len(sides) == 2:
            # A key of one name is in both inputs: from the right, it may leave one side alone.
            other = parse(text, Scope(scope.schemas, scope.keys, scope.preferred.other))
            if len({column.side for column in columns_of(other)}) == 1 and other.kind == tree.kind:
                return cls(other)
        return cls(tree)

    @property
    def kind(self) -> pa.DataType:
        """The type of its values in Spark."""
        return self.tree.kind

    @property
    def sides(self) -> frozenset[Side]:
        return frozenset(column.side for column in columns_of(self.tree))

    @property
    def is_numeric(self) -> bool:
        return is_number(self.kind)

    def columns(self, side: Side) -> tuple[str, ...]:
        """The columns of one input that it looks at, in the order they are written."""
        names = [column.name for column in columns_of(self.tree) if column.side is side]
        return tuple(dict.fromkeys(names))

    def evaluate(self, columns: Columns, rows: int) -> Numbers:
        """Its value for each of `rows` rows (or gathered pairs): int64, float64 or, where 64 bits
        are not proven to be enough, Python integers. Zero where it is null. What is no number,
        and can only be counted, is zero or null; conditions are one or zero."""
        evaluation = Evaluation(columns)
        if self.is_numeric or pt.is_boolean(self.kind):
            result = evaluation.numbers(self.tree).spread(rows)
            if result.exact:
                return result
            return Numbers(result.values.astype(np.float64, copy=False), result.valid)
        nothing = np.asarray(0, np.int64)
        return Numbers(nothing, evaluation.valid(self.tree)).spread(rows)
