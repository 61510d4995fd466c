"""Streams of rows that go on arriving: files in a directory, and lines of JSON."""

from __future__ import annotations

import contextlib
import io
import os
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from watersmeet.errors import InvalidArgument, SchemaError, one_line
from watersmeet.local.files import DataFile, find_files, is_data
from watersmeet.local.formats import COMPRESSED, format_of
from watersmeet.rows.spans import parse_seconds

_WORD = "stream"
_BATCH_BYTES = 2**20
_CHUNK_BYTES = 2**18
_LOOK_S = 0.2
_LINE_BYTES = 2**24
"""The longest line that is read."""


class Arriving(ABC):
    """Batches that go on arriving until `stop` is called, from any thread or a signal handler."""

    schema: pa.Schema | None = None
    """Their columns, if they are known before the first batch."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let the stream end, as if no more came."""
        self._stopped.set()

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def watch(directory: str | os.PathLike[str], *, every: float | str = "1 second") -> Watched:
    """The rows of all files in a directory, and of files that appear there later, without an end.

    Parameters
    ----------
    directory
        A directory of Parquet, Arrow or CSV files, all of one format and with the same columns. It
        may be empty at first.
    every
        How often it is looked at. A file is read when it was the same at two looks, once, and
        files are best moved there when they are complete. Names that begin with a dot or an
        underscore are passed over.

    Its method `stop` ends the stream.
    """
    path = Path(directory)
    if not path.is_dir():
        raise InvalidArgument(
            f"{str(directory)!r} is no directory that could be watched.", remedy="Create it first."
        )
    return Watched(path, parse_seconds(every, name="every"))


class Watched(Arriving):
    """The rows of files that appear in a directory."""

    def __init__(self, directory: Path, every: float) -> None:
        super().__init__()
        self._directory = directory
        self._every = every
        self._seen: dict[Path, tuple[int, int]] = {}
        self._read: set[Path] = set()
        self._columns: pa.Schema | None = None

    @property
    def files_read(self) -> int:
        """How many files have been read, or are being read."""
        return len(self._read)

    def __repr__(self) -> str:
        return f"<files that appear in {self._directory}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            # What was there before the end was asked for belongs to the stream.
            last = self._stopped.is_set()
            for path in self._ready(settled=not last):
                self._read.add(path)
                yield from self._rows(path)
            if last:
                return
            self._stopped.wait(self._every)

    def _ready(self, *, settled: bool) -> list[Path]:
        """Files that have not been read, and were the same at the last look, oldest first."""
        found: dict[Path, tuple[int, int]] = {}
        for path in self._directory.rglob("*"):
            known = path not in self._read and is_data(path.relative_to(self._directory))
            if known and format_of(path) is not None and path.is_file():
                with contextlib.suppress(OSError):  # It went again.
                    status = path.stat()
                    found[path] = (status.st_mtime_ns, status.st_size)
        before, self._seen = self._seen, found
        ready = [path for path in found if not settled or before.get(path) == found[path]]
        return sorted(ready, key=lambda path: (found[path], path))

    def _rows(self, path: Path) -> Iterator[pa.RecordBatch]:
        (file,) = find_files(path, _WORD)
        if self._columns is None:
            opened = file.open(_WORD)
            self._columns = opened.schema
            return opened.read(_BATCH_BYTES)
        return _later(file, self._columns)


def _later(file: DataFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in file.read(_WORD, schema=columns)(_BATCH_BYTES):
        yield batch.select(columns.names)


class ArrivingBytes(Arriving):
    """Rows of a file, by its path, or of an open binary file, a pipe, say."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        if isinstance(file, io.TextIOBase) or not (
            isinstance(file, str | os.PathLike) or hasattr(file, "read")
        ):
            raise InvalidArgument(
                f"{file!r} is neither a path nor a binary file.",
                remedy='Open it with mode "rb"; of standard input, give sys.stdin.buffer.',
            )
        self._file = file

    @property
    def file_name(self) -> str:
        return str(getattr(self._file, "name", self._file))

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, as they come."""
        with self._opened() as file:
            while chunk := self._available(file):
                yield chunk

    def _available(self, file: Any) -> bytes:
        """Some bytes of a file, as soon as there are any; none at its end, or after `stop`."""
        try:
            descriptor = file.fileno()
        except (AttributeError, OSError):  # It is in memory, say, where nothing is waited for.
            content: bytes = b"" if self._stopped.is_set() else file.read(_CHUNK_BYTES)
            return content
        # Not past buffers of Python's, which would wait until they are full.
        while not self._stopped.is_set():
            if select.select([descriptor], [], [], _LOOK_S)[0]:
                return os.read(descriptor, _CHUNK_BYTES)
        return b""

    def _opened(self) -> contextlib.AbstractContextManager[Any]:
        if not isinstance(self._file, str | os.PathLike):
            return contextlib.nullcontext(self._file)
        path = Path(self._file)
        try:
            if compression := COMPRESSED.get(path.suffix.lower()):
                return contextlib.closing(pa.input_stream(str(path), compression=compression))
            return path.open("rb")
        except OSError as error:
            raise InvalidArgument(
                f"{str(self._file)!r} cannot be read: {one_line(error)}.",
                remedy="Check the path and who may read it.",
            ) from error


def json_lines(file: Any) -> JsonLines:
    """The rows of a file, a pipe or standard input with an object of JSON on each line.

    `file` is a path (also of a `.gz` and the like), or a binary file such as `sys.stdin.buffer`.
    Rows come as soon as their line is complete. Columns and their types are those of the lines that
    can be read at first; a later line may lack a column, which is null then, and has no other ones.
    Its method `stop` ends the stream.
    """
    return JsonLines(file)


class JsonLines(ArrivingBytes):
    """Rows of lines of JSON."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._columns: pa.Schema | None = None
        self._lines = 0

    def __repr__(self) -> str:
        return f"<lines of JSON of {self.file_name}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rest = b""
        for chunk in self.chunks():
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield from self._batches(whole + newline)
            elif len(rest) > _LINE_BYTES:
                raise InvalidArgument(
                    f"{self!r} has a line of more than {_LINE_BYTES:,} bytes.",
                    remedy="Write one object of JSON on each line.",
                )
        if rest.strip():
            yield from self._batches(rest)

    def _batches(self, text: bytes) -> Iterator[pa.RecordBatch]:
        if not text.strip():
            return
        options = pj.ParseOptions()
        if self._columns is not None:
            options = pj.ParseOptions(
                explicit_schema=self._columns, unexpected_field_behavior="error"
            )
        try:
            table = pj.read_json(
                io.BytesIO(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=max(len(text), 2**20)),
                parse_options=options,
            )
        except (pa.ArrowException, ValueError) as error:
            raise SchemaError(
                f"{self!r} cannot be read after line {self._lines:,}: {one_line(error)}.",
                remedy="Write one object of JSON on each line, with the columns and types of the "
                "first lines.",
            ) from error
        self._lines += table.num_rows
        self._columns = self._columns or table.schema
        yield from table.to_batches()
