"""Which columns a joined row has, what they are called, and where their values come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.errors import SchemaError
from watersmeet.model import JoinType, Side
from watersmeet.rows.address import Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.intake import kept_type
from watersmeet.rows.types import converted, is_whole

Schemas = tuple[pa.Schema, pa.Schema]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One output field, and (input, column) from which its values come, in order of preference.

    Only a shared key of a full join has two: the second is used for rows without the first input.
    """

    field: pa.Field
    suppliers: tuple[tuple[int, int], ...]
    cast: bool
    same: tuple[int, int] | None = None
    """Another input and column that has the very same values wherever a result has rows of both."""

    def gather(self, rows: Sequence[Rows | None], count: int) -> pa.Array:
        """The values for `count` result rows, which consist of `rows` of each input."""
        if self.same is not None and self._is_nearer(rows):
            part = rows[self.same[0]]
            assert part is not None
            return part.source.take(self.same[1], part.index)
        for input, column in self.suppliers:
            part = rows[input]
            if part is not None:
                values = part.source.take(column, part.index)
                return self._wrapped(self._converted(values) if self.cast else values)
        return self._wrapped(pa.nulls(count, kept_type(self.field.type)))

    def _is_nearer(self, rows: Sequence[Rows | None]) -> bool:
        """Whether the other column is that of a batch, and this one that of a table, which may be
        far larger than the processor's caches."""
        assert self.same is not None
        mine, other = rows[self.suppliers[0][0]], rows[self.same[0]]
        if mine is None or other is None or isinstance(mine.source, BatchRows):
            return False
        return isinstance(other.source, BatchRows)

    def _wrapped(self, values: pa.Array) -> pa.Array:
        """The values in the extension type of the field, if it has one; rows are kept without."""
        kind = self.field.type
        if not isinstance(kind, pa.BaseExtensionType):
            return values
        if values.type != kind.storage_type:
            values = values.cast(kind.storage_type)
        return pa.ExtensionArray.from_storage(kind, values)

    def _converted(self, values: pa.Array) -> pa.Array:
        try:
            return converted(values, self.field.type)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"A value of key column {self.field.name!r} does not fit {self.field.type}, "
                f"the type both sides share in the output: {error}.",
                remedy="Cast both key columns to one type before the join.",
            ) from error


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Names of two key columns, and the type they are compared in.

    `shared`: they are one column of the output, as in SQL's USING. `padding`: to how many
    characters Spark pads each side's texts before it compares them, 0 if it does not.
    """

    left: str
    right: str
    kind: pa.DataType
    shared: bool
    padding: tuple[int, int] = (0, 0)

    def of(self, side: Side) -> str:
        return self.left if side is Side.LEFT else self.right


def output_columns(
    declared: Sequence[pa.Schema],
    kept: Sequence[pa.Schema],
    keys: Sequence[tuple[tuple[int, int], KeyPair]],
    *,
    how: JoinType,
    suffixes: Sequence[str],
) -> tuple[OutputColumn, ...]:
    """The output's columns in Spark's order: shared keys, then the others, input by input.

    Columns have the types in which rows are `kept`, but for extension types, which come back as
    they were declared. `keys` are pairs of key columns with the two inputs that each is between.
    """
    schemas = [_given(mine, own) for mine, own in zip(declared, kept, strict=True)]
    once: list[set[str]] = [set() for _ in schemas]
    columns: list[OutputColumn] = []
    for ends, key in keys:
        if not key.shared:
            continue
        if key.left not in once[ends[0]] and key.right not in once[ends[1]]:
            columns.append(_shared_key(schemas, ends, key, how))
        once[ends[0]].add(key.left)
        once[ends[1]].add(key.right)
    others = [
        [field for field in schema if field.name not in names]
        for schema, names in zip(schemas, once, strict=True)
    ]
    clashes = set[str]()
    if how.emits_pairs:
        names = Counter(field.name for fields in others for field in fields)
        clashes = {name for name, count in names.items() if count > 1}
        # The two inputs may spell a shared key differently, and the spelling that is not used may
        # be the name of another column.
        clashes |= {column.field.name for column in columns} & names.keys()
    else:
        others[Side.RIGHT] = []
    for input, fields in enumerate(others):
        for field in fields:
            name = field.name + suffixes[input] if field.name in clashes else field.name
            nullable = field.nullable or _can_miss(input, how)
            supplier = (input, schemas[input].get_field_index(field.name))
            renamed = field.with_name(name).with_nullable(nullable)
            columns.append(OutputColumn(renamed, (supplier,), cast=False))
    _check_unique([column.field.name for column in columns], suffixes)
    return tuple(columns)


def with_version_column(output: pa.Schema, name: str) -> pa.Schema:
    """The output with one more column, for the version of a master table that a row has met."""
    if name in output.names:
        raise SchemaError(
            f"version_column={name!r} is the name of a column of the output already.",
            remedy="Choose another name.",
        )
    return output.append(pa.field(name, pa.string(), nullable=False))


def _given(declared: pa.Schema, kept: pa.Schema) -> pa.Schema:
    fields = [
        mine if isinstance(mine.type, pa.BaseExtensionType) else other
        for mine, other in zip(declared, kept, strict=True)
    ]
    return pa.schema(fields)


def _can_miss(input: int, how: JoinType) -> bool:
    """Whether a result may have no row of this input."""
    return how.emits_pairs and how is not JoinType.INNER and how.keeps_unmatched(Side(input).other)


def _shared_key(
    schemas: Sequence[pa.Schema], ends: tuple[int, int], key: KeyPair, how: JoinType
) -> OutputColumn:
    left, right = (schemas[ends[end]].field(key.of(end)) for end in Side)
    places = [(ends[end], schemas[ends[end]].get_field_index(key.of(end))) for end in Side]
    # Numbers, dates and times that are equal are so to the last bit, unlike floats and texts.
    plain = is_whole(key.kind) and left.type == right.type == key.kind
    if how is JoinType.RIGHT:
        same = places[Side.LEFT] if plain else None
        return OutputColumn(right, (places[Side.RIGHT],), cast=False, same=same)
    if how is not JoinType.FULL:
        same = places[Side.RIGHT] if plain else None
        return OutputColumn(left, (places[Side.LEFT],), cast=False, same=same)
    kind = left.type if left.type == right.type else key.kind
    field = pa.field(key.left, kind, True, metadata=left.metadata)
    return OutputColumn(field, tuple(places), cast=left.type != right.type)


def _check_unique(names: list[str], suffixes: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise SchemaError(
            f"The output would have several columns named {', '.join(map(repr, repeated))} "
            f"with suffixes={tuple(suffixes)!r}.",
            remedy="Rename them in one input, or choose other suffixes.",
        )
