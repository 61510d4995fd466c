"""Lines of separated fields: where fields are.

Nothing is guessed: a line that is not of the plainest form is named, and left to others.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES = types.Array(types.int32, 1, "C", readonly=True)
_OUT_LONGS = types.Array(types.int64, 1, "C")
_OUT_TABLE = types.Array(types.int32, 2, "C")

# What `cut` finds wrong with a line.
FINE, WIDTH, QUOTED, RETURN, BEHIND, MARK, LONG = range(7)
# A line of more bytes may be more than univocity's buffer of 1,048,576 characters.
LONGEST = 1_000_000
# Bytes after which a batch ends, so that offsets have 32 bits.
BATCH_BYTES = 1 << 28

_TAB_TO_SPACE = 32
_NEWLINE, _RETURN, _QUOTE, _BACKSLASH = 10, 13, 34, 92
# A byte ends no field, or is the separator, a line end, what may begin one, or is never plain.
_ORDINARY, _SEPARATES, _ENDS, _RETURNS, _NEVER = 0, 1, 2, 3, 4


def classes(separator: int) -> tuple[np.ndarray, np.ndarray]:
    """What each byte does outside of quotes, and which ones stop a text inside of them."""
    outside = np.zeros(256, np.uint8)
    outside[0], outside[_NEWLINE], outside[_RETURN] = _NEVER, _ENDS, _RETURNS
    inside = np.zeros(256, np.uint8)
    inside[[0, _NEWLINE, _RETURN, _QUOTE, _BACKSLASH]] = 1
    outside[separator] = _SEPARATES
    return outside, inside


@njit(
    types.int64(
        *(
            _BYTES,
            types.int64,
            types.int64,
            _BYTES,
            _BYTES,
            _PLACES,
            _OUT_TABLE,
            _OUT_TABLE,
            _OUT_LONGS,
        )
    ),
    cache=True,
    nogil=True,
)
def cut(data, at, most, outside, inside, slots, starts, sizes, found):
    """Cut lines from `at` on into fields, at most so many; returns how many there is room for.

    `slots` says of each field in which row of `starts` and `sizes` it is written, or -1: where it
    starts behind the first byte, and how many it has, or -1 if it is two quotes and nothing between
    them. In `found` is left: where the next line begins, what is wrong with that line, and all
    bytes together by OR.
    """
    begin = np.int64(at)
    stop = np.int64(data.size)
    fields = slots.size
    most = min(most, starts.shape[1])
    row = 0
    seen = np.uint8(0)
    wrong = 0
    while at < stop and row < most and at - begin < BATCH_BYTES:
        line = at
        if data[at] <= _TAB_TO_SPACE:
            # A line of blanks and control characters only is no row.
            probe = at
            while probe < stop and data[probe] <= _TAB_TO_SPACE and data[probe] != _NEWLINE:
                probe += 1
            if probe == stop or data[probe] == _NEWLINE:
                at = min(probe + 1, stop)
                continue
        if data[at] == 0xEF and at + 2 < stop and data[at + 1] == 0xBB and data[at + 2] == 0xBF:
            wrong = MARK
            break
        field = 0
        while True:
            if at < stop and data[at] == _QUOTE:
                at += 1
                start = at
                while at < stop and inside[data[at]] == 0:
                    seen |= data[at]
                    at += 1
                if at == stop or data[at] != _QUOTE:
                    wrong = QUOTED
                    break
                size = at - start
                if size == 0:
                    size = -1
                at += 1
            else:
                start = at
                while at < stop and outside[data[at]] == _ORDINARY:
                    seen |= data[at]
                    at += 1
                size = at - start
            if field == fields:
                wrong = WIDTH
                break
            slot = slots[field]
            if slot >= 0:
                starts[slot, row] = start - begin
                sizes[slot, row] = size
            field += 1
            if at == stop:
                break
            what = outside[data[at]]
            at += 1
            if what == _SEPARATES:
                continue
            if what == _RETURNS:
                if at < stop and data[at] != _NEWLINE:
                    wrong = RETURN
                at = min(at + 1, stop)
            elif what != _ENDS:
                # A zero byte, or anything behind a quoted field.
                wrong = BEHIND
            break
        if wrong == 0:
            if field != fields:
                wrong = WIDTH
            elif at - line > LONGEST:
                wrong = LONG
        if wrong:
            at = line
            break
        row += 1
    found[0] = at
    found[1] = wrong
    found[2] = seen
    return row
