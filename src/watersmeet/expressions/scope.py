"""Which column a name means: a join has two inputs, and some names are in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.errors import SchemaError
from watersmeet.expressions.nodes import Column
from watersmeet.expressions.promotion import spark_type
from watersmeet.model import JoinType, Side

_QUALIFIERS = {"left": Side.LEFT, "right": Side.RIGHT}


@dataclass(frozen=True)
class Scope:
    """The columns of both inputs, and the keys that join them as pairs of names.

    A key of one name is one column, as in SQL's USING, and is taken from `preferred`; in an inner
    join from `either`, for there both have the same value.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    keys: Sequence[tuple[str, str]] = ()
    preferred: Side = Side.LEFT
    either: bool = True

    @classmethod
    def of(
        cls, schemas: tuple[pa.Schema, pa.Schema], keys: Sequence[tuple[str, str]], how: JoinType
    ) -> Scope:
        """For a join: of an outer one, a key is that of the side whose rows all stay."""
        preferred = Side.RIGHT if how is JoinType.RIGHT else Side.LEFT
        return cls(schemas, keys, preferred, either=how is JoinType.INNER)

    def column(self, name: str, *, qualifier: str | None = None) -> Column:
        if qualifier is not None:
            side = self._side(qualifier, name)
            found = self._find(side, name)
            if found is None:
                raise self._missing(f"{qualifier}.{name}")
            return self._resolved(side, found)
        names = {side: self._find(side, name) for side in Side}
        sides = [side for side in Side if names[side] is not None]
        if not sides:
            raise self._missing(name)
        if len(sides) == 2:
            if not self.is_key(names[Side.LEFT], names[Side.RIGHT]):
                raise SchemaError(
                    f"Both inputs have a column {name!r}.",
                    remedy=f"Write left.{name} or right.{name}.",
                )
            sides = [self.preferred]
        return self._resolved(sides[0], names[sides[0]] or name)

    def is_key(self, left: str | None, right: str | None) -> bool:
        return any(pair == (left, right) for pair in map(tuple, self.keys))

    def _side(self, qualifier: str, name: str) -> Side:
        side = _QUALIFIERS.get(qualifier.lower())
        if side is None:
            raise SchemaError(
                f"{qualifier}.{name} names neither input.",
                remedy="Before a column name write left. or right., or nothing; "
                "a field of a struct must first become a column of the DataFrame.",
            )
        return side

    def _find(self, side: Side, name: str) -> str | None:
        """The column's own spelling: as written, else as Spark finds it, whatever the case."""
        names = self.schemas[side].names
        if names.count(name) == 1:
            return name
        alike = [other for other in names if other.lower() == name.lower()]
        if len(alike) > 1:
            raise SchemaError(
                f"The {side.name.lower()} input has {len(alike)} columns called {name!r}: "
                f"{', '.join(alike)}.",
                remedy="Rename all but one.",
            )
        return alike[0] if alike else None

    def _resolved(self, side: Side, name: str) -> Column:
        return Column(side, name, spark_type(self.schemas[side].field(name).type))

    def _missing(self, name: str) -> SchemaError:
        left, right = (", ".join(schema.names) or "none" for schema in self.schemas)
        if not self.schemas[Side.RIGHT].names:
            return SchemaError(f"There is no column {name!r}.", remedy=f"The columns are {left}.")
        return SchemaError(
            f"Neither input has a column {name!r}."
            if "." not in name
            else f"There is no column {name!r}.",
            remedy=f"The columns of the left input are {left}; of the right, {right}.",
        )
