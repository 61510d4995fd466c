"""Copying values by position, and closing the gaps that rows leave when they are dropped."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_OUT_BYTES = types.Array(types.uint8, 1, "C")
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_OUT_I64 = types.Array(types.int64, 1, "C")
_OUT_I32 = types.Array(types.int32, 1, "C")
_MASK = types.Array(types.boolean, 1, "C", readonly=True)


@njit(
    [
        types.void(types.Array(dtype, 1, "C", readonly=True), _I64, types.Array(dtype, 1, "C"))
        for dtype in (types.boolean, types.uint8, types.uint16, types.uint32, types.uint64)
    ],
    cache=True,
    nogil=True,
)
def take_values(values, index, out):
    """The chosen items of one word. Positions are not checked: they come from our own kernels."""
    for k in range(index.size):
        out[k] = values[np.uint64(index[k])]


@njit(
    [types.int64(_I64, _I64, _OUT_I32), types.int64(_I64, _I64, _OUT_I64)], cache=True, nogil=True
)
def lay_out(offsets, index, out_offsets):
    """Offsets of the chosen values laid end to end; returns their total length in bytes."""
    total = 0
    for k in range(index.size):
        out_offsets[k] = total
        total += offsets[index[k] + 1] - offsets[index[k]]
    out_offsets[index.size] = total
    return total


@njit(types.void(_I64, _BYTES, _I64, _OUT_BYTES), cache=True, nogil=True)
def copy_bytes(offsets, data, index, out):
    position = 0
    for k in range(index.size):
        start, stop = offsets[index[k]], offsets[index[k] + 1]
        for b in range(start, stop):
            out[position] = data[b]
            position += 1


@njit(types.void(_I64, _BYTES, _OUT_BYTES), cache=True, nogil=True)
def prefix_lengths(offsets, data, out):
    """Values end to end, each behind its length as four bytes."""
    position = 0
    for k in range(offsets.size - 1):
        start, stop = offsets[k], offsets[k + 1]
        length = stop - start
        for b in range(4):
            out[position + b] = (length >> (8 * b)) & 0xFF
        position += 4
        for b in range(start, stop):
            out[position] = data[b]
            position += 1


@njit(
    [
        types.void(offsets, _BYTES, _I64, types.int64, _OUT_I64, _OUT_BYTES)
        for offsets in (_I64, types.Array(types.int32, 1, "C", readonly=True))
    ],
    cache=True,
    nogil=True,
)
def append_bytes(offsets, data, index, at, out_offsets, out):
    """Lay the chosen values behind the first `at` ones of another column."""
    position = out_offsets[at]
    for k in range(index.size):
        start, stop = np.int64(offsets[index[k]]), np.int64(offsets[index[k] + 1])
        for b in range(start, stop):
            out[position + b - start] = data[b]
        position += stop - start
        out_offsets[at + k + 1] = position


@njit(types.void(_OUT_I64, _OUT_BYTES, _MASK), cache=True, nogil=True)
def close_gaps(offsets, data, keep):
    """Move the kept values to the front, in place and in order."""
    kept = 0
    position = np.int64(0)
    for row in range(keep.size):
        start, stop = offsets[row], offsets[row + 1]
        if keep[row]:
            offsets[kept] = position
            kept += 1
            if start != position:
                for b in range(start, stop):
                    data[position + b - start] = data[b]
            position += stop - start
    offsets[kept] = position


@njit(
    [
        types.int64(types.Array(dtype, 1, "C"), _MASK)
        for dtype in (
            types.boolean,
            types.uint8,
            types.uint16,
            types.uint32,
            types.uint64,
            types.int64,
        )
    ],
    cache=True,
    nogil=True,
)
def close_values(values, keep):
    """Move kept items of one word to the front, in place and in order; returns how many."""
    kept = 0
    for row in range(keep.size):
        values[kept] = values[row]
        kept += keep[row]
    return kept


@njit(types.int64(types.Array(types.uint64, 2, "C"), _MASK), cache=True, nogil=True)
def close_pairs(values, keep):
    """The same for items of two words."""
    kept = 0
    for row in range(keep.size):
        values[kept, 0] = values[row, 0]
        values[kept, 1] = values[row, 1]
        kept += keep[row]
    return kept
