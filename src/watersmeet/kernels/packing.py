"""Laying the parts of composite keys end to end, one byte string per row.

`cursor[i]` is where the next part of row `i` goes; every call moves it past the bytes it wrote.
Parts are copied by address and a word at a time, for the reason given in `hashing`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_OUT_BYTES = types.Array(types.uint8, 1, "C")
_OFFSETS_32 = types.Array(types.int32, 1, "C", readonly=True)
_OFFSETS_64 = types.Array(types.int64, 1, "C", readonly=True)
_CURSOR = types.Array(types.int64, 1, "C")

_1, _4, _8 = np.uint64(1), np.uint64(4), np.uint64(8)


def _mover(bits):
    """A function that copies one word of `bits` from any address to any other."""

    @intrinsic
    def move(typingctx, to, start):
        def generate(context, builder, signature, args):
            word = ir.IntType(bits).as_pointer()
            target, source = (builder.inttoptr(address, word) for address in args)
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return move


_move_8, _move_32, _move_64 = _mover(8), _mover(32), _mover(64)


@njit(nogil=True, cache=True)
def _copy(to, start, length):
    """Copy a span; the last word of a long one overlaps the word before it."""
    if length >= _8:
        last = length - _8
        done = np.uint64(0)
        while done < last:
            _move_64(to + done, start + done)
            done += _8
        _move_64(to + last, start + last)
    elif length >= _4:
        _move_32(to, start)
        _move_32(to + length - _4, start + length - _4)
    elif length > np.uint64(0):
        _move_8(to, start)
        _move_8(to + (length >> _1), start + (length >> _1))
        _move_8(to + length - _1, start + length - _1)


@njit([types.void(_OUT_BYTES, _CURSOR, _BYTES, types.int64)], nogil=True, cache=True)
def place_fixed(out, cursor, parts, width):
    """Append `width` bytes of `parts` to every row."""
    to, start, step = np.uint64(out.ctypes.data), np.uint64(parts.ctypes.data), np.uint64(width)
    for row in range(cursor.size):
        _copy(to + np.uint64(cursor[row]), start + np.uint64(row) * step, step)
        cursor[row] += width


@njit(
    [
        types.void(_OUT_BYTES, _CURSOR, _BYTES, _OFFSETS_32),
        types.void(_OUT_BYTES, _CURSOR, _BYTES, _OFFSETS_64),
    ],
    nogil=True,
    cache=True,
)
def place_bytes(out, cursor, parts, offsets):
    """Append `parts[offsets[i]:offsets[i + 1]]` to row `i`."""
    to, base = np.uint64(out.ctypes.data), np.uint64(parts.ctypes.data)
    for row in range(cursor.size):
        start, length = np.uint64(offsets[row]), np.int64(offsets[row + 1]) - offsets[row]
        _copy(to + np.uint64(cursor[row]), base + start, np.uint64(length))
        cursor[row] += length
