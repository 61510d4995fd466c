"""Recognises the kinds of inputs that can be joined locally, and turns each into batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from watersmeet.errors import InvalidArgument, SchemaError, one_line
from watersmeet.local.arriving import Arriving
from watersmeet.local.files import open_files
from watersmeet.local.formats import Parquet, cut
from watersmeet.local.frames import is_duckdb, is_pandas, open_duckdb, open_pandas
from watersmeet.parquet.batches import MAX_ROWS, rows_per_batch

__all__ = ["MAX_ROWS", "Source", "open_source", "rows_per_batch"]


@dataclass(frozen=True)
class Source:
    """One input of a join: its name in messages, its columns, its batches.

    `schema` is None for plain iterators, whose columns are known with their first batch.
    `batches` is called once, in the thread that reads this source. `first_bytes` is how large the
    first batch may be if the source decides that, None if it is not known; 0 if we decide.
    """

    name: str
    schema: pa.Schema | None
    batches: Callable[[], Iterator[pa.RecordBatch]]
    first_bytes: int | None = 0


def open_source(source: Any, *, word: str, batch_bytes: int) -> Source:
    """Recognise `source`, and read its schema if it has one, but no rows.

    `word` is what the source is called in messages: left, right, or the name of a relation.
    Files, frames and datasets are read in batches of about `batch_bytes`.
    """
    if isinstance(source, str | os.PathLike):
        return _files([_path(source, word)], word=word, batch_bytes=batch_bytes)
    if isinstance(source, list | tuple) and source and all_paths(source):
        paths = [_path(each, word) for each in source]
        return _files(paths, word=word, batch_bytes=batch_bytes)
    if isinstance(source, ds.Dataset):
        return _dataset(source, word=word, batch_bytes=batch_bytes)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, Arriving) and source.schema is not None:
        return Source(f"{word} {source!r}", source.schema, lambda: iter(source), None)
    name = f"{word} ({type(source).__name__})"
    if isinstance(source, pa.Table):
        # Not through the Arrow stream interface, which loses extension types without registration.
        return Source(name, source.schema, lambda: _cut_all(source.to_batches(), batch_bytes))
    if isinstance(source, pa.RecordBatchReader):
        return Source(name, source.schema, lambda: iter(source), None)
    if is_pandas(source):
        schema, read = open_pandas(source, name)
        return Source(name, schema, lambda: read(batch_bytes))
    if is_duckdb(source):
        schema, read = open_duckdb(source, name)
        return Source(name, schema, lambda: read(batch_bytes))
    if hasattr(source, "__arrow_c_stream__"):
        # Frames of Polars and other libraries.
        reader = _open_stream(source, name)
        return Source(name, reader.schema, lambda: _cut_all(reader, batch_bytes))
    if isinstance(source, Iterable) and not isinstance(source, bytes | bytearray | memoryview):
        return Source(name, None, lambda: _Checked(iter(source), name), None)
    raise InvalidArgument(
        f"{word} is a {type(source).__name__}, which cannot be read as batches.",
        remedy="Give an iterator of pyarrow.RecordBatch, a pyarrow Table, RecordBatchReader or "
        "Dataset, or the path of Parquet, Arrow or CSV files.",
    )


def no_columns(name: str) -> SchemaError:
    """The error for an iterator that ends before its first batch."""
    return SchemaError(
        f"{name} ended without a single batch, so its columns are unknown.",
        remedy="Wrap it in pyarrow.RecordBatchReader.from_batches(schema, batches), or yield "
        "an empty batch first.",
    )


def _path(path: Any, word: str) -> Path:
    text = os.fspath(path)
    if isinstance(text, bytes) or not text:
        raise InvalidArgument(f"{word}={path!r} is no path.", remedy="Give a path as text.")
    return Path(text)


def all_paths(items: Iterable[Any]) -> bool:
    return all(isinstance(item, str | os.PathLike) for item in items)


def _files(paths: list[Path], *, word: str, batch_bytes: int) -> Source:
    opened = open_files(paths, argument=word)
    name = f"{word} ({paths[0]}" + (f" and {len(paths) - 1} more)" if len(paths) > 1 else ")")
    return Source(name, opened.schema, lambda: opened.read(batch_bytes), opened.first_bytes)


def _dataset(dataset: ds.Dataset, *, word: str, batch_bytes: int) -> Source:
    name = f"{word} (dataset)"
    try:
        is_plain = _is_plain_parquet(dataset)
    except (OSError, pa.ArrowException) as error:
        raise InvalidArgument(
            f"{name} does not open: {one_line(error)}.",
            remedy="Check that its files are there and complete.",
        ) from error
    if is_plain:
        return Source(name, dataset.schema, lambda: _parquet(dataset, batch_bytes))
    rows = rows_per_batch(dataset.schema, batch_bytes)

    def read() -> Iterator[pa.RecordBatch]:
        # By default Arrow reads 16 batches of 4 files ahead, which the memory account cannot see.
        batches: Iterator[pa.RecordBatch] = dataset.to_batches(
            batch_size=rows, batch_readahead=1, fragment_readahead=1, use_threads=False
        )
        return batches

    return Source(name, dataset.schema, read)


def _is_plain_parquet(dataset: ds.Dataset) -> bool:
    """Whether we can read its files ourselves, a batch at a time; Arrow's scanner would decode
    whole row groups."""
    return (
        isinstance(dataset, ds.FileSystemDataset)
        and isinstance(dataset.format, ds.ParquetFileFormat)
        and isinstance(dataset.filesystem, LocalFileSystem)
        and not getattr(dataset, "_scan_options", None)
        and all(
            len(each.row_groups) == each.metadata.num_row_groups for each in _fragments(dataset)
        )
    )


def _fragments(dataset: ds.Dataset) -> Iterator[ds.ParquetFileFragment]:
    fragments: Iterator[ds.ParquetFileFragment] = dataset.get_fragments()
    return fragments


def _parquet(dataset: ds.Dataset, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    for fragment in _fragments(dataset):
        values = ds.get_partition_keys(fragment.partition_expression)
        opened = Parquet().open(Path(fragment.path))
        for batch in opened.read(batch_bytes):
            yield _as_declared(batch, dataset.schema, values)


def _as_declared(
    batch: pa.RecordBatch, schema: pa.Schema, values: dict[str, Any]
) -> pa.RecordBatch:
    """The batch with all columns of a dataset: those that the file does not have come from the
    names of its directories, or are null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.repeat(pa.scalar(values.get(field.name), field.type), len(batch))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _open_stream(source: Any, name: str) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(source)
    except Exception as error:
        raise InvalidArgument(
            f"{name} does not open: {one_line(error)}.",
            remedy="Mend it, or hand over its batches yourself.",
        ) from error


def _cut_all(batches: Iterable[pa.RecordBatch], batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Slices of batches that are in memory anyway. Only slices that wait for the join count."""
    for batch in batches:
        yield from cut(batch, batch_bytes)


class _Checked:
    """The batches of an iterator that may yield batches, tables, or something wrong.

    Not a generator, which would keep the batch that it has yielded until the next one is asked for.
    """

    def __init__(self, items: Iterator[Any], name: str) -> None:
        self._items = items
        self._name = name
        self._rest: list[pa.RecordBatch] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._rest:
            return self._rest.pop()
        item = next(self._items)
        if isinstance(item, pa.RecordBatch):
            return item
        if isinstance(item, pa.Table):
            # A table without rows may have no batches, but its columns are needed.
            self._rest = item.to_batches()[::-1]
            return self._rest.pop() if self._rest else _empty(item.schema)
        raise SchemaError(
            f"{self._name} yielded a {type(item).__name__}, not a pyarrow.RecordBatch.",
            remedy="Convert it first, for example with pyarrow.RecordBatch.from_pylist.",
        )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
