"""One version of a master table, as it was laid down: blocks in order of code, read by number."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.fs as fs
import xxhash
from numpy.typing import NDArray

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
        self._checksum = end.checksum
        self.places: BlockPlaces = end.places
        self.facts = end.facts
        self.schema = pa.schema(list(end.columns)[1:])

    @classmethod
    def open(cls, path: str | os.PathLike[str], described: dict[str, Any] | None = None) -> Master:
        """The table in a file: a path, or a URI that `pyarrow.fs` knows.

        With a description, an error is raised if it is that of another table.
        """
        file = _open(os.fspath(path))
        try:
            found = cls(file, _read_end(file))
            if described is not None and described != found.describe() | {
                "name": described["name"]
            }:
                raise damaged(file.name, "is not the one that was laid down")
            return found
        except BaseException:
            file.close()
            raise

    def describe(self) -> dict[str, Any]:
        """What a manifest has to say of it, as JSON values."""
        return describe(self._file.name, self._file.size, self._checksum, self.facts)

    @property
    def name(self) -> str:
        """Its path or URI."""
        return self._file.name

    @property
    def version(self) -> str:
        return str(self.facts["version"])

    @property
    def rows(self) -> int:
        return int(self.facts["rows"])

    @property
    def distinct(self) -> int:
        """How many codes there are."""
        return int(self.facts["codes"])

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, as they are in the file."""
        return int(self.places.ends[-1] - self.places.ends[0])

    @property
    def first(self) -> Codes:
        """The smallest code of each block."""
        return self.places.first

    @property
    def last(self) -> Codes:
        """The largest code of each block: the first of the next one, if its rows go on there."""
        return self.places.last

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each block."""
        return self.places.lengths

    @property
    def largest_block(self) -> int:
        """Bytes of the largest block; 0 if there is none."""
        return int(self.lengths.max(initial=0))

    @property
    def block_rows(self) -> NDArray[np.int64]:
        return self.places.rows

    def __len__(self) -> int:
        """How many blocks it has."""
        return len(self.places)

    def read(self, first: int, last: int) -> MasterRows:
        """The rows of the blocks from `first` to before `last`, with one read."""
        batches = self.read_blocks(first, last)
        return MasterRows.of(batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def read_blocks(self, first: int, last: int) -> list[pa.RecordBatch]:
        """The same block by block, each with its codes as its first column."""
        ends = self.places.ends
        start, stop = int(ends[first]), int(ends[last])
        content = memoryview(self._file.read(start, stop - start))
        if len(content) != stop - start:
            raise damaged(self._file.name, "is shorter than what was written")
        batches = []
        for block in range(first, last):
            message = content[int(ends[block]) - start : int(ends[block + 1]) - start]
            if xxhash.xxh3_64_intdigest(message) != int(self.places.checksums[block]):
                raise damaged(self._file.name, "has been altered")
            batches.append(pa.ipc.read_record_batch(pa.py_buffer(message), self._columns))
        return batches

    def part(self, first: int, before: int | None) -> Master:
        """What may have codes from `first` on, and below `before` if it is not None, as a table of
        its own: it is read, and closed, apart from the others."""
        places = self.places.between(first, before)
        rows = int(places.rows.sum())
        share = rows / max(self.rows, 1)
        # How many codes of the blocks there are is not known apart; it is for people to read.
        facts = self.facts | {"rows": rows, "codes": round(self.distinct * share)}
        return Master(self._file.again(), MasterEnd(self._columns, places, facts, self._checksum))

    def close(self) -> None:
        self._file.close()


def describe(name: str, size: int, checksum: int, facts: dict[str, Any]) -> dict[str, Any]:
    """A file of a master table as JSON values. The checksum is written as text: it is too large for
    numbers in other languages' JSON."""
    return {
        "name": name.rpartition("/")[2],
        "size": size,
        "checksum": f"{checksum:016x}",
        "version": facts["version"],
        "rows": facts["rows"],
    }


class _File(Protocol):
    """A file that is read from any place."""

    name: str
    size: int

    def read(self, offset: int, length: int) -> Any: ...

    def again(self) -> _File:
        """The same file, opened once more, even if it has no name any more."""
        ...

    def close(self) -> None: ...


class _LocalFile:
    def __init__(self, path: str, descriptor: int | None = None) -> None:
        """`descriptor` is that of the file, if it is open already."""
        self.name = path
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY) if descriptor is None else descriptor
            self.size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise damaged(path, f"cannot be opened ({error.strerror})") from error

    def read(self, offset: int, length: int) -> bytes:
        try:
            content = os.pread(self._descriptor, length, offset)
            # One call reads no more than 2 GB.
            while len(content) < length and (
                more := os.pread(self._descriptor, length - len(content), offset + len(content))
            ):
                content += more
            return content
        except OSError as error:
            raise damaged(self.name, f"cannot be read ({error.strerror})") from error

    def again(self) -> _LocalFile:
        return _LocalFile(self.name, os.dup(self._descriptor))

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

    def again(self) -> _RemoteFile:
        return _RemoteFile(self.name)

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
