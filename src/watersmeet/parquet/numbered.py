"""Columns of numbers as files have them: each value once, and for each row the number of its value.

Arrow's reader gives text like this, and puts the value of every row in place where it reads
numbers. Who needs some of the rows, or compares values, has less to do with the numbers of values
in the file's dictionary: of a key, those of the dictionary are looked up and not those of all rows.
Pages are decompressed by Arrow. Whatever is not as most writers write it is left to Arrow's reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.kernels import pages

_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_STORED: dict[str, np.dtype[Any]] = {
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "DOUBLE": np.dtype("<f8"),
}
# Pages of a chunk; one of more is left to Arrow.
_MOST_PAGES = 1024
# How Arrow says what a page's levels are: so many bytes for their length.
_LENGTH_BYTES = 4
_EMPTY: NDArray[np.int32] = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column in one row group: where its bytes are, and what they mean."""

    offset: int
    stored: int
    """Bytes, compressed."""
    nbytes: int
    rows: int
    codec: str | None
    dtype: np.dtype[Any]
    kind: pa.DataType
    """Of the values in memory."""
    nullable: bool
    """Whether pages say of each row that it is not null; none is."""

    @classmethod
    def of(
        cls, metadata: pq.FileMetaData, group: int, place: int, kind: pa.DataType
    ) -> StoredColumn | None:
        """None if it is to be read by Arrow. `place` is the column's, `kind` its type in Arrow."""
        wanted = _in_memory(kind)
        if wanted is None:
            return None
        column = metadata.row_group(group).column(place)
        dtype = _STORED.get(column.physical_type)
        described = metadata.schema.column(place)
        if (
            dtype is None
            or dtype.itemsize * 8 > wanted.bit_width
            or (dtype.itemsize * 8 < wanted.bit_width and not pt.is_decimal(wanted))
            or not column.has_dictionary_page
            or column.compression not in _CODECS
            or column.file_path
            or described.max_repetition_level
            or described.max_definition_level > 1
        ):
            return None
        nullable = described.max_definition_level == 1
        if nullable:
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                return None
        return cls(
            offset=column.dictionary_page_offset,
            stored=column.total_compressed_size,
            nbytes=column.total_uncompressed_size,
            rows=column.num_values,
            codec=_CODECS[column.compression],
            dtype=dtype,
            kind=wanted,
            nullable=nullable,
        )

    @property
    def needed(self) -> int:
        """Bytes that reading it takes: as stored, as decompressed, and the numbers."""
        return self.stored + self.nbytes + _EMPTY.itemsize * self.rows


def can_be_numbered(kind: pa.DataType) -> bool:
    return _in_memory(kind) is not None


@lru_cache
def _in_memory(kind: pa.DataType) -> pa.DataType | None:
    """The type of values that have the bytes of the file; None of others."""
    if pt.is_decimal128(kind):
        return pa.decimal64(kind.precision, kind.scale) if kind.precision <= 18 else None
    same = (pa.int32(), pa.int64(), pa.date32(), pa.float64())
    return kind if kind in same else None


def read_numbered(data: bytes, column: StoredColumn) -> pa.DictionaryArray | None:
    """A column from its bytes; None if they are not all numbers of values in a dictionary."""
    raw = np.frombuffer(data, np.uint8)
    found = np.empty((_MOST_PAGES, 6), np.int64)
    count = pages.find_pages(raw, found)
    if count <= 0 or found[:count, 3].sum() > column.nbytes:
        return None
    values: NDArray[Any] | None = None
    places = np.empty(column.rows, np.int32)
    codec = None if column.codec is None else pa.Codec(column.codec)
    source = pa.py_buffer(data)
    done = 0
    for kind, first, stored, nbytes, number, encoding in found[:count].tolist():
        if not nbytes:
            return None
        page = source.slice(first, stored)
        if kind == _DICTIONARY_PAGE:
            if values is not None or encoding not in (_PLAIN, _PLAIN_DICTIONARY):
                return None
            values = _values(_plain(page, nbytes, codec), column.dtype, number)
        elif kind == _DATA_PAGE and encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
            if values is None or done + number > column.rows:
                return None
            numbers = np.frombuffer(_plain(page, nbytes, codec), np.uint8)
            if column.nullable:
                levels = _all_there(numbers, number)
                if levels is None:
                    return None
                numbers = numbers[levels:]
            most = pages.unpack(numbers, places[done : done + number])
            if number and not 0 <= most < len(values):
                return None
            done += number
        else:
            return None
    if values is None or done != column.rows:
        return None
    return pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)]),
        _as(values, column.kind),
        safe=False,
    )


def _plain(page: pa.Buffer, nbytes: int, codec: Any) -> pa.Buffer:
    return page if codec is None else codec.decompress(page, nbytes)


def _values(page: pa.Buffer, dtype: np.dtype[Any], count: int) -> NDArray[Any] | None:
    return np.frombuffer(page, dtype) if page.size == dtype.itemsize * count else None


def _all_there(page: NDArray[np.uint8], rows: int) -> int | None:
    """Where the numbers of a page begin behind what says that no row is null; None if it does not
    say so in one run."""
    length = int.from_bytes(page[:_LENGTH_BYTES].tobytes(), "little")
    levels = page[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes()
    head = shift = 0
    for place, byte in enumerate(levels):
        head |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            one_run = not head & 1 and head >> 1 >= rows
            if not one_run or levels[place + 1 : place + 2] != b"\x01":
                return None
            return _LENGTH_BYTES + length
    return None


def _as(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    if values.itemsize * 8 < kind.bit_width:
        values = values.astype(np.int64)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
