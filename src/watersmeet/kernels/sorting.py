"""The kernels of `store/sorted_index.py`: merging sorted arrays of codes and the rows they belong
to, finding the rows of a range of codes, dropping rows.

A level is a sorted stretch of these arrays.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_CODES = types.Array(types.uint64, 1, "C")
_ROWS = types.Array(types.int32, 1, "C")
_WANTED = types.Array(types.uint64, 1, "C", readonly=True)
_OUT = types.Array(types.int64, 1, "C")
_NUMBERS = types.Array(types.int32, 1, "C", readonly=True)
_NODES = types.Array(types.uint64, 2, "C")
_STAMPS = types.Array(types.int64, 1, "C", readonly=True)
_KEEP = types.Array(types.boolean, 1, "C")


@njit(
    types.void(_CODES, _ROWS, types.int64, types.int64, types.int64, _CODES, _ROWS),
    cache=True,
    nogil=True,
)
def merge(codes, rows, start, middle, stop, spare_codes, spare_rows):
    """Merge the sorted stretches start .. middle and middle .. stop in place.

    The second one is first copied to the spare arrays, and both are then written from their ends,
    so nothing is overwritten that is still needed. Of equal codes, those of the first come first.
    """
    count = stop - middle
    spare_codes[:count] = codes[middle:stop]
    spare_rows[:count] = rows[middle:stop]
    left, right, to = middle - 1, count - 1, stop - 1
    while right >= 0:
        if left >= start and codes[left] > spare_codes[right]:
            codes[to] = codes[left]
            rows[to] = rows[left]
            left -= 1
        else:
            codes[to] = spare_codes[right]
            rows[to] = spare_rows[right]
            right -= 1
        to -= 1


_DIGIT_BITS = 11
_DIGITS = 2**_DIGIT_BITS
_DIGIT = np.uint64(_DIGITS - 1)
# By how many places rows may be moved, in the mean, after they were sorted by their first digits.
_MOVED = 4


@njit(types.void(types.uint64, _CODES, _ROWS, _CODES, _ROWS, _OUT), cache=True)
def _sort_by_digit(shift, codes, rows, to_codes, to_rows, ends):
    """Of equal digits, the first comes first."""
    ends[:] = 0
    for i in range(codes.size):
        ends[(codes[i] >> shift) & _DIGIT] += 1
    before = 0
    for value in range(_DIGITS):
        before, ends[value] = before + ends[value], before
    for i in range(codes.size):
        value = (codes[i] >> shift) & _DIGIT
        to = ends[value]
        ends[value] = to + 1
        to_codes[to] = codes[i]
        to_rows[to] = rows[i]


@njit(types.boolean(_CODES, _ROWS), cache=True)
def _put_right(codes, rows):
    """Sort codes that are almost in order. Returns False when they are not, and then leaves off:
    equal codes are in their old order all the same."""
    left = _MOVED * codes.size
    for i in range(1, codes.size):
        code, row, to = codes[i], rows[i], i
        while to > 0 and codes[to - 1] > code and left >= 0:
            codes[to], rows[to] = codes[to - 1], rows[to - 1]
            to -= 1
            left -= 1
        codes[to], rows[to] = code, row
        if left < 0:
            return False
    return True


@njit(types.Tuple((_CODES, _ROWS))(_WANTED), cache=True, nogil=True)
def sort(codes):
    """The codes in order, and where each of them was; of equal codes, the first comes first.

    A radix sort that leaves out the bits all codes have in common: codes of values in a narrow
    range have few others. It takes as many of their first digits as tell so many hashes apart, and
    then puts right the few that have equal ones; if those are many, it takes all digits.
    """
    count = codes.size
    ordered = codes.copy()
    rows = np.arange(count).astype(np.int32)
    rises = True
    same, any_of = ~np.uint64(0), np.uint64(0)
    for i in range(count):
        same &= codes[i]
        any_of |= codes[i]
        if i and codes[i] < codes[i - 1]:
            rises = False
    if rises:
        return ordered, rows
    differ = same ^ any_of
    bits = 0
    while bits < 64 and differ >> np.uint64(bits):
        bits += 1
    digits = 1
    while (1 << (_DIGIT_BITS * digits)) < 2 * count:
        digits += 1
    spare, spare_rows = np.empty(count, np.uint64), np.empty(count, np.int32)
    ends = np.empty(_DIGITS, np.int64)
    start = max(bits - _DIGIT_BITS * digits, 0)
    while True:
        for shift in range(start, bits, _DIGIT_BITS):
            if (differ >> np.uint64(shift)) & _DIGIT:
                _sort_by_digit(np.uint64(shift), ordered, rows, spare, spare_rows, ends)
                ordered, spare = spare, ordered
                rows, spare_rows = spare_rows, rows
        if start == 0 or _put_right(ordered, rows):
            return ordered, rows
        start = 0


@njit(types.Tuple((_CODES, _OUT))(_NODES, _NUMBERS), cache=True, nogil=True)
def sort_rows(nodes, chosen):
    """The codes of chosen rows in order, and the rows; nodes[row, 0] is the code of a row. Of equal
    codes, the row that was chosen first comes first."""
    count = chosen.size
    codes = np.empty(count, np.uint64)
    for i in range(count):
        codes[i] = nodes[chosen[i], 0]
    ordered, places = sort(codes)
    rows = np.empty(count, np.int64)
    for i in range(count):
        rows[i] = chosen[places[i]]
    return ordered, rows


@njit(types.Tuple((_OUT, _KEEP))(_NUMBERS, _STAMPS), cache=True, nogil=True)
def leave_out(chosen, stamps):
    """The stamps of chosen rows, and which of all rows are not chosen. NumPy takes four times as
    long to write to places that are given as 32-bit numbers."""
    taken, keep = np.empty(chosen.size, np.int64), np.ones(stamps.size, np.bool_)
    for i in range(chosen.size):
        taken[i] = stamps[chosen[i]]
        keep[chosen[i]] = False
    return taken, keep


@njit(inline="always")
def _first_from(codes, low, stop, wanted):
    """The first position from `low` on whose code is not below `wanted`.

    Doubles its steps, then halves them: the next range usually begins close to the last.
    """
    step = 1
    high = low
    while high < stop and codes[high] < wanted:
        low = high + 1
        high += step
        step *= 2
    high = min(high, stop)
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(
    types.UniTuple(types.int64, 4)(
        _CODES, _ROWS, types.int64, types.int64, _WANTED, _WANTED, types.int64,
        types.int64, types.int64, types.int64, _OUT, _OUT,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def probe(codes, rows, start, stop, first, last, floor, asking, low, resume, found_rows, asked):
    """Pair each range first[i] .. last[i], rising with i, with the level's rows in it.

    Rows numbered below `floor` are left out. `asking` is the number of the range to go on with,
    `low` a position in the level that is not behind its beginning, `resume` the position to go on
    at, or -1 to begin the range. Returns how many pairs were written, and (asking, low, resume)
    for the next call; asking equals first.size when all is done.
    """
    limit = found_rows.size
    found = 0
    i = asking
    position = resume
    while i < first.size:
        if position < 0:
            low = _first_from(codes, max(low, start), stop, first[i])
            position = low
        while position < stop and codes[position] <= last[i]:
            if rows[position] >= floor:
                if found == limit:
                    return found, i, low, position
                found_rows[found] = rows[position]
                asked[found] = i
                found += 1
            position += 1
        position = np.int64(-1)
        i += 1
    return found, i, low, np.int64(-1)


@njit(
    types.int64(_CODES, _ROWS, types.int64, types.int64, types.int64, _NUMBERS),
    cache=True,
    nogil=True,
)
def renumber(codes, rows, start, stop, to, numbers):
    """Move a level to `to`, giving rows their new numbers and leaving out those whose new number
    is negative. Returns where the level ends."""
    for position in range(start, stop):
        number = numbers[rows[position]]
        if number >= 0:
            codes[to] = codes[position]
            rows[to] = number
            to += 1
    return to
