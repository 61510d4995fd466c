"""Frames of other libraries as batches of a wanted size.

As a stream, pandas would convert the whole frame to Arrow at once, a second copy of it, and DuckDB
would make batches of a million rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from watersmeet.errors import InvalidArgument, one_line
from watersmeet.local.formats import Read, cut
from watersmeet.parquet.batches import MAX_ROWS
from watersmeet.rows.widths import total_bytes

_FIRST_ROWS = 256
# Enough rows for the kernels to be fast; a batch of texts of kilobytes has some megabytes then.
_DUCKDB_ROWS = 1024


def is_pandas(source: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def open_pandas(frame: Any, name: str) -> tuple[pa.Schema, Read]:
    try:
        schema = pa.schema([_field(frame, field) for field in _fields(frame)])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{name} does not open: {one_line(error)}.",
            remedy="Give every column one type and a name of its own, as text.",
        ) from error

    def read(batch_bytes: int) -> Iterator[pa.RecordBatch]:
        start, rows = 0, _FIRST_ROWS
        while start < len(frame):
            part = frame.iloc[start : start + rows]
            table = pa.Table.from_pandas(part, schema=schema, nthreads=1)
            nbytes = 0
            for batch in table.replace_schema_metadata().to_batches():
                nbytes += total_bytes(batch)
                yield from cut(batch, batch_bytes)
            start += rows
            rows = max(1, min(MAX_ROWS, 2 * rows, rows * batch_bytes // max(nbytes, 1)))

    return schema, read


def _fields(frame: Any) -> pa.Schema:
    """The columns, with those of the index unless it is a mere numbering, as pandas converts it."""
    return pa.Schema.from_pandas(frame.iloc[:_FIRST_ROWS]).remove_metadata()


def _field(frame: Any, field: pa.Field) -> pa.Field:
    """The field with its true type: of Python objects, all values must be looked at to know it."""
    if field.name in frame.columns and frame[field.name].dtype == object:
        kind = pa.infer_type(frame[field.name].to_numpy(), from_pandas=True)
        return pa.field(field.name, kind)
    return field


def is_duckdb(source: Any) -> bool:
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(source, duckdb.DuckDBPyRelation)


def open_duckdb(relation: Any, name: str) -> tuple[pa.Schema, Read]:
    try:
        # Older versions of DuckDB call it `fetch_record_batch`.
        open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        reader = open_reader(_DUCKDB_ROWS)
    except Exception as error:
        raise InvalidArgument(
            f"{name} does not open: {one_line(error)}.",
            remedy="Mend it, or hand over its batches yourself.",
        ) from error
    return reader.schema, lambda batch_bytes: iter(reader)


def frame_rows(source: Any) -> int | None:
    """How many rows a frame of another library has; None for what is no frame, or does not say."""
    if not (is_pandas(source) or hasattr(source, "__arrow_c_stream__")):
        return None
    try:
        return len(source)
    except TypeError:
        return None
