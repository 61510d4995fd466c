"""One version of a master table, as it was laid down: blocks in order of code, read by number."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.fs as fs
import xxhash

from watersmeet.errors import StateError
from watersmeet.rows.encoded import Codes
from watersmeet.store.master.blocks import END_BYTES, BlockPlaces, MasterEnd


class MasterRows(NamedTuple):
    """Some rows of a master table, in order of code."""

    codes: Codes
    rows: pa.RecordBatch

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> MasterRows:
        """Rows with their codes as the first column."""
        codes: Codes = batch.column(0).to_numpy()
        return cls(codes, batch.select(list(range(1, batch.num_columns))))


class Master:
    """A laid down version of a master table. Its file never changes.

    Files of this machine are read with `pread` and not mapped: mapped pages would count as the
    process's memory.
    """

    def __init__(self, file: _File, end: MasterEnd) -> None:
        self._file = file
        self._columns = end.columns
        self.places: BlockPlaces = end.places
        self.facts = end.facts
        self.schema = pa.schema(list(end.columns)[1:])
        self.rows = int(self.places.rows.sum())
        self.nbytes = int(self.places.ends[-1] - self.places.ends[0]) if len(self.places) else 0
        """Bytes of all blocks, as they are in the file."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Master:
        """The table in a file: a path, or a URI that `pyarrow.fs` knows."""
        file = _open(os.fspath(path))
        try:
            return cls(file, _read_end(file))
        except BaseException:
            file.close()
            raise

    @property
    def version(self) -> str:
        return str(self.facts["version"])

    def __len__(self) -> int:
        """How many blocks it has."""
        return len(self.places)

    def read(self, first: int, last: int) -> MasterRows:
        """The rows of the blocks from `first` to before `last`, with one read."""
        ends = self.places.ends
        start, stop = int(ends[first]), int(ends[last])
        content = memoryview(self._file.read(start, stop - start))
        if len(content) != stop - start:
            raise damaged(self._file.name, "is shorter than what was written")
        batches = []
        for block in range(first, last):
            message = content[int(ends[block]) - start : int(ends[block + 1]) - start]
            if xxhash.xxh3_64_intdigest(message) != int(self.places.table["checksum"][block]):
                raise damaged(self._file.name, "has been altered")
            batches.append(pa.ipc.read_record_batch(pa.py_buffer(message), self._columns))
        return MasterRows.of(batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def close(self) -> None:
        self._file.close()


class _File(Protocol):
    """A file that is read from any place."""

    name: str
    size: int

    def read(self, offset: int, length: int) -> Any: ...

    def close(self) -> None: ...


class _LocalFile:
    def __init__(self, path: str) -> None:
        self.name = path
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
            self.size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise damaged(path, f"cannot be opened ({error.strerror})") from error

    def read(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise damaged(self.name, f"cannot be read ({error.strerror})") from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class _RemoteFile:
    def __init__(self, uri: str) -> None:
        self.name = uri
        try:
            system, path = fs.FileSystem.from_uri(uri)
            self._file = system.open_input_file(path)
            self.size = self._file.size()
        except OSError as error:
            raise damaged(uri, f"cannot be opened ({error})") from error

    def read(self, offset: int, length: int) -> pa.Buffer:
        try:
            return self._file.read_at(length, offset)
        except OSError as error:
            raise damaged(self.name, f"cannot be read ({error})") from error

    def close(self) -> None:
        self._file.close()


def _open(place: str) -> _File:
    if "://" not in place:
        return _LocalFile(place)
    system, path = fs.FileSystem.from_uri(place)
    return _LocalFile(path) if isinstance(system, fs.LocalFileSystem) else _RemoteFile(place)


def _read_end(file: _File) -> MasterEnd:
    try:
        end = bytes(file.read(max(file.size - END_BYTES, 0), min(END_BYTES, file.size)))
        length = MasterEnd.length(end)
        if length > file.size - END_BYTES:
            raise ValueError("shorter than its end says")
        return MasterEnd.from_bytes(bytes(file.read(file.size - END_BYTES - length, length)), end)
    except ValueError:
        raise damaged(file.name, "is incomplete or has been altered") from None


def damaged(name: str, what: str) -> StateError:
    return StateError(
        f"The file {name} of the master table {what}.",
        remedy="No row of it was used. Have the master table laid down again: remove the file, "
        "and keep other programs out of its directory.",
    )
