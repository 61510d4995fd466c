"""Whose state is this? What may not change while a join in micro-batches goes on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.spark.microbatches.state import FORMAT, Manifest


@dataclass(frozen=True)
class Identity:
    """The query and the parameters that a state is made by. Memory and patience are not among
    them, nor are ends and ticks."""

    query: str | None
    """None before the query has started."""
    parameters: dict[str, Any]

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


def columns_of(schema: pa.Schema) -> list[str]:
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


def condition_words(condition: object) -> str | None:
    """A condition as text. A function is known by its name only."""
    if condition is None:
        return None
    return getattr(condition, "__qualname__", None) or str(condition)
