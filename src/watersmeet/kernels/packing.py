"""Laying the parts of composite keys end to end, one byte string per row.

`cursor[i]` is where the next part of row `i` goes; every call moves it past what it wrote.
"""

from __future__ import annotations

from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_OUT_BYTES = types.Array(types.uint8, 1, "C")
_OFFSETS_32 = types.Array(types.int32, 1, "C", readonly=True)
_OFFSETS_64 = types.Array(types.int64, 1, "C", readonly=True)
_CURSOR = types.Array(types.int64, 1, "C")


@njit([types.void(_OUT_BYTES, _CURSOR, _BYTES, types.int64)], nogil=True, cache=True)
def place_fixed(out, cursor, parts, width):  # type: ignore[no-untyped-def]
    """Append `width` bytes of `parts` to every row."""
    for row in range(cursor.size):
        to, start = cursor[row], row * width
        for i in range(width):
            out[to + i] = parts[start + i]
        cursor[row] = to + width


@njit(
    [
        types.void(_OUT_BYTES, _CURSOR, _BYTES, _OFFSETS_32),
        types.void(_OUT_BYTES, _CURSOR, _BYTES, _OFFSETS_64),
    ],
    nogil=True,
    cache=True,
)
def place_bytes(out, cursor, parts, offsets):  # type: ignore[no-untyped-def]
    """Append `parts[offsets[i]:offsets[i + 1]]` to row `i`."""
    for row in range(cursor.size):
        to, start, stop = cursor[row], offsets[row], offsets[row + 1]
        for i in range(start, stop):
            out[to + i - start] = parts[i]
        cursor[row] = to + stop - start
