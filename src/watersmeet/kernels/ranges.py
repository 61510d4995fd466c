"""Copying and moving ranges of neighbouring values, such as the elements of lists."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_OUT_BYTES = types.Array(types.uint8, 1, "C")
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_OUT_I64 = types.Array(types.int64, 1, "C")
_OUT_I32 = types.Array(types.int32, 1, "C")


@njit(types.void(_BYTES, _I64, _I64, _OUT_BYTES), cache=True, nogil=True)
def copy_ranges(data, starts, stops, out):
    """Copy bytes [starts[k], stops[k]) of every k to `out`, end to end."""
    position = 0
    for k in range(starts.size):
        for b in range(starts[k], stops[k]):
            out[position] = data[b]
            position += 1


@njit(
    [types.void(_I64, _I64, _I64, _OUT_I32), types.void(_I64, _I64, _I64, _OUT_I64)],
    cache=True,
    nogil=True,
)
def lay_out_ranges(offsets, starts, stops, out):
    """Write the offsets that values starts[k] .. stops[k] - 1 of every k have when end to end."""
    position, total = 0, np.int64(0)
    for k in range(starts.size):
        for row in range(starts[k], stops[k]):
            out[position] = total
            position += 1
            total += offsets[row + 1] - offsets[row]
    out[position] = total


@njit(types.int64(_OUT_BYTES, _I64, _I64), cache=True, nogil=True)
def move_ranges(data, starts, stops):
    """Move bytes [starts[k], stops[k]) of every k to the front, in place; `starts` ascend. Returns
    how many bytes are left."""
    position = np.int64(0)
    for k in range(starts.size):
        if starts[k] == position:
            position = stops[k]
            continue
        for b in range(starts[k], stops[k]):
            data[position] = data[b]
            position += 1
    return position


@njit(types.int64(_OUT_I64, _I64, _I64), cache=True, nogil=True)
def move_offsets(offsets, starts, stops):
    """Move the offsets of values that `move_ranges` moves; returns how many values are left."""
    kept, position = np.int64(0), np.int64(0)
    for k in range(starts.size):
        for row in range(starts[k], stops[k]):
            length = offsets[row + 1] - offsets[row]
            offsets[kept] = position
            kept += 1
            position += length
    offsets[kept] = position
    return kept
