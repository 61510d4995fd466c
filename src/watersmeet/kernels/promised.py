"""Which rows break promises, and codes of texts that keep their order."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U8 = types.Array(types.uint8, 1, "C", readonly=True)
_I32 = types.Array(types.int32, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_OUT_U64 = types.Array(types.uint64, 1, "C")

TEXT_BYTES = 7
"""How many bytes of a text its code has."""


@njit(
    [types.void(_U8, _I32, _OUT_U64), types.void(_U8, _I64, _OUT_U64)],
    cache=True,
    nogil=True,
)
def text_codes(data, offsets, codes):
    """The first seven bytes of each text, and its length in the last byte, where 8 is for all that
    are longer. Codes rise with texts, and those of texts of up to seven bytes differ."""
    for row in range(codes.size):
        start, stop = offsets[row], offsets[row + 1]
        code = np.uint64(0)
        for place in range(7):
            code <<= np.uint64(8)
            if start + place < stop:
                code |= np.uint64(data[start + place])
        codes[row] = (code << np.uint64(8)) | np.uint64(min(stop - start, 8))


# ---- rules that hold between the rows of one batch ----------------------------------------------

ORDERED, UNIQUE, CLUSTERED = 0, 1, 2

_RULES = types.Array(types.int64, 1, "C", readonly=True)
_CODES = types.Array(types.uint64, 2, "C", readonly=True)
_MASKS = types.Array(types.bool_, 2, "C", readonly=True)
_STATE = types.Array(types.uint64, 1, "C")
_SEEN = types.Array(types.bool_, 2, "C")
_OUT_I64 = types.Array(types.int64, 1, "C")


@njit(
    types.void(_RULES, _RULES, _CODES, _CODES, _MASKS, _STATE, _OUT_I64, _SEEN, _OUT_I64),
    cache=True,
    nogil=True,
)
def find_broken(kinds, places, codes, floors, present, bounds, current, seen, causes):
    """Go through the rows of a batch as if they had come one by one, and write into `causes` which
    rule each breaks: the least of `places`, or what is there already; -1 for none.

    A row that breaks a rule counts for no rule. `codes` are those of values if a rule is about
    order, else numbers of equal values; `floors` are the codes below which nothing comes after a
    row. `bounds`, `current` and `seen` are the state of each rule before the first row.
    """
    for row in range(causes.size):
        cause = causes[row]
        for rule in range(kinds.size):
            if not present[rule, row] or (cause >= 0 and places[rule] > cause):
                continue
            code = codes[rule, row]
            is_ordered = kinds[rule] == ORDERED
            if code < bounds[rule] if is_ordered else seen[rule, np.int64(code)]:
                cause = places[rule]
        causes[row] = cause
        if cause >= 0:
            continue
        for rule in range(kinds.size):
            if not present[rule, row]:
                continue
            if kinds[rule] == ORDERED:
                bounds[rule] = max(bounds[rule], floors[rule, row])
            elif kinds[rule] == UNIQUE:
                seen[rule, np.int64(codes[rule, row])] = True
            else:
                value = np.int64(codes[rule, row])
                if value != current[rule]:
                    if current[rule] >= 0:
                        seen[rule, current[rule]] = True
                    current[rule] = value


# ---- ranges of codes ----------------------------------------------------------------------------

_U64 = types.Array(types.uint64, 1, "C", readonly=True)
_RANGES = types.Array(types.uint64, 2, "C", readonly=True)
_OUT_RANGES = types.Array(types.uint64, 2, "C")
_OUT_MASK = types.Array(types.bool_, 1, "C")


@njit(types.void(_RANGES, _U64, _U64, _OUT_MASK), cache=True, nogil=True)
def find_covered(ranges, first, last, covered):
    """Which spans of codes, from first[k] to last[k], lie in one of the ranges; those are disjoint
    and ascending. A span whose first code is above its last is empty, and lies in any."""
    count = ranges.shape[0]
    highest = ranges[count - 1, 1] if count else np.uint64(0)
    place = 0  # of the range that the span before began in: neighbours often have it in common
    for row in range(first.size):
        start, stop = first[row], last[row]
        if start > stop:
            covered[row] = True
            continue
        if count == 0 or stop > highest:
            covered[row] = False
            continue
        if start < ranges[place, 0] or start > ranges[place, 1]:
            low, high = 0, count  # the last range that begins at `start` or before
            while low < high:
                middle = (low + high) // 2
                if ranges[middle, 0] <= start:
                    low = middle + 1
                else:
                    high = middle
            if low == 0:
                covered[row] = False
                continue
            place = low - 1
        covered[row] = stop <= ranges[place, 1]


@njit(types.int64(_RANGES, _RANGES, _OUT_RANGES), cache=True, nogil=True)
def merge_ranges(some, others, merged):
    """Write the codes of both into `merged`, in as few ranges as possible; returns how many. Both
    are in order of their first codes, and may overlap; those without a code are left out."""
    count, i, j = 0, 0, 0
    while i < some.shape[0] or j < others.shape[0]:
        if j == others.shape[0] or (i < some.shape[0] and some[i, 0] <= others[j, 0]):
            first, last = some[i, 0], some[i, 1]
            i += 1
        else:
            first, last = others[j, 0], others[j, 1]
            j += 1
        if first > last:
            continue
        # Compared first, because codes have no sign: a negative difference would be a large one.
        if count and (
            first <= merged[count - 1, 1] or first - merged[count - 1, 1] == np.uint64(1)
        ):
            merged[count - 1, 1] = max(merged[count - 1, 1], last)
        else:
            merged[count, 0], merged[count, 1] = first, last
            count += 1
    return count


# ---- boxes --------------------------------------------------------------------------------------


@njit(types.void(_I64, _I64, _OUT_I64), cache=True, nogil=True)
def paint(starts, stops, first):
    """Give each place the number of the first range that covers it: range k has the places from
    starts[k] to stops[k] - 1. Places that no range covers keep what they have."""
    places = first.size
    onward = np.arange(places + 1)  # from a place to the next one that has no number yet
    for number in range(starts.size):
        place = starts[number]
        while True:
            free = place
            while onward[free] != free:
                onward[free] = onward[onward[free]]
                free = onward[free]
            if free >= stops[number]:
                break
            first[free] = number
            onward[free] = free + 1
            place = free + 1


@njit(
    types.void(_CODES, _I64, _CODES, _CODES, _I64, _U64, _OUT_MASK),
    cache=True,
    nogil=True,
)
def find_boxed(codes, rows_came, lows, highs, boxes_came, reached, inside):
    """Which rows lie in a box that came before them.

    `codes`, `lows` and `highs` have a line for each column. Boxes are in ascending order of their
    first column's low end, and `reached` is the highest high end up to each of them: so those that
    can have a row are found from behind, until none before can reach it.
    """
    columns = lows.shape[0]
    for row in range(inside.size):
        code = codes[0, row]
        box = np.searchsorted(lows[0], code, side="right") - 1
        while box >= 0 and reached[box] >= code:
            if boxes_came[box] < rows_came[row]:
                fits = True
                for column in range(columns):
                    value = codes[column, row]
                    if value < lows[column, box] or value > highs[column, box]:
                        fits = False
                        break
                if fits:
                    inside[row] = True
                    break
            box -= 1


@njit(types.int64(_U64, _U64, _I64, _OUT_I64), cache=True, nogil=True)
def merge_neighbours(lows, highs, groups, merged):
    """Number the ranges that remain when, within each group, those that touch are one. Ranges are
    in order of their group, and then of their low end; the count of those that remain."""
    count, reached = np.int64(0), np.uint64(0)
    for place in range(lows.size):
        if (
            place > 0
            and groups[place] == groups[place - 1]
            and (lows[place] <= reached or lows[place] - reached == np.uint64(1))
        ):
            reached = max(reached, highs[place])
        else:
            count += 1
            reached = highs[place]
        merged[place] = count - 1
    return count
