"""The parameters that the state of a join of streams is made by."""

from __future__ import annotations

from typing import Any

from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.hypercube import Cube
from watersmeet.spark.microbatches.identity import columns_of, condition_words
from watersmeet.spark.streams.promised import Promised
from watersmeet.spark.streams.routing import stream_router


def parameters_of(
    join: JoinSchema,
    question: Question | ManyQuestion,
    *,
    instances: int,
    cube: Cube | None,
    promised: Promised | None = None,
) -> dict[str, Any]:
    if isinstance(question, ManyQuestion):
        return _of_many(join, question, instances=instances, cube=cube)
    promises = {} if promised is None else promised.parameters()
    return _of_two(join, question, instances=instances) | promises


def _of_two(join: JoinSchema, question: Question, *, instances: int) -> dict[str, Any]:
    # Rows with keys go to instances by one rule in all versions of this package.
    router = None if join.keys else stream_router(join, instances=instances, cube=None)
    return {
        "on": [[key.left, key.right] for key in join.keys],
        **({"bands": list(join.bands)} if join.bands else {}),
        **({"routing": router.rule} if router else {}),
        "how": str(join.how),
        "algorithm": question.algorithm,
        "instances": instances,
        "left": columns_of(join.left),
        "right": columns_of(join.right),
        "condition": condition_words(question.condition),
        "suffixes": list(question.suffixes),
    }


def _of_many(
    join: JoinSchema, question: ManyQuestion, *, instances: int, cube: Cube | None
) -> dict[str, Any]:
    return {
        "relations": list(question.names),
        "on": question.on,
        "algorithm": question.algorithm,
        "instances": instances,
        "routing": stream_router(join, instances=instances, cube=cube).rule,
        **{
            f"columns of {name}": columns_of(schema)
            for name, schema in zip(question.names, join.inputs, strict=True)
        },
        "condition": condition_words(question.condition),
    }
