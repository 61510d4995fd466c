"""Which partition rows belong to, by a table of slots, and which pairs rectangle joins have met.

A slot is a range of hashes; the array `slots` says which partition each belongs to, so that
partitions can be made even where keys are skewed. Kernels that call each other share this file.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U64 = types.Array(types.uint64, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_U16 = types.Array(types.uint16, 1, "C", readonly=True)
_NODES = types.Array(types.uint64, 2, "C")
_OUT = types.Array(types.int64, 1, "C")
_OUT_I32 = types.Array(types.int32, 1, "C")
_OUT_U16 = types.Array(types.uint16, 1, "C")


@njit(inline="always")
def _slot(hash_, slots):
    return np.int64(((hash_ >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))


@njit(types.void(_U64, _U16, _OUT_U16, _OUT), cache=True, nogil=True)
def partition_rows(hashes, slots, partitions, counts):
    """The partition of every row, and how many rows each partition has, added to `counts`."""
    for row in range(hashes.size):
        p = slots[_slot(hashes[row], slots.size)]
        partitions[row] = p
        counts[p] += 1


@njit(types.void(_NODES, types.int64, _OUT), cache=True, nogil=True)
def count_slots(nodes, count, counts):
    """How many of the first `count` rows fall into each slot, added to `counts`."""
    for row in range(count):
        counts[_slot(nodes[row, 0], counts.size)] += 1


@njit(
    types.void(_U16, types.int64, _I64, _OUT, _OUT_I32),
    cache=True,
    nogil=True,
)
def group_rows(partitions, start, places, cursor, grouped):
    """List the rows from `start` on of chosen partitions, partition by partition, oldest first.

    `cursor[p]` is where partition p's rows go in `grouped` and is moved on; rows past
    `places[p]` are left out.
    """
    for row in range(start, partitions.size):
        p = partitions[row]
        if cursor[p] < places[p]:
            grouped[cursor[p]] = np.int32(row)
            cursor[p] += 1


@njit(types.int64(_I64, _I64, _I64, _I64, _I64, _OUT, _OUT, types.int64), cache=True, nogil=True)
def drop_covered(stops, lows, highs, stamps_l, stamps_r, rows_l, rows_r, count):
    """Of the first `count` pairs keep, in place, those in no strip; returns how many.

    Strip s covers left rows numbered below stops[s], and not below the stop before it, with right
    rows numbered lows[s] .. highs[s]-1. A stamp is twice a row's number, plus its side.
    """
    kept = 0
    for k in range(count):
        i, j = rows_l[k], rows_r[k]
        left, right = stamps_l[i] >> 1, stamps_r[j] >> 1
        low, high = 0, stops.size
        while low < high:
            middle = (low + high) // 2
            if stops[middle] > left:
                high = middle
            else:
                low = middle + 1
        if low < stops.size and lows[low] <= right < highs[low]:
            continue
        rows_l[kept] = i
        rows_r[kept] = j
        kept += 1
    return kept
