"""Writes the file of a master table, from rows that come in order of code."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.fs as fs
import xxhash

from watersmeet.rows.address import Index
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.widths import row_widths
from watersmeet.store.master.blocks import MAGIC, BlockPlaces, MasterEnd, Place
from watersmeet.store.spill import unusable

_BUFFER_BYTES = 128 * 1024

CODE = pa.field("__code", pa.uint64(), nullable=False)


class Out(Protocol):
    """A file that bytes are appended to."""

    def write(self, content: Any, /) -> Any: ...


class MasterWriter:
    """Writes blocks of about so many bytes; `finish` makes the file complete."""

    def __init__(self, out: Out, schema: pa.Schema, block_bytes: int) -> None:
        self._out = out
        self._columns = with_code(schema)
        self._block_bytes = block_bytes
        self._places: list[Place] = []
        self._offset = len(MAGIC)
        self.size = 0
        """Bytes of the file, once it is complete."""
        self._rows = self._repeated = 0
        self._last: int | None = None
        out.write(MAGIC)

    def append(self, codes: Codes, rows: pa.RecordBatch, order: Index | None = None) -> None:
        """Write more rows, with codes that rise, none of them below those before.

        `order` says where in `rows` each of them is, if that is not in the order of the codes.
        """
        self._count(codes)
        source = BatchRows(rows)
        for start, stop in self._cuts(rows, order):
            if order is None:
                columns = [column.slice(start, stop - start) for column in rows.columns]
            else:
                part = order[start:stop]
                columns = [source.take(column, part) for column in range(rows.num_columns)]
            self._write(codes[start:stop], columns)

    def finish(self, facts: dict[str, Any]) -> MasterEnd:
        """Write what is behind the blocks; what it says."""
        facts = facts | {"rows": self._rows, "codes": self._rows - self._repeated}
        places = BlockPlaces.of(self._places, until=self._offset)
        content, checksum = MasterEnd(self._columns, places, facts).to_bytes()
        self._out.write(content)
        self.size = self._offset + len(content)
        return MasterEnd(self._columns, places, facts, checksum)

    def _count(self, codes: Codes) -> None:
        self._rows += len(codes)
        self._repeated += int((codes[1:] == codes[:-1]).sum())
        self._repeated += bool(len(codes)) and self._last == int(codes[0])
        self._last = int(codes[-1]) if len(codes) else self._last

    def _cuts(self, rows: pa.RecordBatch, order: Index | None) -> Iterator[tuple[int, int]]:
        """Where blocks begin and end."""
        widths = row_widths(rows)
        ends = np.cumsum(widths if order is None else widths[order])
        ends += CODE.type.bit_width // 8 * np.arange(1, len(ends) + 1)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + self._block_bytes, side="right"))
            stop = max(stop, start + 1)
            yield start, stop
            start = stop

    def _write(self, codes: Codes, columns: list[pa.Array]) -> None:
        batch = pa.RecordBatch.from_arrays([pa.array(codes), *columns], schema=self._columns)
        message = batch.serialize()
        self._out.write(message)
        checksum = xxhash.xxh3_64_intdigest(message)
        self._places.append((self._offset, checksum, int(codes[0]), int(codes[-1]), len(codes)))
        self._offset += message.size


def with_code(schema: pa.Schema) -> pa.Schema:
    """The columns of a file of rows with this schema."""
    return pa.schema([CODE, *schema])


@contextlib.contextmanager
def new_file(target: str | os.PathLike[str], argument: str) -> Iterator[Out]:
    """A new file, at a path or at a URI that `pyarrow.fs` knows, for whoever is inside to write.

    A file of this machine appears under its name when it is complete. Errors of the file system
    are raised as errors about the user's `argument`.
    """
    place = os.fspath(target)
    if "://" in place:
        system, place = fs.FileSystem.from_uri(place)
        if not isinstance(system, fs.LocalFileSystem):
            with _usable(Path(place).parent, argument), system.open_output_stream(place) as stream:
                yield stream
            return
    final = Path(place)
    # A name of its own: a task that is tried again may write the same file at the same time.
    draft = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.draft")
    try:
        with _usable(final.parent, argument):
            with draft.open("xb", buffering=_BUFFER_BYTES) as file:
                yield file
            draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _usable(directory: Path, argument: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unusable(directory, error, argument=argument) from error
