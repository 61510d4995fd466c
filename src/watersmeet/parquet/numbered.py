"""Columns of numbers as files have them: each value once, and for each row the number of its value.

Arrow's reader gives text like this, and puts the value of every row in place where it reads
numbers. Who needs some of the rows, or compares values, has less to do with the numbers of values
in the file's dictionary: of a key, those of the dictionary are looked up and not those of all rows.
Pages of Snappy and pages that are not compressed are read in one call without Python's lock, others
are decompressed by Arrow first. Whatever is not as most writers write it is left to Arrow's reader.
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
_SNAPPY = "snappy"
_TEXTS = (pa.string(), pa.binary())
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_NUMBER_BYTES = 4
Table = NDArray[np.int64]
"""Pages, each a row."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column in one row group: where its bytes are, and what they mean."""

    offset: int
    stored: int
    """Bytes, compressed."""
    nbytes: int
    rows: int
    codec: str | None
    dtype: np.dtype[Any] | None
    """Of the values in the file; None of texts."""
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
            not _agree(column.physical_type, wanted)
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
        return self.stored + self.nbytes + _NUMBER_BYTES * self.rows


def _agree(physical: str, wanted: pa.DataType) -> bool:
    """Whether values of a type in memory are made of those of a type in the file."""
    if wanted in _TEXTS:
        return physical == "BYTE_ARRAY"
    if physical not in _STORED:
        return False
    bits = _STORED[physical].itemsize * 8
    return bool(bits == wanted.bit_width or (bits < wanted.bit_width and pt.is_decimal(wanted)))


@lru_cache
def _in_memory(kind: pa.DataType) -> pa.DataType | None:
    """The type of values that have the bytes of the file; None of others."""
    if pt.is_decimal128(kind):
        return pa.decimal64(kind.precision, kind.scale) if kind.precision <= 18 else None
    if kind in _VIEWS:
        return _VIEWS[kind]
    same = (pa.int32(), pa.int64(), pa.date32(), pa.float64(), *_TEXTS)
    return kind if kind in same else None


def read_numbered(data: bytes, column: StoredColumn) -> pa.DictionaryArray | None:
    """A column from its bytes; None if they are not all numbers of values in a dictionary."""
    raw: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
    found: Table = np.empty((_MOST_PAGES, 6), np.int64)
    count = pages.find_pages(raw, found)
    if count <= 0 or not _as_expected(found[:count], column):
        return None
    found = found[:count]
    if column.codec not in (None, _SNAPPY):
        raw, found = _inflated(data, found, pa.Codec(column.codec))
    dictionary = np.empty(found[0, 3], np.uint8)
    places = np.empty(column.rows, np.int32)
    is_snappy, distinct = column.codec == _SNAPPY, int(found[0, 4])
    if not pages.read_pages(raw, found, is_snappy, column.nullable, distinct, dictionary, places):
        return None
    values = _values(dictionary, column, distinct)
    if values is None:
        return None
    return pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)]),
        values,
        safe=False,
    )


def _as_expected(found: Table, column: StoredColumn) -> bool:
    """A dictionary first, then numbers of its values for all rows, and no more bytes than the
    footer says."""
    (kind, _, _, nbytes, distinct, encoding), *others = found.tolist()
    width = 0 if column.dtype is None else column.dtype.itemsize
    return (
        kind == _DICTIONARY_PAGE
        and encoding in (_PLAIN, _PLAIN_DICTIONARY)
        and nbytes > 0
        and (not width or nbytes == width * distinct)
        and all(
            kind == _DATA_PAGE and encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY) and nbytes > 0
            for kind, _, _, nbytes, _, encoding in others
        )
        and sum(count for *_, count, _ in others) == column.rows
        and nbytes + sum(nbytes for _, _, _, nbytes, *_ in others) <= column.nbytes
    )


def _inflated(data: bytes, found: Table, codec: Any) -> tuple[NDArray[np.uint8], Table]:
    """All pages as they were before they were compressed, by Arrow, and where each is then."""
    source = pa.py_buffer(data)
    table = found.copy()
    table[:, 2] = table[:, 3]
    table[1:, 1] = np.cumsum(table[:-1, 3])
    table[0, 1] = 0
    out = np.empty(table[:, 3].sum(), np.uint8)
    for (_, first, stored, nbytes, *_), start in zip(found.tolist(), table[:, 1], strict=True):
        page = codec.decompress(source.slice(first, stored), nbytes)
        out[start : start + nbytes] = np.frombuffer(page, np.uint8)
    return out, table


def _values(page: NDArray[np.uint8], column: StoredColumn, count: int) -> pa.Array | None:
    """The values of a dictionary."""
    if column.dtype is None:
        ends, texts = np.empty(count + 1, np.int32), np.empty(len(page), np.uint8)
        if not pages.split_texts(page, ends, texts):
            return None
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts)]
        return pa.Array.from_buffers(column.kind, count, buffers)
    values = page.view(column.dtype)
    if values.itemsize * 8 < column.kind.bit_width:
        values = values.astype(np.int64)
    return pa.Array.from_buffers(column.kind, count, [None, pa.py_buffer(values)])
