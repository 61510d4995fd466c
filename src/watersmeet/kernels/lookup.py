"""Tables without chains: each distinct hash, or key, gets a number when it is first seen.

Aggregates need one entry per key. A slot holds the number of an entry, and a search that finds
another hash in a slot goes on to the next one, until it finds its hash or an empty slot.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U64 = types.Array(types.uint64, 1, "C", readonly=True)
_SLOTS = types.Array(types.int32, 1, "C")
_READ_SLOTS = types.Array(types.int32, 1, "C", readonly=True)
_HASHES = types.Array(types.uint64, 1, "C")
_NUMBERS = types.Array(types.int64, 1, "C")

# How many searches are done together, as in `matching`, so that the processor fetches them at once.
_GROUP = 64


@njit(types.int64(_U64, _SLOTS, _HASHES, _NUMBERS, types.int64), cache=True, nogil=True)
def number(hashes, slots, distinct, numbers, known):
    """Write the number of every hash to `numbers`; returns how many distinct ones there are now.

    The first `known` of `distinct` are in the table already. There must be more slots than hashes.
    """
    mask = np.uint64(slots.size - 1)
    count = known
    for row in range(hashes.size):
        hash_ = hashes[row]
        slot = hash_ & mask
        while slots[slot] >= 0 and distinct[slots[slot]] != hash_:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = np.int32(count)
            distinct[count] = hash_
            count += 1
        numbers[row] = slots[slot]
    return count


@njit(types.void(_U64, _READ_SLOTS, _U64, _NUMBERS), cache=True, nogil=True)
def find(wanted, slots, distinct, numbers):
    """Write the number of every hash to `numbers`, or -1 for those that are not in the table."""
    mask = np.uint64(slots.size - 1)
    first = np.empty(_GROUP, np.int64)
    i = 0
    while i < wanted.size:
        size = min(_GROUP, wanted.size - i)
        for k in range(size):
            first[k] = slots[wanted[i + k] & mask]
        for k in range(size):
            hash_ = wanted[i + k]
            entry = first[k]
            slot = hash_ & mask
            while entry >= 0 and distinct[entry] != hash_:
                slot = (slot + np.uint64(1)) & mask
                entry = np.int64(slots[slot])
            numbers[i + k] = entry
        i += size


@njit(types.int64(_U64, types.uint64, _SLOTS, _NUMBERS), cache=True, nogil=True)
def number_dense(keys, least, slots, numbers):
    """As `number`, for keys that are all less than `slots.size` above the least: each has a slot of
    its own."""
    count = 0
    for row in range(keys.size):
        slot = keys[row] - least
        if slots[slot] < 0:
            slots[slot] = np.int32(count)
            count += 1
        numbers[row] = slots[slot]
    return count


@njit(types.int64(_U64, types.uint64, _READ_SLOTS, _NUMBERS, _NUMBERS), cache=True, nogil=True)
def find_dense(wanted, least, slots, rows, numbers):
    """Write the rows whose key has a number, and those numbers; returns how many there are."""
    size = np.uint64(slots.size)
    count = 0
    for row in range(wanted.size):
        # Keys below the least wrap around and are as far off as those above the most.
        slot = wanted[row] - least
        entry = np.int64(slots[slot]) if slot < size else np.int64(-1)
        rows[count] = row
        numbers[count] = entry
        if entry >= 0:
            count += 1
    return count
