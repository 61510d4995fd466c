"""Rows of one Arrow batch, copied out by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.buffers import fixed_bytes, has_offsets, variable_bytes
from watersmeet.rows.values import (
    OFFSET_BYTES,
    Values,
    fixed_width,
    has_lists,
    is_ranged,
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
        self._longest: int | None = None

    def take(self, column: int, index: Index) -> pa.Array:
        kind = self._columns[column].type
        if has_lists(kind) and is_ranged(kind):
            return self._values_of(column).taken(index)
        return _TAKE.call([self._columns[column], pa.array(index)], _TRUSTED)

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
