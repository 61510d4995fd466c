"""The arguments of an enrichment, checked as far as possible before a row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import ENRICHING, find_enricher
from watersmeet.operators.question import check_text, parse_suffixes
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import On, check_column, key_names, near_of
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.spans import parse_seconds

_TYPES = (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI)

STREAM, MASTER = Side


@dataclass(frozen=True)
class EnrichQuestion:
    """The arguments of a join of a stream with a master table. `auto`: the user left the choice of
    the algorithm to us."""

    on: On
    how: JoinType
    algorithm: str
    auto: bool
    condition: ConditionLike | None
    suffixes: tuple[str, str]
    version_column: str | None
    """The column of the result that says which version of the master a row met."""
    deadline: float | None
    """Seconds that a row without a partner waits for newer versions."""

    names = ("stream", "master")
    """What the inputs are called."""

    @classmethod
    def parse(
        cls,
        on: Any,
        how: str,
        *,
        algorithm: str,
        condition: ConditionLike | None,
        suffixes: tuple[str, str],
        version_column: str | None,
        deadline: Any,
    ) -> EnrichQuestion:
        check_text(how, "how", example="inner")
        check_text(algorithm, "algorithm", example="auto, " + ", ".join(ENRICHING))
        if version_column is not None:
            check_text(version_column, "version_column", example="master_version")
        return cls(
            on=_equal(on),
            how=_parse_how(how),
            algorithm=find_enricher(algorithm).name,
            auto=algorithm.lower() == "auto",
            condition=condition,
            suffixes=parse_suffixes(suffixes),
            version_column=version_column,
            deadline=None if deadline is None else parse_seconds(deadline, name="deadline"),
        )

    def check(self, stream: pa.Schema | None, master: pa.Schema | None) -> JoinSchema | None:
        """Resolve the join if the columns of both inputs are known; else check those that are."""
        keys = key_names(self.on)
        for side, schema in zip(Side, (stream, master), strict=True):
            if schema is not None:
                for names in keys:
                    check_column(names.of(side), schema.names, self.names[side])
        return None if stream is None or master is None else self._resolved(stream, master)

    def resolve(self, stream: pa.Schema, master: pa.Schema) -> JoinSchema:
        schema = self.check(stream, master)
        assert schema is not None
        return schema

    def _resolved(self, stream: pa.Schema, master: pa.Schema) -> JoinSchema:
        return JoinSchema.resolve(
            stream,
            master,
            self.on,
            self.how,
            suffixes=self.suffixes,
            condition=self.condition,
            version_column=self.version_column,
        )


def check_new_version(columns: pa.Schema, found: pa.Schema, name: str) -> None:
    """Refuse a new version of a master that has not the columns of the first, in any order.

    `name` is what the master is called in messages.
    """
    differences = [f"no column {each!r}" for each in columns.names if each not in found.names]
    differences += [f"a new column {each!r}" for each in found.names if each not in columns.names]
    differences += [
        f"{field.name!r} is {found.field(field.name).type} instead of {field.type}"
        for field in columns
        if field.name in found.names and found.field(field.name).type != field.type
    ]
    if differences:
        raise SchemaError(
            f"The new version of {name} has other columns than the first: "
            f"{'; '.join(differences)}.",
            remedy="All rows that had come were answered from the version before. Give every "
            "version the same columns, or begin anew with the new ones.",
        )


def _equal(on: Any) -> Any:
    """`on`, if it is about equal keys alone."""
    if near := near_of(on):
        raise InvalidArgument(
            f"on= has {near[0]}, and a master is joined on equal keys.",
            remedy="Join on columns that are equal, and give the rest as condition=; or use "
            "wm.local.join or wm.join, which take bands and intervals.",
        )
    return on


def _parse_how(how: str) -> JoinType:
    parsed = JoinType.parse(how)
    if parsed not in _TYPES:
        raise InvalidArgument(
            f"how={how!r} asks for rows of the master that no row of the stream meets, and a "
            "stream has no end after which that is known.",
            remedy=f"Use one of {', '.join(_TYPES)}; wm.local.join and wm.join have the others.",
        )
    return parsed
