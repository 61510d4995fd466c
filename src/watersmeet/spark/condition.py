"""A join's condition, translated from Spark's, which tasks compute without pyspark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.expressions.condition import holds
from watersmeet.expressions.nodes import Node, columns_of
from watersmeet.rows.condition import BoundCondition
from watersmeet.rows.leaves import Mask


@dataclass(frozen=True)
class TranslatedCondition:
    """A condition over columns of the result; it can be pickled and sent to tasks."""

    text: str
    tree: Node

    @property
    def names(self) -> tuple[str, ...]:
        """The result's columns that it reads."""
        return tuple(dict.fromkeys(column.name for column in columns_of(self.tree)))

    def bind(self, schema: pa.Schema) -> BoundCondition:
        return self

    def holds(self, batch: pa.RecordBatch) -> Mask:
        return holds(self.tree, batch)

    def __str__(self) -> str:
        return self.text
