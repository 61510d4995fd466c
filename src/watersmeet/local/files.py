"""How files become batches: Parquet, Arrow IPC (Feather) and CSV, in little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from watersmeet.errors import InvalidArgument

# Without a buffered stream Arrow loads whole column chunks: reading 4 M rows of four columns in
# row groups of 2 M took 118 MB resident, with it 27 MB (pyarrow 26).
_PARQUET_BUFFER = 64 * 1024
# The schema is known and the first rows come after one block: of a megabyte that took 80 ms, of
# this size 15 ms, and the whole file is read as fast.
_CSV_BLOCK = 128 * 1024

Read = Callable[[int], Iterator[pa.RecordBatch]]
"""Yields every row of the files, in batches of at most so many rows where the format allows."""


class Format(Protocol):
    name: str
    """What `pyarrow.dataset` calls it."""

    def open(self, path: Path, schema: pa.Schema | None = None) -> tuple[pa.Schema, Read]:
        """The file's columns and its rows; `schema` is that of the files before it."""
        ...


class Parquet:
    name = "parquet"

    def open(self, path: Path, schema: pa.Schema | None = None) -> tuple[pa.Schema, Read]:
        file = pq.ParquetFile(path, pre_buffer=False, memory_map=False, buffer_size=_PARQUET_BUFFER)

        def read(rows: int) -> Iterator[pa.RecordBatch]:
            with file:
                yield from file.iter_batches(batch_size=rows, use_threads=False)

        return file.schema_arrow, read


class ArrowIpc:
    """Both the file format (which Feather is) and the stream format, told apart by content."""

    name = "ipc"

    def open(self, path: Path, schema: pa.Schema | None = None) -> tuple[pa.Schema, Read]:
        file = pa.OSFile(str(path))
        reader = _open_ipc(file)

        def read(rows: int) -> Iterator[pa.RecordBatch]:
            with file:
                if isinstance(reader, pa.RecordBatchFileReader):
                    for number in range(reader.num_record_batches):
                        yield reader.get_batch(number)
                else:
                    yield from reader

        return reader.schema, read


class Csv:
    """A header line, then values whose types are inferred from the first block.

    The first file's types hold for all, or "1" in one file and "1.5" in the next would clash.
    """

    name = "csv"

    def open(self, path: Path, schema: pa.Schema | None = None) -> tuple[pa.Schema, Read]:
        # To know the columns is to have parsed the first block: a second reader would parse it
        # again, half of the time to the first row.
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            convert_options=csv.ConvertOptions(column_types=schema),
        )

        def read(rows: int) -> Iterator[pa.RecordBatch]:
            with reader:
                yield from reader

        return reader.schema, read


def _open_ipc(file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    magic = file.read(6)
    file.seek(0)
    return pa.ipc.open_file(file) if magic == b"ARROW1" else pa.ipc.open_stream(file)


_FORMATS: dict[str, Format] = {
    ".parquet": Parquet(),
    ".pq": Parquet(),
    ".arrow": ArrowIpc(),
    ".arrows": ArrowIpc(),
    ".ipc": ArrowIpc(),
    ".feather": ArrowIpc(),
    ".csv": Csv(),
}


@dataclass(frozen=True)
class DataFile:
    """One file, with the values that its `column=value` directories stand for."""

    path: Path
    format: Format
    partition: pa.Schema
    values: dict[str, Any]

    def open(self, argument: str) -> tuple[pa.Schema, Read]:
        """The columns of the first file, and a reader of its rows."""
        try:
            own, read = self.format.open(self.path)
        except (OSError, pa.ArrowException) as error:
            raise InvalidArgument(
                f"{argument}: {str(self.path)!r} cannot be read as {self.format.name}: {error}.",
                remedy="Check that the file is complete and that its extension fits its content.",
            ) from error
        schema = pa.unify_schemas([own.remove_metadata(), self.partition])
        return schema, lambda rows: self._complete(read(rows))

    def read(self, rows: int, *, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a file that follows another with this schema."""
        _, read = self.format.open(self.path, schema)
        return self._complete(read(rows))

    def _complete(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self._with_partition, batches) if self.values else batches

    def _with_partition(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for field in self.partition:
            if field.name not in batch.schema.names:
                value = pa.scalar(self.values.get(field.name), field.type)
                batch = batch.append_column(field, pa.repeat(value, batch.num_rows))
        return batch


def open_files(paths: list[Path], *, argument: str) -> tuple[pa.Schema, Read]:
    """The schema of the first file, and a reader of all of them in order.

    A directory stands for the files below it, in the order of their paths; `column=value`
    directories become columns, as Spark and Hive write them.
    """
    files = [file for path in paths for file in find_files(path, argument)]
    schema, read_first = files[0].open(argument)

    def read(rows: int) -> Iterator[pa.RecordBatch]:
        yield from read_first(rows)
        for file in files[1:]:
            yield from file.read(rows, schema=schema)

    return schema, read


def find_files(path: Path, argument: str) -> list[DataFile]:
    """The files that a path stands for."""
    if path.is_dir():
        return _find_below(path, argument)
    if not path.exists():
        raise InvalidArgument(
            f"{argument}={str(path)!r} does not exist.",
            remedy="Give the path of a Parquet, Arrow or CSV file, or of a directory of them.",
        )
    if path.suffix.lower() not in _FORMATS:
        raise InvalidArgument(
            f"{argument}={str(path)!r} has an extension that says nothing about its format.",
            remedy="Rename it to one of " + ", ".join(_FORMATS) + ".",
        )
    return [DataFile(path, _FORMATS[path.suffix.lower()], pa.schema([]), {})]


def _find_below(root: Path, argument: str) -> list[DataFile]:
    files = [file for file in sorted(root.rglob("*")) if _is_data(file.relative_to(root))]
    formats = {_FORMATS[file.suffix.lower()].name for file in files}
    if len(formats) != 1:
        found = "files of several formats" if formats else "no file of a format that we read"
        raise InvalidArgument(
            f"{argument}={str(root)!r} holds {found}.",
            remedy="Give a directory whose files all end in one of " + ", ".join(_FORMATS) + ".",
        )
    form = _FORMATS[files[0].suffix.lower()]
    if not any("=" in part for file in files for part in file.relative_to(root).parent.parts):
        return [DataFile(file, form, pa.schema([]), {}) for file in files]
    # Arrow knows Hive's escapes, its null and its types. Only names are looked at here: its
    # scanner would decode whole row groups at a time.
    dataset = ds.dataset(
        [str(file) for file in files],
        format=form.name,
        partitioning="hive",
        partition_base_dir=str(root),
    )
    partition: pa.Schema = dataset.partitioning.schema
    fragments = list(dataset.get_fragments())
    values = [ds.get_partition_keys(fragment.partition_expression) for fragment in fragments]
    return [
        DataFile(Path(fragment.path), form, partition, keys)
        for fragment, keys in zip(fragments, values, strict=True)
    ]


def _is_data(path: Path) -> bool:
    """Spark leaves `_SUCCESS`, `.crc` and `_temporary` beside the files it writes."""
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and path.suffix.lower() in _FORMATS
