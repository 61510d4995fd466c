"""Rows of one Arrow batch, copied out by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.rows.address import Index, KeyBuffers

_NO_BYTES = np.empty(0, np.uint8)
_NO_OFFSETS = np.empty(0, np.int64)

# Positions come from our own kernels; checking them took half the time of a `take`.
_TAKE = pc.get_function("array_take")
_TRUSTED = pc.TakeOptions(boundscheck=False)


def bytes_of(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    """A buffer's bytes without a copy. Arrow leaves buffers out where no row needs them."""
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def fixed_bytes(array: pa.Array, width: int) -> NDArray[np.uint8]:
    """The bytes of an array whose values are `width` bytes each, null or not."""
    start = array.offset * width
    values = bytes_of(array.buffers()[1])[start : start + len(array) * width]
    # An array of nulls may come without values.
    return values if len(values) or not len(array) else np.zeros(len(array) * width, np.uint8)


def variable_bytes(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Bytes and offsets of a string or binary array; the offsets are those of its own rows."""
    _, offsets, values = array.buffers()
    large = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    kind = np.int64 if large else np.int32
    if offsets is None or not len(array):
        return _NO_BYTES, np.zeros(len(array) + 1, kind)
    own = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1]
    return bytes_of(values), aligned(own)


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """Compiled loops assume alignment, which Arrow recommends and does not promise."""
    return values if values.flags.aligned else values.copy()


def has_offsets(kind: pa.DataType) -> bool:
    """Whether arrays of this type are one buffer of bytes and one of offsets."""
    return bool(
        pt.is_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_string(kind)
        or pt.is_large_binary(kind)
    )


class BatchRows:
    """A batch as a source of rows. Holds the batch; copies nothing until asked."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._columns = batch.columns
        self._buffers: dict[int, KeyBuffers] = {}

    def take(self, column: int, index: Index) -> pa.Array:
        return _TAKE.call([self._columns[column], pa.array(index)], _TRUSTED)

    def key_buffers(self, column: int) -> KeyBuffers:
        buffers = self._buffers.get(column)
        if buffers is None:
            buffers = self._buffers[column] = key_buffers(self._columns[column])
        return buffers


def key_buffers(array: pa.Array) -> KeyBuffers:
    """Raw bytes of an array of any type with one value buffer."""
    if has_offsets(array.type):
        data, offsets = variable_bytes(array)
        return KeyBuffers(data, offsets.astype(np.int64, copy=False), 0)
    width = array.type.byte_width
    return KeyBuffers(fixed_bytes(array, width), _NO_OFFSETS, width)
