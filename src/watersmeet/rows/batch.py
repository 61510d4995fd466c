"""Rows of one Arrow batch, copied out by position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.buffers import aligned, fixed_bytes, has_offsets, variable_bytes
from watersmeet.rows.values import (
    OFFSET_BYTES,
    Values,
    fixed_width,
    has_lists,
    is_ranged,
    values_at,
    values_of,
)

_NO_OFFSETS = np.empty(0, np.int64)

# Does not check positions, which come from our own kernels: checks took half the time of a `take`.
_TAKE = pc.get_function("array_take")
_TRUSTED = pc.TakeOptions(boundscheck=False)


class BatchRows:
    """A batch as a source of rows. It keeps the batch, and copies only the rows it is asked for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._columns = batch.columns
        self._buffers: dict[int, KeyBuffers] = {}
        self._values: dict[int, Values] = {}
        self._words: dict[int, NDArray[Any] | None] = {}
        self._longest: int | None = None

    def take(self, column: int, index: Index) -> pa.Array:
        array = self._columns[column]
        words = self._words_of(column, array)
        if words is not None:
            values = pa.py_buffer(values_at(words, index))
            return pa.Array.from_buffers(array.type, len(index), [None, values])
        if has_lists(array.type) and is_ranged(array.type):
            return self._values_of(column).taken(index)
        return _TAKE.call([array, pa.array(index)], _TRUSTED)

    def _words_of(self, column: int, array: pa.Array) -> NDArray[Any] | None:
        """The values of a column if each is one word and none is null: they are copied faster here
        than by Arrow."""
        if column not in self._words:
            dtype = None if array.null_count else _word_type(array.type)
            self._words[column] = (
                None
                if dtype is None or not len(array)
                else aligned(fixed_bytes(array, dtype.itemsize).view(dtype))
            )
        return self._words[column]

    def key_buffers(self, column: int) -> KeyBuffers:
        buffers = self._buffers.get(column)
        if buffers is None:
            buffers = self._buffers[column] = key_buffers(self._columns[column])
        return buffers

    def widths(self, column: int, index: Index) -> Index:
        return self._values_of(column).widths(index, index + 1)

    def longest(self, columns: Sequence[int]) -> int:
        if self._longest is None:
            self._longest = longest_values([self._columns[column] for column in columns])
        return self._longest

    def _values_of(self, column: int) -> Values:
        values = self._values.get(column)
        if values is None:
            values = self._values[column] = values_of(self._columns[column])
        return values


def longest_values(columns: Sequence[pa.Array]) -> int:
    """The longest value of each of these columns, added up."""
    longest = 0
    for column in columns:
        if not len(column):
            continue
        if has_offsets(column.type):
            # Every batch of text passes here twice; this takes a tenth of the time of the other.
            longest += int(np.diff(variable_bytes(column)[1]).max()) + OFFSET_BYTES
        else:
            every = np.arange(len(column))
            longest += int(values_of(column).widths(every, every + 1).max())
    return longest


@lru_cache
def _word_type(kind: pa.DataType) -> np.dtype[Any] | None:
    width = None if pt.is_boolean(kind) else fixed_width(kind)
    return np.dtype(f"u{width}") if width in (1, 2, 4, 8) else None


def is_variable(kind: pa.DataType) -> bool:
    """Whether values of a type differ in width, and their widths are known."""
    return is_ranged(kind) and fixed_width(kind) is None


def key_buffers(array: pa.Array) -> KeyBuffers:
    """Raw bytes of an array of any type with one value buffer."""
    if has_offsets(array.type):
        data, offsets = variable_bytes(array)
        return KeyBuffers(data, offsets.astype(np.int64, copy=False), 0)
    width = array.type.byte_width
    return KeyBuffers(fixed_bytes(array, width), _NO_OFFSETS, width)
