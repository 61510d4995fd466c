"""Reads a Parquet, Arrow IPC (Feather) or CSV file in batches of a wanted size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument
from watersmeet.local.inflated import largest_batch
from watersmeet.parquet.batches import MAX_ROWS, parquet_batches
from watersmeet.rows.widths import total_bytes

# Without a buffered stream Arrow loads whole column chunks: reading 4 M rows of four columns in
# row groups of 2 M took 118 MB resident, with it 27 MB (pyarrow 26).
_PARQUET_BUFFER = 64 * 1024
# Arrow parses one block before it gives the schema and the first rows: 80 ms for a megabyte, 15 ms
# for this size. The whole file takes as long with either.
_CSV_BLOCK = 128 * 1024
_CSV_LARGEST_BLOCK = 2**30

Read = Callable[[int], Iterator[pa.RecordBatch]]
"""Yields all rows, in batches of about the given number of bytes where the format allows it."""


@dataclass(frozen=True)
class Opened:
    """A file's columns and its rows.

    `first_bytes` is how large its first batch may be, if the file decides that; 0 if we do.
    """

    schema: pa.Schema
    read: Read
    first_bytes: int = 0


class Format(Protocol):
    name: str
    """What `pyarrow.dataset` calls it."""

    def open(self, path: Path, schema: pa.Schema | None = None) -> Opened:
        """`schema` is that of the first file, None for the first file itself."""
        ...


class Parquet:
    """Row groups, each read a batch at a time."""

    name = "parquet"

    def open(self, path: Path, schema: pa.Schema | None = None) -> Opened:
        file = pq.ParquetFile(path, pre_buffer=False, memory_map=False, buffer_size=_PARQUET_BUFFER)

        def read(batch_bytes: int) -> Iterator[pa.RecordBatch]:
            with file:
                yield from parquet_batches(file, batch_bytes)

        return Opened(file.schema_arrow, read)


class ArrowIpc:
    """Both the file format (which Feather is) and the stream format, told apart by content.

    Batches that are not compressed are mapped, and sliced without a copy. Compressed batches are
    decompressed whole, so whoever wrote the file decided how large they are.
    """

    name = "ipc"

    def open(self, path: Path, schema: pa.Schema | None = None) -> Opened:
        file = pa.memory_map(str(path))
        is_stream = file.read(6) != b"ARROW1"
        largest = largest_batch(file, is_stream=is_stream)
        reader = pa.ipc.open_stream(file) if is_stream else pa.ipc.open_file(file)
        stored: Iterator[pa.RecordBatch] = (
            iter(reader) if is_stream else map(reader.get_batch, range(reader.num_record_batches))
        )

        def read(batch_bytes: int) -> Iterator[pa.RecordBatch]:
            if largest:
                return stored  # not a generator, which would keep the batch that it has yielded
            return (piece for batch in stored for piece in cut(batch, batch_bytes))

        return Opened(reader.schema, read, largest)


def cut(batch: pa.RecordBatch, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Slices of about `batch_bytes`, without copying the batch."""
    rows = MAX_ROWS
    start = 0
    while start < len(batch):
        piece = batch.slice(start, rows)
        nbytes = total_bytes(piece)
        if nbytes > 2 * batch_bytes and len(piece) > 1:
            rows = max(1, min(len(piece) // 2, len(piece) * batch_bytes // nbytes))
            continue
        yield piece
        start += len(piece)
        rows = max(1, min(MAX_ROWS, 2 * rows, len(piece) * batch_bytes // max(nbytes, 1)))


@dataclass(frozen=True)
class Csv:
    """A header line, then values whose types are inferred from the first block.

    All files get the types of the first, or "1" in one file and "1.5" in the next would differ.
    """

    delimiter: str = ","
    compression: str | None = None
    name = "csv"

    def open(self, path: Path, schema: pa.Schema | None = None) -> Opened:
        # Opening the file parses its first block. The reader is kept for the rows, because a second
        # one would parse the block again, which is half of the time to the first row.
        reader, block = self._first(path, schema)
        if schema is None:
            _check_text(reader.schema, path)
        return Opened(reader.schema, lambda batch_bytes: self._read(path, reader, block))

    def _first(self, path: Path, schema: pa.Schema | None) -> tuple[csv.CSVStreamingReader, int]:
        block = _CSV_BLOCK
        while True:
            try:
                return self._reader(path, schema, block), block
            except pa.ArrowInvalid as error:
                block = _longer(block, path, error)

    def _read(
        self, path: Path, reader: csv.CSVStreamingReader, block: int
    ) -> Iterator[pa.RecordBatch]:
        schema, done = reader.schema, 0
        while True:
            passed = 0
            try:
                with reader:
                    for batch in reader:
                        fresh = batch.slice(max(done - passed, 0))
                        passed += len(batch)
                        if len(fresh):
                            done += len(fresh)
                            yield fresh
                return
            except pa.ArrowInvalid as error:
                # A line is longer than a block: begin again with longer blocks.
                block = _longer(block, path, error)
            reader = self._reader(path, schema, block)

    def _reader(self, path: Path, schema: pa.Schema | None, block: int) -> csv.CSVStreamingReader:
        source = pa.input_stream(str(path), compression=self.compression)
        return csv.open_csv(
            source,
            read_options=csv.ReadOptions(block_size=block, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=self.delimiter),
            convert_options=csv.ConvertOptions(column_types=schema),
        )


def _longer(block: int, path: Path, error: pa.ArrowInvalid) -> int:
    """A larger size for blocks if the error is about their size; otherwise raises the error."""
    if "straddl" not in str(error) or block >= min(_CSV_LARGEST_BLOCK, 2 * path.stat().st_size):
        raise error
    return 8 * block


def _check_text(schema: pa.Schema, path: Path) -> None:
    """Refuse text that is not UTF-8: Arrow would read it as bytes without saying so."""
    odd = [field.name for field in schema if pt.is_binary(field.type)]
    if odd:
        raise InvalidArgument(
            f"{str(path)!r} is not in UTF-8: column {odd[0]!r} has other bytes (Latin-1?).",
            remedy="Convert the file (iconv -f latin1 -t utf-8), or give "
            'pyarrow.csv.open_csv(path, pyarrow.csv.ReadOptions(encoding="latin1")) instead.',
        )


_BY_NAME: dict[str, Format] = {
    ".parquet": Parquet(),
    ".pq": Parquet(),
    ".arrow": ArrowIpc(),
    ".arrows": ArrowIpc(),
    ".ipc": ArrowIpc(),
    ".feather": ArrowIpc(),
    ".csv": Csv(),
    ".tsv": Csv("\t"),
}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

NAMES = ", ".join(_BY_NAME)
"""The extensions that are known, for messages."""


def format_of(path: Path) -> Format | None:
    """The format that a file's name stands for; `.csv.gz` and the like too.

    >>> format_of(Path("a.tsv.gz"))
    Csv(delimiter='\\t', compression='gzip')
    """
    suffix = path.suffix.lower()
    if suffix in COMPRESSED:
        inner = _BY_NAME.get(Path(path.stem).suffix.lower())
        return Csv(inner.delimiter, COMPRESSED[suffix]) if isinstance(inner, Csv) else None
    return _BY_NAME.get(suffix)
