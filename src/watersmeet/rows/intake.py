"""Checks an input's batches, and converts them to the types in which rows are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Intake:
    """An input's declared schema, and the schema in which its rows are kept.

    The two differ only where Arrow cannot copy rows by position or write them a block at a time:
    text views become plain text, dictionaries and run-end encoded columns become plain columns,
    and of an extension type only the storage values are kept.
    """

    name: str
    """What the input is called in an error message."""
    declared: pa.Schema
    kept: pa.Schema

    @classmethod
    def of(cls, name: str, schema: pa.Schema) -> Intake:
        repeated = sorted(name for name, count in Counter(schema.names).items() if count > 1)
        if repeated:
            raise SchemaError(
                f"The {name} input has several columns named {', '.join(map(repr, repeated))}.",
                remedy="Give every column of an input its own name.",
            )
        declared = schema.remove_metadata()
        for field in declared:
            _check_movable(field, name)
        kept = [field.with_type(kept_type(field.type)) for field in declared]
        return cls(name, declared, pa.schema(kept))

    def accept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the schema `kept`, or an error that names the columns that do not fit."""
        schema = batch.schema
        if schema.equals(self.kept):
            return batch
        if not schema.equals(self.declared):
            self._check(batch)
        columns = [_kept(c, f.type) for c, f in zip(batch.columns, self.kept, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.kept)

    def _check(self, batch: pa.RecordBatch) -> None:
        differences = _differences(self.declared, batch)
        if differences:
            raise SchemaError(
                f"A batch of the {self.name} input differs from its schema: "
                f"{'; '.join(differences)}.",
                remedy="Give every batch of an input the same columns, in the same order.",
            )


def kept_type(kind: pa.DataType) -> pa.DataType:
    """The type in which rows of a column of this type are kept."""
    if isinstance(kind, pa.BaseExtensionType):
        return kept_type(kind.storage_type)
    if pt.is_run_end_encoded(kind) or pt.is_dictionary(kind):
        return kept_type(kind.value_type)
    if pt.is_string_view(kind):
        return pa.large_string()
    if pt.is_binary_view(kind):
        return pa.large_binary()
    if pt.is_map(kind):
        return pa.map_(_kept_field(kind.key_field), _kept_field(kind.item_field))
    if pt.is_struct(kind):
        return pa.struct([_kept_field(field) for field in kind])
    if pt.is_large_list(kind):
        return pa.large_list(_kept_field(kind.value_field))
    if pt.is_fixed_size_list(kind):
        return pa.list_(_kept_field(kind.value_field), kind.list_size)
    if pt.is_list(kind):
        return pa.list_(_kept_field(kind.value_field))
    return kind


def _kept_field(field: pa.Field) -> pa.Field:
    """A field of a nested type as it is kept; an extension type inside of one stays as it is."""
    if isinstance(field.type, pa.BaseExtensionType):
        return field
    return field.with_type(kept_type(field.type))


def _kept(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pt.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pt.is_dictionary(column.type):
        # The values are converted first: Arrow cannot decode a dictionary of text views.
        column = _kept(column.dictionary, kind).take(column.indices)
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        return _rebuilt(column, kind)


def _rebuilt(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A nested column put together from converted parts, where Arrow cannot cast it as a whole."""
    mask = column.is_null() if column.null_count else None
    if pt.is_struct(kind):
        parts = [_kept(part, f.type) for part, f in zip(_fields(column), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind)):
        return column.cast(kind)
    # Copied, because Arrow takes no mask together with offsets that are a slice.
    offsets = pa.array(column.offsets.to_numpy())
    if pt.is_map(kind):
        keys, items = _kept(column.keys, kind.key_type), _kept(column.items, kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    make = pa.ListArray if pt.is_list(kind) else pa.LargeListArray
    values = _kept(column.values, kind.value_type)
    return make.from_arrays(offsets, values, type=kind, mask=mask)


def _fields(column: pa.StructArray) -> list[pa.Array]:
    return [column.field(number) for number in range(column.type.num_fields)]


def _check_movable(field: pa.Field, name: str) -> None:
    try:
        for kind in _nested(field.type):
            _kept(pa.nulls(1, kind), kept_type(kind)).take(pa.array([0]))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"Column {field.name!r} of the {name} input is {field.type}, "
            "whose rows Arrow cannot copy out.",
            remedy="Cast it to another type or leave it out.",
        ) from error


def _nested(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all types inside of it."""
    yield kind
    if pt.is_struct(kind) or pt.is_map(kind) or pt.is_list(kind) or pt.is_large_list(kind):
        for number in range(kind.num_fields):
            yield from _nested(kind.field(number).type)


def _differences(declared: pa.Schema, batch: pa.RecordBatch) -> list[str]:
    """What is wrong with a batch. A column that is declared without nulls may come as nullable, if
    it has none."""
    names = batch.schema.names
    found = [f"no column {name!r}" for name in declared.names if name not in names]
    found += [f"unexpected column {name!r}" for name in names if name not in declared.names]
    if found:
        return found
    if declared.names != names:
        return [f"columns are ordered {', '.join(names)}"]
    for field, column in zip(declared, batch.columns, strict=True):
        if field.type != column.type:
            found.append(f"column {field.name!r} is {column.type} instead of {field.type}")
        elif not field.nullable and column.null_count:
            found.append(f"column {field.name!r} has nulls but is declared without")
    return found
