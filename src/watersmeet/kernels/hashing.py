"""Hashes of keys, and exact equality of the bytes behind equal hashes.

A key that fits 64 bits is hashed by a bijection, so equal hashes are equal keys. Longer keys are
hashed as bytes and compared as bytes. High bits of a hash choose partitions and low bits choose
buckets, so every bit must depend on the whole key.

Bytes are read by address, a word at a time. When helpers were given arrays instead, numba counted
references in the innermost loop, and comparing short strings took six times as long.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from watersmeet.kernels.words import PRIME_1, PRIME_2, PRIME_4, PRIME_5, read_8, read_32, read_64

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
_OFFSETS_32 = types.Array(types.int32, 1, "C", readonly=True)
_OFFSETS_64 = types.Array(types.int64, 1, "C", readonly=True)
_INDEX = types.Array(types.int64, 1, "C", readonly=True)

# Unsigned throughout: numba makes a float of int64 + uint64.
_1, _4, _8 = np.uint64(1), np.uint64(4), np.uint64(8)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(nogil=True, cache=True)
def _mix(code):
    """Steele, Lea and Flood's SplitMix64 finaliser (OOPSLA 2014): a bijection of 64 bits."""
    code = code + _GOLDEN
    code = (code ^ (code >> np.uint64(30))) * _MIX_1
    code = (code ^ (code >> np.uint64(27))) * _MIX_2
    return code ^ (code >> np.uint64(31))


@njit(nogil=True, cache=True)
def _absorb(state, word):
    """One step of XXH64 (Collet, 2012)."""
    word = word * PRIME_2
    state = state ^ (((word << np.uint64(31)) | (word >> np.uint64(33))) * PRIME_1)
    return ((state << np.uint64(27)) | (state >> np.uint64(37))) * PRIME_1 + PRIME_4


@njit(nogil=True, cache=True)
def _short_word(address, length):
    """Up to seven bytes as a word. Different strings of one length have different words."""
    if length >= _4:
        return read_32(address) | (read_32(address + length - _4) << np.uint64(32))
    if length == np.uint64(0):
        return np.uint64(0)
    middle, last = address + (length >> _1), address + length - _1
    return read_8(address) | (read_8(middle) << _8) | (read_8(last) << np.uint64(16))


@njit(nogil=True, cache=True)
def _hash_span(address, length):
    # The length is part of the seed because the last word overlaps the one before it.
    state = _GOLDEN ^ (length * PRIME_5)
    if length < _8:
        return _mix(_absorb(state, _short_word(address, length)))
    last = address + length - _8
    while address < last:
        state = _absorb(state, read_64(address))
        address += _8
    return _mix(_absorb(state, read_64(last)))


@njit(nogil=True, cache=True)
def _equal_spans(a, b, length):
    if length < _8:
        return _short_word(a, length) == _short_word(b, length)
    last = a + length - _8
    last_b = b + length - _8
    while a < last:
        if read_64(a) != read_64(b):
            return False
        a += _8
        b += _8
    return read_64(last) == read_64(last_b)


@njit([types.uint64[::1](_HASHES)], nogil=True, cache=True)
def hash_codes(codes):
    """Hashes of keys that are 64-bit codes. Distinct codes have distinct hashes."""
    hashes = np.empty(codes.size, np.uint64)
    for row in range(codes.size):
        hashes[row] = _mix(codes[row])
    return hashes


@njit(
    [types.uint64[::1](_BYTES, _OFFSETS_32), types.uint64[::1](_BYTES, _OFFSETS_64)],
    nogil=True,
    cache=True,
)
def hash_bytes(data, offsets):
    """Hashes of the byte strings `data[offsets[i]:offsets[i + 1]]`."""
    hashes = np.empty(max(offsets.size - 1, 0), np.uint64)
    base = np.uint64(data.ctypes.data)
    for row in range(hashes.size):
        start, stop = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        hashes[row] = _hash_span(base + start, stop - start)
    return hashes


@njit([types.uint64[::1](_BYTES, types.int64, types.int64)], nogil=True, cache=True)
def hash_fixed(data, width, rows):
    """Hashes of `rows` byte strings of `width` bytes; the same as `hash_bytes` gives for them."""
    hashes = np.empty(rows, np.uint64)
    base, step = np.uint64(data.ctypes.data), np.uint64(width)
    for row in range(rows):
        hashes[row] = _hash_span(base + np.uint64(row) * step, step)
    return hashes


@njit([types.void(types.uint64[::1], _HASHES)], nogil=True, cache=True)
def fold(hashes, words):
    """Make another word a part of each hash, in place."""
    for row in range(hashes.size):
        hashes[row] = _mix(hashes[row] * PRIME_1 + words[row])


_SIDE = (_BYTES, _OFFSETS_64, types.int64, _INDEX)


@njit([types.boolean[::1](*_SIDE, *_SIDE)], nogil=True, cache=True)
def equal_bytes(data_a, offsets_a, width_a, index_a, data_b, offsets_b, width_b, index_b):
    """Whether the byte strings at `index_a[i]` and `index_b[i]` are equal.

    Empty offsets mean that the strings of that side have a fixed width; the other's may vary.
    """
    equal = np.empty(index_a.size, np.bool_)
    base_a, base_b = np.uint64(data_a.ctypes.data), np.uint64(data_b.ctypes.data)
    fixed_a, fixed_b = offsets_a.size == 0, offsets_b.size == 0
    for i in range(index_a.size):
        row_a, row_b = index_a[i], index_b[i]
        if fixed_a:
            start_a, length_a = row_a * width_a, width_a
        else:
            start_a = offsets_a[row_a]
            length_a = offsets_a[row_a + 1] - start_a
        if fixed_b:
            start_b, length_b = row_b * width_b, width_b
        else:
            start_b = offsets_b[row_b]
            length_b = offsets_b[row_b + 1] - start_b
        equal[i] = length_a == length_b and _equal_spans(
            base_a + np.uint64(start_a), base_b + np.uint64(start_b), np.uint64(length_a)
        )
    return equal


@njit([types.uint16[::1](_HASHES, types.int64)], nogil=True, cache=True)
def partition_of(hashes, partitions):
    """Partition of every hash: its high 32 bits scaled to [0, partitions), at most 65,536."""
    chosen = np.empty(hashes.size, np.uint16)
    count = np.uint64(partitions)
    for row in range(hashes.size):
        chosen[row] = np.uint16(((hashes[row] >> np.uint64(32)) * count) >> np.uint64(32))
    return chosen
