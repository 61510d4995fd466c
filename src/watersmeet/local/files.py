"""Finds the files that a path names, and reads their rows one file after the other."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from watersmeet.errors import InvalidArgument, SchemaError, one_line
from watersmeet.local.formats import NAMES, Format, Opened, Read, format_of

_COMPRESSED_TOO = " (or .csv and .tsv with .gz, .bz2, .zst or .lz4 behind)"


@dataclass(frozen=True)
class DataFile:
    """One file, with the columns and values that its `column=value` directories give."""

    path: Path
    format: Format
    partition: pa.Schema
    values: dict[str, Any]

    def open(self, argument: str) -> Opened:
        """Open the first file of an input: its columns, and a reader of its rows."""
        opened = self._opened(argument, None)
        own = opened.schema.remove_metadata()
        repeated = [name for name in self.partition.names if name in own.names]
        partition = pa.schema([field for field in self.partition if field.name not in repeated])
        return Opened(
            pa.schema([*own, *partition]), self._completed(opened.read), opened.first_bytes
        )

    def read(self, argument: str, *, schema: pa.Schema) -> Read:
        """Read a later file of an input, whose first file had this schema."""
        opened = self._opened(argument, schema)
        names = set(opened.schema.names) | set(self.partition.names)
        if names != set(schema.names):
            raise SchemaError(
                f"{argument}: {str(self.path)!r} has the columns "
                f"{', '.join(opened.schema.names)}, unlike the files before it "
                f"({', '.join(schema.names)}).",
                remedy="Give files that have the same columns, or join them one by one.",
            )
        return self._completed(opened.read)

    def _opened(self, argument: str, schema: pa.Schema | None) -> Opened:
        try:
            return self.format.open(self.path, schema)
        except (OSError, EOFError, pa.ArrowException) as error:
            raise InvalidArgument(
                f"{argument}: {str(self.path)!r} cannot be read as {self.format.name}: "
                f"{one_line(error)}.",
                remedy="Check that the file is complete and readable, and that its extension "
                "fits its content.",
            ) from error

    def _completed(self, read: Read) -> Read:
        if not self.values:
            return read
        return lambda batch_bytes: map(self._with_partition, read(batch_bytes))

    def _with_partition(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for field in self.partition:
            if field.name not in batch.schema.names:
                value = pa.scalar(self.values.get(field.name), field.type)
                batch = batch.append_column(field, pa.repeat(value, batch.num_rows))
        return batch


def open_files(paths: list[Path], *, argument: str) -> Opened:
    """The schema of the first file, and a reader of all of them in order.

    A directory means the files below it, in the order of their paths; `column=value` directories
    become columns, as Spark and Hive write them. `*`, `?` and `[...]` mean what they do in a shell.
    """
    files = [file for path in paths for file in find_files(path, argument)]
    first = files[0].open(argument)

    def each(batch_bytes: int) -> Iterator[Iterator[pa.RecordBatch]]:
        yield first.read(batch_bytes)
        for file in files[1:]:
            yield file.read(argument, schema=first.schema)(batch_bytes)

    return Opened(
        first.schema, lambda batch_bytes: chain.from_iterable(each(batch_bytes)), first.first_bytes
    )


def find_files(path: Path, argument: str) -> list[DataFile]:
    """The files that a path names."""
    return _reached(lambda: _find(path, argument), path, argument)


def _find(path: Path, argument: str) -> list[DataFile]:
    if path.is_dir():
        return _find_below(path, argument)
    if path.exists():
        return [_file(path, argument)]
    if glob.has_magic(str(path)):
        # Path.glob wants a directory to begin from, and no absolute patterns.
        matching = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207
        if matching:
            return [file for each in matching for file in _find(each, argument)]
        raise InvalidArgument(
            f"{argument}={str(path)!r} fits no file.",
            remedy="Check the pattern; ** stands for directories at any depth.",
        )
    raise InvalidArgument(
        f"{argument}={str(path)!r} does not exist.",
        remedy="Give the path of a Parquet, Arrow or CSV file, or of a directory of them.",
    )


def _file(path: Path, argument: str) -> DataFile:
    if (form := format_of(path)) is None:
        raise InvalidArgument(
            f"{argument}={str(path)!r} has an extension that says nothing about its format.",
            remedy=f"Rename it to one of {NAMES}{_COMPRESSED_TOO}.",
        )
    return DataFile(path, form, pa.schema([]), {})


def _reached(find: Callable[[], list[DataFile]], path: Path, argument: str) -> list[DataFile]:
    try:
        return find()
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{argument}={str(path)!r} cannot be looked at: {one_line(error)}.",
            remedy="Check the path and who may read it.",
        ) from error


def _find_below(root: Path, argument: str) -> list[DataFile]:
    files = [file for file in sorted(root.rglob("*")) if is_data(file.relative_to(root))]
    found = [(file, form) for file in files if (form := format_of(file)) is not None]
    formats = {form.name for _, form in found}
    if len(formats) != 1:
        what = "files of several formats" if formats else "no file of a format that we read"
        raise InvalidArgument(
            f"{argument}={str(root)!r} holds {what}.",
            remedy=f"Give a directory whose files all end in one of {NAMES}{_COMPRESSED_TOO}.",
        )
    if not any("=" in part for file, _ in found for part in file.relative_to(root).parent.parts):
        return [DataFile(file, form, pa.schema([]), {}) for file, form in found]
    # Arrow knows Hive's escapes, nulls and types, so it parses the names of the directories. It
    # does not read the files: its scanner would decode whole row groups at a time.
    dataset = ds.dataset(
        [str(file) for file, _ in found],
        format=found[0][1].name,
        partitioning="hive",
        partition_base_dir=str(root),
    )
    partition: pa.Schema = dataset.partitioning.schema
    keys = {
        fragment.path: ds.get_partition_keys(fragment.partition_expression)
        for fragment in dataset.get_fragments()
    }
    return [DataFile(file, form, partition, keys[str(file)]) for file, form in found]


def is_data(path: Path) -> bool:
    """Whether a file is one of data, and not Spark's `_SUCCESS`, `.crc` or `_temporary`."""
    return not any(part.startswith((".", "_")) for part in path.parts)
