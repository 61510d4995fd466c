"""The arguments of a join, checked as far as possible before a row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import (
    ALGORITHMS,
    ENRICHING,
    MANY_INPUTS,
    check_predicates,
    find_algorithm,
)
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import On, check_name, key_names, name_of, near_of
from watersmeet.rows.schema import JoinSchema

# What `auto` is for equal keys, and for bands and intervals.
_AUTO, _AUTO_BANDS = "rpj", "diner"


@dataclass(frozen=True)
class Question:
    """The arguments of a join. `auto`: the user left the choice of the algorithm to us."""

    on: On
    how: JoinType
    algorithm: str
    auto: bool
    condition: ConditionLike | None
    suffixes: tuple[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """What the inputs are called."""
        return tuple(name_of(side) for side in Side)

    @property
    def has_keys(self) -> bool:
        """Whether some columns must be equal."""
        return bool(key_names(self.on))

    @classmethod
    def parse(
        cls,
        on: Any,
        how: str,
        *,
        algorithm: str,
        condition: ConditionLike | None,
        suffixes: tuple[str, str],
    ) -> Question:
        check_text(how, "how", example="inner")
        check_text(algorithm, "algorithm", example="auto, " + ", ".join(ALGORITHMS))
        auto = algorithm.lower() == "auto"
        if algorithm.lower() in MANY_INPUTS:
            raise InvalidArgument(
                f"algorithm={algorithm!r} joins many inputs.",
                remedy="Call join_many, or use diner, which does the same for two inputs.",
            )
        if algorithm.lower() in ENRICHING:
            raise InvalidArgument(
                f"algorithm={algorithm!r} joins a stream with a master table.",
                remedy="Call enrich, or use auto, which joins two tables or streams.",
            )
        return cls(
            on=on,
            how=JoinType.parse(how),
            algorithm=find_algorithm(_chosen(on) if auto else algorithm).name,
            auto=auto,
            condition=condition,
            suffixes=parse_suffixes(suffixes),
        )

    def check(self, left: pa.Schema | None, right: pa.Schema | None) -> JoinSchema | None:
        """Resolve the join if the columns of both inputs are known; else check those that are."""
        if left is not None and right is not None:
            return self.resolve(left, right)
        for side, schema in zip(Side, (left, right), strict=True):
            if schema is not None:
                self._check_columns(side, schema)
        return None

    def resolve(self, left: pa.Schema, right: pa.Schema) -> JoinSchema:
        schema = JoinSchema.resolve(
            left, right, self.on, self.how, suffixes=self.suffixes, condition=self.condition
        )
        check_predicates(self.algorithm, schema)
        return schema

    def _check_columns(self, side: Side, schema: pa.Schema) -> None:
        for names in key_names(self.on):
            check_name(names.of(side), schema.names, side)
        for each in near_of(self.on):
            for name in each.columns_of(side):
                check_name(name, schema.names, side)


def _chosen(on: Any) -> str:
    return _AUTO_BANDS if near_of(on) else _AUTO


def parse_suffixes(suffixes: Any) -> tuple[str, str]:
    """What is appended to a name that both inputs have."""
    if not (isinstance(suffixes, tuple | list) and len(suffixes) == 2):
        raise InvalidArgument(
            f"suffixes={suffixes!r} is no pair.", remedy='Give two texts, as in ("", "_right").'
        )
    for suffix in suffixes:
        check_text(suffix, "suffixes", example='("", "_right")')
    return suffixes[0], suffixes[1]


def check_text(value: object, name: str, *, example: str) -> None:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}={value!r} is no text.", remedy=f"Use for example {example}.")
