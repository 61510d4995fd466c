"""What can be joined locally, and how each kind is turned into batches a few at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.local.files import open_files
from watersmeet.model import Side

MAX_ROWS = 65_536
"""Rows per batch beyond which the kernels gain nothing and memory is only held longer."""

_VARIABLE_WIDTH = 32  # A guess for strings and lists, until the data says otherwise.


@dataclass(frozen=True)
class Source:
    """One input of a join: what it is called in messages, its columns, its batches.

    `schema` is None for plain iterators, whose columns are known with their first batch.
    `batches` is called once, in the thread that reads this source.
    """

    side: Side
    name: str
    schema: pa.Schema | None
    batches: Callable[[], Iterator[pa.RecordBatch]]


def open_source(source: Any, *, side: Side, batch_bytes: int) -> Source:
    """Recognise `source`; read its schema where it has one, and no row.

    Files and datasets are read in batches of about `batch_bytes`.
    """
    word = side.name.lower()
    if isinstance(source, str | os.PathLike):
        return _files([Path(source)], side=side, batch_bytes=batch_bytes)
    if isinstance(source, list | tuple) and source and _all_paths(source):
        return _files([Path(path) for path in source], side=side, batch_bytes=batch_bytes)
    if isinstance(source, ds.Dataset):
        return _dataset(source, side=side, batch_bytes=batch_bytes)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    name = f"{word} ({type(source).__name__})"
    if isinstance(source, pa.Table):
        # Not as a stream of another library: that would lose types which nobody has registered.
        source_rows = rows_per_batch(source.schema, batch_bytes)
        return Source(side, name, source.schema, lambda: _cut(source.to_batches(), source_rows))
    if isinstance(source, pa.RecordBatchReader):
        return Source(side, name, source.schema, lambda: iter(source))
    if hasattr(source, "__arrow_c_stream__"):
        # Tables, and the frames of pandas, Polars and DuckDB.
        reader = _open_stream(source, name)
        rows = rows_per_batch(reader.schema, batch_bytes)
        return Source(side, name, reader.schema, lambda: _cut(reader, rows))
    if isinstance(source, Iterable):
        return Source(side, name, None, lambda: _checked(iter(source), name))
    raise InvalidArgument(
        f"{word} is a {type(source).__name__}, which cannot be read as batches.",
        remedy="Give an iterator of pyarrow.RecordBatch, a pyarrow Table, RecordBatchReader or "
        "Dataset, or the path of Parquet, Arrow or CSV files.",
    )


def rows_per_batch(schema: pa.Schema, batch_bytes: int) -> int:
    """How many rows of this schema make about `batch_bytes`."""
    width = sum(_width(field.type) for field in schema)
    return max(1, min(MAX_ROWS, batch_bytes // max(1, width)))


def _width(type_: pa.DataType) -> int:
    if pa.types.is_struct(type_):
        return 1 + sum(_width(field.type) for field in type_)
    try:
        return int(type_.bit_width) // 8 + 1
    except ValueError:
        return _VARIABLE_WIDTH


def _all_paths(items: Iterable[Any]) -> bool:
    return all(isinstance(item, str | os.PathLike) for item in items)


def _files(paths: list[Path], *, side: Side, batch_bytes: int) -> Source:
    word = side.name.lower()
    schema, read = open_files(paths, argument=word)
    name = f"{word} ({paths[0]}" + (f" and {len(paths) - 1} more)" if len(paths) > 1 else ")")
    rows = rows_per_batch(schema, batch_bytes)
    return Source(side, name, schema, lambda: read(rows))


def _dataset(dataset: ds.Dataset, *, side: Side, batch_bytes: int) -> Source:
    rows = rows_per_batch(dataset.schema, batch_bytes)

    def read() -> Iterator[pa.RecordBatch]:
        # Arrow's defaults keep 16 batches of 4 files in flight, outside our account.
        batches: Iterator[pa.RecordBatch] = dataset.to_batches(
            batch_size=rows, batch_readahead=1, fragment_readahead=1, use_threads=False
        )
        return batches

    return Source(side, f"{side.name.lower()} (dataset)", dataset.schema, read)


def _open_stream(source: Any, name: str) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(source)
    except Exception as error:
        raise InvalidArgument(
            f"{name} does not open: {error}.", remedy="Mend it, or hand over its batches yourself."
        ) from error


def _cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """A frame is memory that its owner holds anyway, so it is counted only as it passes by."""
    for batch in batches:
        for start in range(0, len(batch), rows):
            yield batch.slice(start, rows)


def _checked(items: Iterator[Any], name: str) -> Iterator[pa.RecordBatch]:
    for item in items:
        if isinstance(item, pa.RecordBatch):
            yield item
        elif isinstance(item, pa.Table):
            # A table without rows has no batches, yet its columns are what we came for.
            yield from item.to_batches() or [pa.RecordBatch.from_pylist([], schema=item.schema)]
        else:
            raise SchemaError(
                f"{name} yielded a {type(item).__name__}, not a pyarrow.RecordBatch.",
                remedy="Convert it first, for example with pyarrow.RecordBatch.from_pylist.",
            )
