"""The bytes of Arrow arrays as NumPy arrays, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

_NO_BYTES = np.empty(0, np.uint8)


def bytes_of(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    """A buffer's bytes without a copy. Arrow has None for a buffer that no row needs."""
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def fixed_bytes(array: pa.Array, width: int) -> NDArray[np.uint8]:
    """The bytes of an array whose values are `width` bytes each, null or not."""
    start = array.offset * width
    values = bytes_of(array.buffers()[1])[start : start + len(array) * width]
    # An array of nulls may come without values.
    return values if len(values) or not len(array) else np.zeros(len(array) * width, np.uint8)


def variable_bytes(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Bytes and offsets of a string or binary array; of a slice, the offsets of its rows only."""
    _, offsets, values = array.buffers()
    large = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    kind = np.int64 if large else np.int32
    if offsets is None or not len(array):
        return _NO_BYTES, np.zeros(len(array) + 1, kind)
    own = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1]
    return bytes_of(values), aligned(own)


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """The values, copied if they are not aligned: kernels assume it, Arrow only recommends it."""
    return values if values.flags.aligned else values.copy()


def has_offsets(kind: pa.DataType) -> bool:
    """Whether arrays of this type are one buffer of bytes and one of offsets."""
    return bool(
        pt.is_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_string(kind)
        or pt.is_large_binary(kind)
    )
