"""What an input's batches must look like, and the form in which their rows are kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.errors import SchemaError
from watersmeet.model import Side


@dataclass(frozen=True, slots=True)
class Intake:
    """One side's declared schema, and the schema of its rows once they are in.

    The two differ only in encodings whose rows Arrow cannot copy out by position or write a block
    at a time: text views become plain text, dictionaries and run-end encoded columns are written
    out.
    """

    side: Side
    declared: pa.Schema
    kept: pa.Schema

    @classmethod
    def of(cls, side: Side, schema: pa.Schema) -> Intake:
        repeated = sorted(name for name, count in Counter(schema.names).items() if count > 1)
        if repeated:
            raise SchemaError(
                f"The {side.name.lower()} input has several columns named "
                f"{', '.join(map(repr, repeated))}.",
                remedy="Give every column of an input its own name.",
            )
        declared = schema.remove_metadata()
        for field in declared:
            _check_movable(field, side)
        return cls(side, declared, pa.schema([_kept_field(field) for field in declared]))

    def accept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the form it is kept in, or an error that names the odd columns."""
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
                f"A batch of the {self.side.name.lower()} input differs from its schema: "
                f"{'; '.join(differences)}.",
                remedy="Give every batch of an input the same columns, in the same order.",
            )


def _kept_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_run_end_encoded(kind) or pt.is_dictionary(kind):
        return _kept_type(kind.value_type)
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
    return field.with_type(_kept_type(field.type))


def _kept(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == kind else column.cast(kind)


def _check_movable(field: pa.Field, side: Side) -> None:
    try:
        empty = pa.schema([field]).empty_table().column(0).combine_chunks()
        _kept(empty, _kept_type(field.type)).take(pa.array([], pa.int64()))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"Column {field.name!r} of the {side.name.lower()} input is {field.type}, "
            "whose rows Arrow cannot copy out.",
            remedy="Cast it to another type or leave it out.",
        ) from error


def _differences(declared: pa.Schema, batch: pa.RecordBatch) -> list[str]:
    """What is wrong with a batch. A column may be marked nullable as long as it has no null."""
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
