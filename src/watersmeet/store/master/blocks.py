"""What the file of a master table holds besides its rows: where each block is, and its codes.

    magic | blocks of rows, each a message of Arrow's | columns | where blocks are | facts | end

`end` has the lengths and the checksums of the three parts before it, so the file says all that is
needed to read it, and a damaged file is found out before a row of it is used.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from watersmeet.rows.encoded import Codes

MAGIC = b"WMASTER1"
_LENGTHS = struct.Struct("<QQQQ8s")
"""The lengths of columns, places and facts, the checksum of all three, and the magic again."""
END_BYTES = _LENGTHS.size

PLACE_BYTES = 40
_PLACE = np.dtype(
    [("offset", "<u8"), ("checksum", "<u8"), ("first", "<u8"), ("last", "<u8"), ("rows", "<u8")]
)
assert _PLACE.itemsize == PLACE_BYTES


@dataclass(frozen=True)
class BlockPlaces:
    """Where the blocks of a file are, in order of code. A code with many rows may span blocks."""

    table: NDArray[Any]
    until: int
    """Where the last block ends."""

    @classmethod
    def of(cls, places: list[tuple[int, int, int, int, int]], *, until: int) -> BlockPlaces:
        """(offset, checksum, first code, last code, rows) of each block."""
        return cls(np.array(places, _PLACE), until)

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def first(self) -> Codes:
        """The smallest code of each block."""
        return np.ascontiguousarray(self.table["first"])

    @cached_property
    def last(self) -> Codes:
        """The largest code of each block."""
        return np.ascontiguousarray(self.table["last"])

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        return self.table["rows"].astype(np.int64)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each block begins in the file, and where the last one ends."""
        return np.append(self.table["offset"].astype(np.int64), self.until)

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)


@dataclass(frozen=True)
class MasterEnd:
    """What is behind the blocks of a file."""

    columns: pa.Schema
    places: BlockPlaces
    facts: dict[str, Any]
    """The version and what else is to be known of it, as JSON values."""

    def to_bytes(self) -> bytes:
        columns = self.columns.serialize().to_pybytes()
        places = self.places.table.tobytes()
        facts = json.dumps(self.facts | {"until": self.places.until}).encode()
        content = columns + places + facts
        checksum = xxhash.xxh3_64_intdigest(content)
        lengths = _LENGTHS.pack(len(columns), len(places), len(facts), checksum, MAGIC)
        return content + lengths

    @staticmethod
    def length(end: bytes) -> int:
        """How many bytes come before the end, as the last `END_BYTES` of the file say; ValueError
        if these are not the end of a master table."""
        columns, places, facts, _, magic = _unpacked(end)
        if magic != MAGIC:
            raise ValueError("another magic")
        return int(columns + places + facts)

    @classmethod
    def from_bytes(cls, content: bytes, end: bytes) -> MasterEnd:
        """ValueError if the content is not what was written."""
        columns, places, _, checksum, _ = _unpacked(end)
        if xxhash.xxh3_64_intdigest(content) != checksum:
            raise ValueError("another checksum")
        schema = pa.ipc.read_schema(pa.py_buffer(content[:columns]))
        table = np.frombuffer(content[columns : columns + places], _PLACE)
        facts = json.loads(content[columns + places :])
        return cls(schema, BlockPlaces(table, facts.pop("until")), facts)


def _unpacked(end: bytes) -> tuple[int, int, int, int, bytes]:
    if len(end) != END_BYTES:
        raise ValueError("too short")
    columns, places, facts, checksum, magic = _LENGTHS.unpack(end)
    return columns, places, facts, checksum, magic
