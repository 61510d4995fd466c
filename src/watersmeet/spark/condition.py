"""A join's condition that came from Spark, as tasks compute it, without pyspark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.rows.condition import BoundCondition
from watersmeet.rows.leaves import Mask
from watersmeet.spark.scans import predicates


@dataclass(frozen=True)
class TranslatedCondition:
    """A condition over columns of the result. A value that can be sent to tasks."""

    text: str
    tree: predicates.Expression
    names: tuple[str, ...]
    """The result's columns that it looks at, in the order of the tree's positions."""

    def bind(self, schema: pa.Schema) -> BoundCondition:
        return self

    def holds(self, batch: pa.RecordBatch) -> Mask:
        answer = self.tree.evaluate([batch.column(name) for name in self.names])
        mask: Mask = answer.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def __str__(self) -> str:
        return self.text
