"""Spark's `xxhash64`, bit for bit, and the instance of a join that a row belongs to by that hash.

A row's hash starts as Spark's seed and takes in one column's value after another; a null leaves it
as it is. Spark hashes values of up to 32 bits as four bytes, 64-bit values as eight, texts and
binaries as their bytes, and a decimal of more than 18 digits as the big-endian bytes of its
unscaled value, as few as hold its sign. `present` says which values are not null; it is empty when
none is.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from watersmeet.kernels.words import (
    PRIME_1,
    PRIME_2,
    PRIME_3,
    PRIME_4,
    PRIME_5,
    read_8,
    read_32,
    read_64,
)

SEED = 42

_HASHES = types.Array(types.uint64, 1, "C")
_SEEN_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
_INTS = types.Array(types.int32, 1, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_MASK = types.Array(types.boolean, 1, "C", readonly=True)

# Unsigned throughout: numba makes a float of int64 + uint64.
_1, _4, _8, _32 = np.uint64(1), np.uint64(4), np.uint64(8), np.uint64(32)
_LOW_WORD = np.uint64(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def _rotate(word, left):
    return (word << np.uint64(left)) | (word >> np.uint64(64 - left))


@njit(nogil=True, cache=True)
def _finish(state):
    state = (state ^ (state >> np.uint64(33))) * PRIME_2
    state = (state ^ (state >> np.uint64(29))) * PRIME_3
    return state ^ (state >> _32)


@njit(nogil=True, cache=True)
def _round(lane, word):
    return _rotate(lane + word * PRIME_2, 31) * PRIME_1


@njit(nogil=True, cache=True)
def _take_1(state, byte):
    return _rotate(state ^ (byte * PRIME_5), 11) * PRIME_1


@njit(nogil=True, cache=True)
def _take_4(state, word):
    return _rotate(state ^ (word * PRIME_1), 23) * PRIME_2 + PRIME_3


@njit(nogil=True, cache=True)
def _take_8(state, word):
    return _rotate(state ^ _round(np.uint64(0), word), 27) * PRIME_1 + PRIME_4


@njit(nogil=True, cache=True)
def _hash_span(seed, address, length):
    """XXH64 (Collet, 2012) of the bytes at an address."""
    end = address + length
    if length >= _32:
        a, b = seed + PRIME_1 + PRIME_2, seed + PRIME_2
        c, d = seed, seed - PRIME_1
        while address + _32 <= end:
            a = _round(a, read_64(address))
            b = _round(b, read_64(address + _8))
            c = _round(c, read_64(address + np.uint64(16)))
            d = _round(d, read_64(address + np.uint64(24)))
            address += _32
        state = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for lane in (a, b, c, d):
            state = (state ^ _round(np.uint64(0), lane)) * PRIME_1 + PRIME_4
    else:
        state = seed + PRIME_5
    state += length
    while address + _8 <= end:
        state = _take_8(state, read_64(address))
        address += _8
    if address + _4 <= end:
        state = _take_4(state, read_32(address))
        address += _4
    while address < end:
        state = _take_1(state, read_8(address))
        address += _1
    return _finish(state)


@njit([types.void(_HASHES, _INTS, _MASK)], nogil=True, cache=True)
def take_ints(hashes, values, present):
    """Take in booleans as 0 and 1, integers of up to 32 bits, dates, bits of floats."""
    for row in range(values.size):
        if present.size == 0 or present[row]:
            word = np.uint64(values[row]) & _LOW_WORD
            hashes[row] = _finish(_take_4(hashes[row] + PRIME_5 + _4, word))


@njit([types.void(_HASHES, _LONGS, _MASK)], nogil=True, cache=True)
def take_longs(hashes, values, present):
    """Take in 64-bit integers, moments, decimals of up to 18 digits, bits of doubles."""
    for row in range(values.size):
        if present.size == 0 or present[row]:
            hashes[row] = _finish(_take_8(hashes[row] + PRIME_5 + _8, np.uint64(values[row])))


@njit(
    [types.void(_HASHES, _BYTES, _INTS, _MASK), types.void(_HASHES, _BYTES, _LONGS, _MASK)],
    nogil=True,
    cache=True,
)
def take_bytes(hashes, data, offsets, present):
    """Take in the byte strings `data[offsets[i]:offsets[i + 1]]`."""
    base = np.uint64(data.ctypes.data)
    for row in range(hashes.size):
        if present.size == 0 or present[row]:
            start, stop = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
            hashes[row] = _hash_span(hashes[row], base + start, stop - start)


@njit([types.void(_HASHES, _BYTES, types.int64, _MASK)], nogil=True, cache=True)
def take_decimals(hashes, data, width, present):
    """Take in little-endian unscaled values of `width` bytes, as Java's `toByteArray` has them."""
    big_endian = np.empty(width, np.uint8)
    base = np.uint64(big_endian.ctypes.data)
    for row in range(hashes.size):
        if present.size == 0 or present[row]:
            start = row * width
            last = start + width - 1
            sign = data[last] >> 7
            # A leading byte is left out if it only repeats the first bit of the next one.
            while last > start and data[last] == 255 * sign and data[last - 1] >> 7 == sign:
                last -= 1
            length = last - start + 1
            for place in range(length):
                big_endian[place] = data[last - place]
            hashes[row] = _hash_span(hashes[row], base, np.uint64(length))


@njit([types.int32[::1](_SEEN_HASHES, types.int64)], nogil=True, cache=True)
def instance_of(hashes, instances):
    """Spark's `pmod(hash, instances)`, in which a hash is a signed number."""
    assigned = np.empty(hashes.size, np.int32)
    if instances & (instances - 1) == 0:
        # Usually the number is a power of two, and then a mask saves the division, which takes
        # longer than the hash.
        mask = np.uint64(instances - 1)
        for row in range(hashes.size):
            assigned[row] = np.int32(hashes[row] & mask)
    else:
        for row in range(hashes.size):
            # As in Python, the remainder has the divisor's sign.
            assigned[row] = np.int32(np.int64(hashes[row]) % instances)
    return assigned


@njit([types.UniTuple(types.int64[::1], 2)(_INTS, types.int64)], nogil=True, cache=True)
def group_by_instance(assigned, instances):
    """Row numbers grouped by instance, in their old order inside one, and where each group starts.

    Group `i` is `order[offsets[i]:offsets[i + 1]]`.
    """
    offsets = np.zeros(instances + 1, np.int64)
    for row in range(assigned.size):
        offsets[assigned[row] + 1] += 1
    for instance in range(instances):
        offsets[instance + 1] += offsets[instance]
    ends = offsets[:-1].copy()
    order = np.empty(assigned.size, np.int64)
    for row in range(assigned.size):
        instance = assigned[row]
        order[ends[instance]] = row
        ends[instance] += 1
    return order, offsets
