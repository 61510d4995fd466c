"""The kernels of DINER's flushing: the clock's hand, and counting results by region."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_CODES = types.Array(types.uint64, 1, "C", readonly=True)
_FOUND = types.Array(types.int64, 1, "C", readonly=True)
_FLAGS = types.Array(types.uint8, 1, "C")
_READ_FLAGS = types.Array(types.uint8, 1, "C", readonly=True)
_ROWS = types.Array(types.int32, 1, "C", readonly=True)
_OUT = types.Array(types.int64, 1, "C")


@njit(types.void(_FOUND, _READ_FLAGS, _FLAGS, _OUT), cache=True, nogil=True)
def count_joins(found, regions, joined, joins):
    """For each row that was found, set its join bit and count a result for its region."""
    for i in range(found.size):
        row = found[i]
        joins[regions[row]] += 1
        joined[row] = 1


@njit(types.void(_CODES, _ROWS, types.uint64, types.uint64, _FLAGS, _OUT), cache=True, nogil=True)
def divide(codes, rows, lower, upper, regions, counts):
    """Give each row its region, from the codes in order and the rows that have them, and count the
    rows of each: 0 up to `lower`, 2 from `upper` on, 1 between."""
    counts[:] = 0
    for i in range(codes.size):
        region = 0 if codes[i] <= lower else (2 if codes[i] >= upper else 1)
        regions[rows[i]] = region
        counts[region] += 1


@njit(
    types.UniTuple(types.int64, 2)(
        _ROWS, types.int64, types.int64, types.int64, _FLAGS, _READ_FLAGS, _OUT
    ),
    cache=True,
    nogil=True,
)
def sweep(rows, start, stop, hand, joined, leaving, chosen):
    """Go round rows[start:stop] with the clock's hand, beginning at position `hand`.

    Chooses the positions of rows whose join bit is not set, and clears the bits of the others that
    it passes, until `chosen` is full or all have been chosen. Rows that are `leaving` already are
    passed. Returns how many were chosen, and where the hand stands. In its first turn it passes
    rows that have joined, in its second it takes them: no bit is set any more.
    """
    count = 0
    if stop <= start:
        return count, hand
    position = hand if start <= hand < stop else start
    first = position
    taken = np.zeros(stop - start, np.uint8)
    for _ in range(2):
        while count < chosen.size:
            row = rows[position]
            if not taken[position - start] and not leaving[row]:
                if joined[row]:
                    joined[row] = 0
                else:
                    taken[position - start] = 1
                    chosen[count] = position
                    count += 1
            position += 1
            if position == stop:
                position = start
            if position == first:
                break
        if count == chosen.size:
            break
    return count, position
