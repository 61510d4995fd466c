"""A directory of spilled rows: blocks are written once, and checked when they are read.

A file is an Arrow IPC stream, so any Arrow reader can open it. Blocks are addressed by offset, and
the checksum of a block is kept outside of the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

import pyarrow as pa
import xxhash

from watersmeet.errors import SpillCorrupted, SpillError

_BUFFER_BYTES = 128 * 1024
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class IoKind(StrEnum):
    FLUSH = "flush"
    """Rows leave memory as a new run."""
    SCAN = "scan"
    """An md-task reads a run from its start."""
    MERGE_READ = "merge-read"
    MERGE_WRITE = "merge-write"
    """A dd-task reads several runs together and writes them as one."""


class Io(NamedTuple):
    """One block that was written or read; `first` if the reading or writing of its run began with
    it."""

    kind: IoKind
    rows: int
    bytes: int
    first: bool


class Block(NamedTuple):
    """Where a block is. A tuple of numbers, since the garbage collector does not look at those: of
    joins in little memory there are tens of thousands."""

    offset: int
    length: int
    checksum: int
    rows: int
    first_code: int
    last_code: int


class SpillArea:
    """Files of one operator, in a directory of their own that `close` removes."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        block_bytes: int = 256 * 1024,
        observe: Callable[[Io], None] | None = None,
        argument: str = "spill_dir",
    ) -> None:
        """`argument` is what the user calls the directory."""
        self.block_bytes = block_bytes
        self._observe = observe
        self._files = 0
        self._runs_in: Counter[str] = Counter()
        self._writers: WeakSet[BlockWriter] = WeakSet()
        base = Path(directory) if directory is not None else Path(tempfile.gettempdir())
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"watersmeet-{os.getpid()}-", dir=base))
        except OSError as error:
            raise unusable(base, error, argument=argument) from error

    def create(self, schema: pa.Schema, kind: IoKind) -> BlockWriter:
        self._files += 1
        path = self.path / f"run-{self._files:06}.arrow"
        writer = BlockWriter(path, schema, self._told(kind))
        self._writers.add(writer)
        return writer

    def open(self, name: str, schema: pa.Schema, kind: IoKind) -> BlockReader:
        return BlockReader(self.path / name, schema, self._told(kind))

    def retain(self, name: str) -> None:
        """Count one more run in this file."""
        self._runs_in[name] += 1

    def release(self, name: str) -> None:
        """Count one run less in this file, and remove it if that was the last."""
        self._runs_in[name] -= 1
        if self._runs_in[name] <= 0:
            del self._runs_in[name]
            (self.path / name).unlink(missing_ok=True)

    def adopt(self, other: Path, name: str) -> str:
        """Link or copy a file from another directory, under a new name, which is returned."""
        self._files += 1
        mine = f"run-{self._files:06}.arrow"
        try:
            try:
                os.link(other / name, self.path / mine)
            except OSError:
                shutil.copyfile(other / name, self.path / mine)
        except OSError as error:
            raise unusable(self.path, error) from error
        return mine

    def close(self) -> None:
        for writer in tuple(self._writers):
            writer.abandon()
        shutil.rmtree(self.path, ignore_errors=True)

    def _told(self, kind: IoKind) -> Callable[[int, int, bool], None]:
        observe = self._observe
        if observe is None:
            return lambda rows, nbytes, first: None
        return lambda rows, nbytes, first: observe(Io(kind, rows, nbytes, first))


Told = Callable[[int, int, bool], None]


class BlockWriter:
    """Appends blocks to a new file; `finish` makes it complete, `abandon` removes it."""

    def __init__(self, path: Path, schema: pa.Schema, told: Told) -> None:
        self.path = path
        self._told = told
        try:
            # Blocks can be small, and a system call for each was a tenth of a flush.
            self._file = path.open("xb", buffering=_BUFFER_BYTES)
            self._offset = self._file.write(schema.serialize())
        except OSError as error:
            raise unusable(path.parent, error) from error

    def append(self, batch: pa.RecordBatch, codes: tuple[int, int], *, first: bool) -> Block:
        """Write one block; `first` if it is the first of its run."""
        message = batch.serialize()
        try:
            length = self._file.write(message)
        except OSError as error:
            self.abandon()
            raise unusable(self.path.parent, error) from error
        checksum = xxhash.xxh3_64_intdigest(message)
        block = Block(self._offset, length, checksum, len(batch), *codes)
        self._offset += length
        self._told(len(batch), length, first)
        return block

    def finish(self) -> str:
        try:
            self._file.write(_END_OF_STREAM)
            self._file.close()
        except OSError as error:
            self.abandon()
            raise unusable(self.path.parent, error) from error
        return self.path.name

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # Closing writes buffered bytes, which may fail again.
            self._file.close()
        self.path.unlink(missing_ok=True)


class BlockReader:
    """Reads blocks of one file, and raises an error for a block that has changed since."""

    def __init__(self, path: Path, schema: pa.Schema, told: Told) -> None:
        self._path = path
        self._schema = schema
        self._told = told
        self._first = True
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise corrupted(path, f"cannot be opened ({error.strerror})") from error

    def read(self, block: Block) -> pa.RecordBatch:
        try:
            message = os.pread(self._descriptor, block.length, block.offset)
        except OSError as error:
            raise corrupted(self._path, f"cannot be read ({error.strerror})") from error
        if len(message) != block.length:
            raise corrupted(self._path, "is shorter than what was written")
        if xxhash.xxh3_64_intdigest(message) != block.checksum:
            raise corrupted(self._path, "has been altered")
        self._told(block.rows, block.length, self._first)
        self._first = False
        return pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def corrupted(path: Path, what: str) -> SpillCorrupted:
    return SpillCorrupted(
        f"The spilled file {path} {what}.",
        remedy="Nothing was read from it. Keep other programs out of the spill directory, check "
        "the disk, and run the join again.",
    )


def unusable(directory: Path, error: OSError, *, argument: str = "spill_dir") -> SpillError:
    """The error for a directory that cannot be used, which the user gave as `argument`."""
    name = "spill directory" if argument == "spill_dir" else argument
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        more = ", or give the join more memory" if argument == "spill_dir" else ""
        return SpillError(
            f"The {name} {directory} is full.",
            remedy=f"Free some space, or choose another `{argument}`{more}.",
        )
    return SpillError(
        f"Cannot write to the {name} {directory} ({error.strerror or error}).",
        remedy=f"Choose a `{argument}` that exists and is writable.",
    )
