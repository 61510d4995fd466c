"""What the file of a master table holds besides its rows: where each block is, and its codes.

    magic | blocks of rows, each a message of Arrow's | columns | where blocks are | facts | end

`end` has the lengths of the three parts before it and a checksum of all. Among them are the
checksums of the blocks, so that one number stands for all that the file holds, and a damaged file
is found out before a row of it is used.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from watersmeet.rows.encoded import Codes

MAGIC = b"WMASTER1"
_LENGTHS = struct.Struct("<QQQ")
"""The lengths of columns, places and facts."""
_CHECK = struct.Struct("<Q8s")
"""The checksum of all that, and the magic again."""
END_BYTES = _LENGTHS.size + _CHECK.size

_PARTS = 5
PLACE_BYTES = _PARTS * 8
"""What a block takes in the index of blocks."""

Place = tuple[int, int, int, int, int]
"""Of one block: where it begins, its checksum, its first and its last code, its rows."""


@dataclass(frozen=True)
class BlockPlaces:
    """Where the blocks of a file are, in order of code. A code with many rows may span blocks."""

    offsets: Codes
    """Where each block begins."""
    checksums: Codes
    first: Codes
    """The smallest code of each block."""
    last: Codes
    """The largest code of each block."""
    counts: Codes
    """The rows of each block."""
    until: int
    """Where the last block ends."""

    @classmethod
    def of(cls, places: Sequence[Place], *, until: int) -> BlockPlaces:
        table = np.array(places, "<u8").reshape(len(places), _PARTS)
        offsets, checksums, first, last, counts = np.ascontiguousarray(table.T)
        return cls(offsets, checksums, first, last, counts, until)

    @classmethod
    def from_bytes(cls, content: bytes, *, until: int) -> BlockPlaces:
        parts = np.frombuffer(content, "<u8").reshape(_PARTS, -1)
        offsets, checksums, first, last, counts = parts
        return cls(offsets, checksums, first, last, counts, until)

    def to_bytes(self) -> bytes:
        parts = (self.offsets, self.checksums, self.first, self.last, self.counts)
        return b"".join(part.tobytes() for part in parts)

    def between(self, first: int, before: int | None) -> BlockPlaces:
        """The blocks that may have codes from `first` on, and below `before` if it is not None."""
        start = int(np.searchsorted(self.last, np.uint64(first)))
        stop = len(self) if before is None else int(np.searchsorted(self.first, np.uint64(before)))
        part = slice(start, max(start, stop))
        return BlockPlaces(
            self.offsets[part],
            self.checksums[part],
            self.first[part],
            self.last[part],
            self.counts[part],
            until=int(self.ends[part.stop]),
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        return self.counts.view(np.int64)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each block begins in the file, and where the last one ends."""
        return np.append(self.offsets.view(np.int64), self.until)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each block."""
        return np.diff(self.ends)

    @property
    def nbytes(self) -> int:
        """Bytes of this index in memory."""
        return len(self) * (PLACE_BYTES + 8)


@dataclass(frozen=True)
class MasterEnd:
    """What is behind the blocks of a file."""

    columns: pa.Schema
    places: BlockPlaces
    facts: dict[str, Any]
    """The version and what else is to be known of it, as JSON values."""
    checksum: int = 0
    """Stands for all that the file holds; known when the end is written or read."""

    def to_bytes(self) -> tuple[bytes, int]:
        """The end of a file, and its checksum."""
        parts = (
            self.columns.serialize().to_pybytes(),
            self.places.to_bytes(),
            json.dumps(self.facts | {"until": self.places.until}).encode(),
        )
        lengths = _LENGTHS.pack(*map(len, parts))
        content = b"".join(parts)
        checksum = xxhash.xxh3_64_intdigest(content + lengths)
        return content + lengths + _CHECK.pack(checksum, MAGIC), checksum

    @staticmethod
    def length(end: bytes) -> int:
        """How many bytes come before the end, as the last `END_BYTES` of the file say; ValueError
        if these are not the end of a master table."""
        if len(end) != END_BYTES:
            raise ValueError("too short")
        _, magic = _CHECK.unpack_from(end, _LENGTHS.size)
        if magic != MAGIC:
            raise ValueError("another magic")
        return sum(_LENGTHS.unpack_from(end))

    @classmethod
    def from_bytes(cls, content: bytes, end: bytes) -> MasterEnd:
        """ValueError if the content is not what was written."""
        columns, places, _ = _LENGTHS.unpack_from(end)
        checksum, _ = _CHECK.unpack_from(end, _LENGTHS.size)
        if xxhash.xxh3_64_intdigest(content + end[: _LENGTHS.size]) != checksum:
            raise ValueError("another checksum")
        schema = pa.ipc.read_schema(pa.py_buffer(content[:columns]))
        facts = json.loads(content[columns + places :])
        table = content[columns : columns + places]
        return cls(schema, BlockPlaces.from_bytes(table, until=facts.pop("until")), facts, checksum)
