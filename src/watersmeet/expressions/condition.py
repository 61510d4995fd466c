"""A join's condition in SQL: the same expressions that aggregates are written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.numbers import Mask
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
        columns = {(Side.LEFT, name): batch.column(name) for name in self.names}
        found = self.expression.evaluate(columns, len(batch))
        holds: Mask = np.asarray(found.values, np.bool_)
        return holds if found.valid is None else np.asarray(holds & found.valid)
