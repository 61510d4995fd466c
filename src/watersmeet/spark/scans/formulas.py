"""What is computed of a table's rows, by our own arithmetic: columns, and which rows are kept.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.expressions.evaluation import Evaluation
from watersmeet.expressions.failing import can_fail
from watersmeet.expressions.nodes import Logic, Node, columns_of, conjuncts
from watersmeet.expressions.numbers import ArithmeticFailed, Mask
from watersmeet.model import Side


@dataclass(frozen=True)
class Computed:
    """A column that is computed from columns of the table, and how Spark writes it."""

    text: str
    tree: Node

    @property
    def names(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset(column.name for column in columns_of(self.tree))

    def of(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        given = {(Side.LEFT, name): columns[name] for name in self.names}
        try:
            found = Evaluation(given).values(self.tree)
        except ArithmeticFailed as error:
            raise _failed(self.text, error) from None
        return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found


def _failed(text: str, error: ArithmeticFailed) -> ArithmeticFailed:
    """Spark's own computation of the DataFrame fails for the same row."""
    return ArithmeticFailed(f"{text} cannot be computed. {error.cause}", remedy=error.remedy)


@dataclass(frozen=True)
class Filter:
    """A condition over columns of the table, and how Spark writes it."""

    text: str
    condition: Node

    @property
    def conjuncts(self) -> tuple[Filter, ...]:
        """The parts that must all be true for a row to be kept."""
        return tuple(Filter(self.text, part) for part in conjuncts(self.condition))

    @property
    def names(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset(column.name for column in columns_of(self.condition))

    def and_then(self, other: Filter) -> Filter:
        both = Logic("AND", self.condition, other.condition, pa.bool_())
        return Filter(f"{self.text} AND {other.text}", both)

    @property
    def can_fail(self) -> bool:
        """Whether there are values for which Spark raises an error."""
        return can_fail(self.condition)

    def mask(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """True for each row that is kept."""
        given = {(Side.LEFT, name): columns[name] for name in self.names}
        rows = len(next(iter(given.values())))
        evaluation = Evaluation(given)
        if not self.can_fail:
            found = evaluation.truth(self.condition).answer
            # An answer that is the same for all rows is one value: IS NULL where no row is null.
            return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found
        # Spark looks at a part only where those before it are true: not where they are null.
        kept: Mask | None = None
        try:
            for part in conjuncts(self.condition):
                holds = evaluation.truth(part, kept).holds
                kept = np.broadcast_to(holds if kept is None else kept & holds, rows)
        except ArithmeticFailed as error:
            raise _failed(self.text, error) from None
        return pa.array(kept)
