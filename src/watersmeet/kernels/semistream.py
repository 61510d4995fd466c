"""The kernels of joins with a master table (operators/semistream): the cache's hash table, and
sorted codes of waiting rows beside the sorted codes of a master table.

A slot of the cache's hash table is two words, an entry's code and its number plus one, side by side
because a probe needs both; a slot of zeros is empty. There are at least twice as many slots as
entries, and a probe goes on to the next slot until it finds its code or an empty one.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U64 = types.Array(types.uint64, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_I32 = types.Array(types.int32, 1, "C", readonly=True)
_SLOTS = types.Array(types.uint64, 2, "C")
_CODES = types.Array(types.uint64, 1, "C")
_ROWS = types.Array(types.int32, 1, "C")
_OUT = types.Array(types.int64, 1, "C")
_COUNTS = types.Array(types.uint32, 1, "C")

# How many probes are in flight together (kernels/matching.py).
_GROUP = 64


@njit(types.void(_SLOTS, _U64, types.int64), cache=True, nogil=True)
def insert(slots, codes, first):
    """Add entries, numbered from `first` on, whose codes are not there yet."""
    mask = np.uint64(slots.shape[0] - 1)
    for k in range(codes.size):
        slot = codes[k] & mask
        while slots[slot, 1] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot, 0] = codes[k]
        slots[slot, 1] = np.uint64(first + k + 1)


@njit(types.int64(_SLOTS, _U64, _COUNTS, _OUT), cache=True, nogil=True)
def probe(slots, wanted, hits, entries):
    """Write the entry of each wanted code to `entries`, -1 if there is none, and count it in
    `hits`, which saturates. Returns how many were found."""
    mask = np.uint64(slots.shape[0] - 1)
    most = np.uint32(2**32 - 1)
    found = 0
    at = np.empty(_GROUP, np.uint64)
    codes = np.empty(_GROUP, np.uint64)
    numbers = np.empty(_GROUP, np.uint64)
    start = 0
    while start < wanted.size:
        size = min(_GROUP, wanted.size - start)
        for k in range(size):
            at[k] = wanted[start + k] & mask
        for k in range(size):
            codes[k] = slots[at[k], 0]
            numbers[k] = slots[at[k], 1]
        for k in range(size):
            want, number, code, slot = wanted[start + k], numbers[k], codes[k], at[k]
            while number != 0 and code != want:
                slot = (slot + np.uint64(1)) & mask
                code = slots[slot, 0]
                number = slots[slot, 1]
            entry = np.int64(number) - 1
            entries[start + k] = entry
            if entry >= 0:
                found += 1
                if hits[entry] < most:
                    hits[entry] += np.uint32(1)
        start += size
    return found


@njit(types.void(_U64, _U64, _OUT, _OUT), cache=True, nogil=True)
def locate(wanted, codes, starts, counts):
    """For each wanted code, where it begins among `codes` and how often it is there.

    Both are in order. Steps are doubled, then halved: with few wanted codes most of the others are
    never looked at.
    """
    low, i = 0, 0
    while i < wanted.size:
        want = wanted[i]
        step, high = 1, low
        while high < codes.size and codes[high] < want:
            low = high + 1
            high += step
            step *= 2
        high = min(high, codes.size)
        while low < high:
            middle = (low + high) // 2
            if codes[middle] < want:
                low = middle + 1
            else:
                high = middle
        stop = low
        while stop < codes.size and codes[stop] == want:
            stop += 1
        while i < wanted.size and wanted[i] == want:
            starts[i] = low
            counts[i] = stop - low
            i += 1
        low = stop


@njit(
    types.UniTuple(types.int64, 3)(_I64, _I64, _I64, types.int64, types.int64, _OUT, _OUT),
    cache=True,
    nogil=True,
)
def expand(rows, starts, counts, at, inside, first, second):
    """Pair each rows[i], from rows[at] on, with the counts[i] numbers from starts[i] on, until
    `first` and `second` are full. Of rows[at], `inside` pairs were written before.

    Returns how many pairs were written, and (at, inside) for the next call; at equals rows.size
    when all is done.
    """
    limit, found = first.size, 0
    while at < rows.size:
        row, start, stop = rows[at], starts[at] + inside, starts[at] + counts[at]
        room = limit - found
        if stop - start > room:
            for k in range(room):
                first[found + k] = row
                second[found + k] = start + k
            return limit, at, inside + room
        for number in range(start, stop):
            first[found] = row
            second[found] = number
            found += 1
        at += 1
        inside = 0
    return found, at, 0


@njit(types.void(_I64, _I64, _OUT), cache=True, nogil=True)
def spread(starts, counts, numbers):
    """Write starts[0], starts[0] + 1, ..., counts[0] of them, then those of starts[1], and on."""
    to = 0
    for k in range(starts.size):
        for number in range(starts[k], starts[k] + counts[k]):
            numbers[to] = number
            to += 1


@njit(types.void(_CODES, _ROWS, types.int64, _U64, _I32), cache=True, nogil=True)
def merge_into(codes, rows, count, new_codes, new_rows):
    """Merge new codes, in order, into the first `count` codes, in order and in place.

    It writes from the end, so nothing is overwritten that is still needed. Of equal codes, those
    that were there come first.
    """
    left, right = count - 1, new_codes.size - 1
    to = count + new_codes.size - 1
    while right >= 0:
        if left >= 0 and codes[left] > new_codes[right]:
            codes[to] = codes[left]
            rows[to] = rows[left]
            left -= 1
        else:
            codes[to] = new_codes[right]
            rows[to] = new_rows[right]
            right -= 1
        to -= 1
