"""Asks and settles a join of many DataFrames: names of columns, and how Spark compares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from watersmeet.errors import InvalidArgument
from watersmeet.expressions.condition import SqlCondition
from watersmeet.operators.many import ManyQuestion
from watersmeet.rows.bands import Band
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import Equal, KeyNames
from watersmeet.spark.keys import column_name, compared

OnMany = str | tuple[str, str] | Band | Sequence[str | tuple[str, str] | Band]
"""What relations are joined on."""


def asked_many(
    names: Sequence[Any],
    on: OnMany,
    *,
    algorithm: str,
    condition: ConditionLike | Column | str | None,
) -> ManyQuestion:
    """The question of a join of named DataFrames, checked as far as possible without them."""
    if isinstance(condition, Column):
        raise InvalidArgument(
            "condition is a Column, and columns of the result have no DataFrame yet.",
            remedy='Give it as text over the columns of the result, as in "price < limit".',
        )
    return ManyQuestion.parse(
        names,
        on,
        algorithm=algorithm,
        condition=SqlCondition(condition) if isinstance(condition, str) else condition,
    )


def settled_many(
    frames: Sequence[DataFrame], schemas: Sequence[pa.Schema], question: ManyQuestion
) -> tuple[ManyQuestion, tuple[pa.Schema, ...]]:
    """The question with names as Spark has them. Metadata in the schemas says which texts are
    padded before they are compared."""
    found = list(schemas)
    predicates: list[Equal | Band] = []
    for each in question.predicates:
        mine, other = each.ends
        pair = (frames[mine], frames[other])
        words = (question.names[mine], question.names[other])
        if isinstance(each, Band):
            left, right = (
                column_name(frame, name, word=word)
                for frame, name, word in zip(pair, (each.left, each.right), words, strict=True)
            )
            predicates.append(replace(each, left=left, right=right))
            continue
        keys = []
        for key in each.keys:
            left, right = (
                column_name(frame, name, word=word)
                for frame, name, word in zip(pair, (key.left, key.right), words, strict=True)
            )
            keys.append(KeyNames(left, right, left == right))
        found[mine], found[other] = compared(pair, keys, (found[mine], found[other]))
        predicates.append(replace(each, keys=tuple(keys)))
    return replace(question, predicates=tuple(predicates)), tuple(found)
