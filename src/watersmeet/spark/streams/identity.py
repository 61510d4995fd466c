"""Whose state is this? What may not change while a stream join goes on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.hypercube import Cube
from watersmeet.spark.streams.plan import stream_router
from watersmeet.spark.streams.state import FORMAT, Manifest


@dataclass(frozen=True)
class Identity:
    """The query and the parameters that a state is made by. Memory and patience are not among
    them, nor are ends and ticks."""

    query: str | None
    """None before the query has started."""
    parameters: dict[str, Any]

    @classmethod
    def of(
        cls,
        join: JoinSchema,
        question: Question | ManyQuestion,
        *,
        instances: int,
        cube: Cube | None = None,
        query: str | None = None,
    ) -> Identity:
        if isinstance(question, ManyQuestion):
            return cls(query, _of_many(join, question, instances=instances, cube=cube))
        return cls(query, _of_two(join, question, instances=instances))

    def describe(self) -> Manifest:
        return {
            "format": FORMAT,
            "package": _package(),
            "query": self.query,
            "parameters": self.parameters,
        }

    def check(self, manifest: Manifest) -> None:
        """Refuse a state that something else has made."""
        if manifest.get("format") != FORMAT:
            raise StateError(
                f"The state has format {manifest.get('format')!r}, written by watersmeet "
                f"{manifest.get('package')}; this version reads {FORMAT}.",
                remedy="Go on with the version that wrote it, or begin anew with an empty state "
                "and a new checkpoint.",
            )
        for name, value in self.parameters.items():
            if manifest["parameters"].get(name) != value:
                raise StateError(
                    f"The state was made with {name}={manifest['parameters'].get(name)!r}, "
                    f"not {value!r}.",
                    remedy="Go on with the same parameters, or begin anew with an empty state and "
                    "a new checkpoint.",
                )
        if self.query is not None and manifest["query"] != self.query:
            raise another_query(manifest["query"], self.query)


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
        "left": _columns(join.left),
        "right": _columns(join.right),
        "condition": _named(question.condition),
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
            f"columns of {name}": _columns(schema)
            for name, schema in zip(question.names, join.inputs, strict=True)
        },
        "condition": _named(question.condition),
    }


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name}: {field.type}" for field in schema]


def another_query(owner: str, query: str) -> StateError:
    return StateError(
        f"The state belongs to query {owner}, and this is {query}.",
        remedy="Give each query a state of its own. To begin anew, with a new checkpoint, use an "
        "empty state too.",
    )


@cache
def _package() -> str:
    return version("watersmeet")


def _named(condition: object) -> str | None:
    """A condition as text. A function is known by its name only."""
    if condition is None:
        return None
    return getattr(condition, "__qualname__", None) or str(condition)
