"""Columns whose rows have numbers of values in a dictionary, as files have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.kernels import pages
from watersmeet.rows.buffers import aligned, fixed_bytes

Positions = NDArray[np.int64]
_ALL: Positions = np.empty(0, np.int64)
_WORDS: dict[int, np.dtype[Any]] = {32: np.dtype(np.int32), 64: np.dtype(np.int64)}


def taken(column: pa.Array, rows: Positions | None) -> pa.Array:
    """The values of some rows of a column, or of all: those of a dictionary in their places."""
    if not pt.is_dictionary(column.type):
        return column if rows is None else column.take(pa.array(rows))
    kind = column.type.value_type
    bits = kind.bit_width if pt.is_primitive(kind) or pt.is_decimal64(kind) else 0
    if bits not in _WORDS or column.null_count or column.dictionary.null_count:
        return (column if rows is None else column.take(pa.array(rows))).dictionary_decode()
    dtype = _WORDS[bits]
    known = aligned(fixed_bytes(column.dictionary, dtype.itemsize).view(dtype))
    found = words_at(known, column.indices, rows)
    return pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(found)])


def words_at(known: NDArray[Any], numbers: pa.Array, rows: Positions | None = None) -> NDArray[Any]:
    """The words that have these numbers, of four or eight bytes; of some rows, or of all."""
    places = numbers.to_numpy().astype(np.int32, copy=False)
    found = np.empty(len(places) if rows is None else len(rows), known.dtype)
    if len(found):
        kind = _WORDS[8 * known.itemsize]
        pages.take_values(
            known.view(kind), places, _ALL if rows is None else rows, found.view(kind)
        )
    return found
