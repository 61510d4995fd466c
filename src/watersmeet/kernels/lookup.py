"""A table of distinct hashes: each gets a number when it is first seen, and is found again by it.

Where an aggregate needs one entry per key there are no chains to follow: slots hold the entry's
number, and a search goes on to the next slot until it meets the hash or an empty one.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U64 = types.Array(types.uint64, 1, "C", readonly=True)
_SLOTS = types.Array(types.int32, 1, "C")
_READ_SLOTS = types.Array(types.int32, 1, "C", readonly=True)
_HASHES = types.Array(types.uint64, 1, "C")
_CODES = types.Array(types.int64, 1, "C")

# How many searches are in flight together, as in `matching`: their loads overlap.
_GROUP = 64


@njit(types.int64(_U64, _SLOTS, _HASHES, _CODES, types.int64), cache=True, nogil=True)
def number(hashes, slots, distinct, codes, known):
    """Number every hash, equal ones alike; how many distinct ones there are then.

    `known` are in `distinct` and `slots` already. There must be more slots than hashes.
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
        codes[row] = slots[slot]
    return count


@njit(types.void(_U64, _READ_SLOTS, _U64, _CODES), cache=True, nogil=True)
def find(wanted, slots, distinct, codes):
    """The number of every hash, or -1 for those that are not in the table."""
    mask = np.uint64(slots.size - 1)
    first = np.empty(_GROUP, np.int64)
    i = 0
    while i < wanted.size:
        size = min(_GROUP, wanted.size - i)
        for k in range(size):
            first[k] = slots[wanted[i + k] & mask]
        for k in range(size):
            hash_ = wanted[i + k]
            code = first[k]
            slot = hash_ & mask
            while code >= 0 and distinct[code] != hash_:
                slot = (slot + np.uint64(1)) & mask
                code = np.int64(slots[slot])
            codes[i + k] = code
        i += size
