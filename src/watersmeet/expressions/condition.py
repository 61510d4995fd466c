"""A join's condition in SQL: the same expressions that aggregates are written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import ConditionFailed, InvalidArgument
from watersmeet.expressions.evaluation import Evaluation
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.nodes import Node, columns_of
from watersmeet.expressions.numbers import ArithmeticFailed, Mask
from watersmeet.expressions.scope import Scope
from watersmeet.model import Side


@dataclass(frozen=True)
class SqlCondition:
    """A text over the columns of the result, such as `bid >= ask AND day < DATE '2026-01-01'`."""

    text: str

    def bind(self, schema: pa.Schema) -> BoundSqlCondition:
        expression = Expression.parse(self.text, Scope((schema, pa.schema([]))))
        if not pt.is_boolean(expression.kind):
            raise InvalidArgument(
                f"condition={self.text!r} is of type {expression.kind}, and neither true nor "
                "false.",
                remedy='Compare it with something, as in condition="bid >= ask".',
            )
        return BoundSqlCondition(expression)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class BoundSqlCondition:
    expression: Expression

    @property
    def names(self) -> Sequence[str]:
        return self.expression.columns(Side.LEFT)

    def holds(self, batch: pa.RecordBatch) -> Mask:
        return holds(self.expression.tree, batch)


def holds(tree: Node, batch: pa.RecordBatch) -> Mask:
    """For which rows a condition over the columns of a result is true."""
    columns = {(Side.LEFT, column.name): batch.column(column.name) for column in columns_of(tree)}
    try:
        found = Evaluation(columns).truth(tree).holds
    except ArithmeticFailed as error:
        raise ConditionFailed(
            f"The condition cannot be computed for a pair of rows: {error.cause}",
            remedy=error.remedy,
        ) from error
    # An answer that is the same for all rows is one value: IS NULL where no row is null.
    return np.broadcast_to(found, len(batch))
