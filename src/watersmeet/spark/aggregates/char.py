"""CHAR(n) columns in expressions: Spark pads what they are compared with, and we do not."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import StructField

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.errors import SchemaError
from watersmeet.expressions.nodes import Column, Compare, Node, children
from watersmeet.spark.keys import Frames

_SPARK_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


def check_char_columns(frames: Frames, question: ResolvedQuestion) -> None:
    """Refuse a comparison with a CHAR column, whose answer would not be Spark's."""
    conditions = [each for each in (*question.sides, question.pairs) if each is not None]
    for expression in (*conditions, *question.aggregates.expressions):
        for column in _compared(expression.tree):
            field = frames[column.side].schema[column.name]
            if is_char(field):
                raise SchemaError(
                    f"Column {column.name!r} is {field.metadata[_SPARK_TYPE]}, and Spark pads what "
                    "it is compared with.",
                    remedy=f"Filter the {column.side.name.lower()} DataFrame itself, with where(), "
                    "or cast the column to string.",
                )


def is_char(field: StructField) -> bool:
    return str(field.metadata.get(_SPARK_TYPE, "")).startswith("char(")


def _compared(node: Node) -> Iterator[Column]:
    for child in children(node):
        if isinstance(node, Compare) and isinstance(child, Column):
            yield child
        yield from _compared(child)
