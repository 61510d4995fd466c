"""Lines of objects in JSON: where the values of members are.

Nothing is guessed: a line that is not of the plainest form is named, and left to others. All of it
is looked at, members that nobody asked for too, since a fault anywhere may cost Spark the row.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES = types.Array(types.int32, 1, "C", readonly=True)
_OUT_PLACES = types.Array(types.int32, 1, "C")
_OUT_LONGS = types.Array(types.int64, 1, "C")
_OUT_TABLE = types.Array(types.int32, 2, "C")

# What `cut` finds wrong with a line.
FINE, SHAPE, ESCAPED, TWICE, KIND, RETURN, BEHIND, MARK, LONG = range(9)
# What a column wants of a value: a text, one without backslashes, digits, a number that is a float
# or not, true or false.
TEXT, BARE_TEXT, WHOLE, FLOAT, DECIMAL, TRUTH = range(6)
# A longer line is left to others, and so are longer numbers and names, and objects in objects in
# more objects than these. Jackson's own limits are further off.
LONGEST, LONGEST_NUMBER, LONGEST_NAME, DEEPEST = 1_000_000, 300, 1_000, 60
# More digits go into a float by way of a double.
_MOST_FLOAT_DIGITS = 18
# Bytes after which a batch ends, so that offsets have 32 bits.
BATCH_BYTES = 1 << 28

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_QUOTE, _BACKSLASH, _COMMA, _COLON, _POINT, _MINUS, _PLUS = 34, 92, 44, 58, 46, 45, 43
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_DIGIT_0, _DIGIT_8, _SMALL_C, _SMALL_D, _SMALL_E, _SMALL_U = 48, 56, 99, 100, 101, 117
# What is found in place of a value of a kind above.
_NULL, _ODD, _WRONG = -1, -2, -3

# What ends a run of bytes in a text, or is not allowed in one.
_STOPS = np.zeros(256, np.uint8)
_STOPS[:32] = 1
_STOPS[[_QUOTE, _BACKSLASH]] = 1
# What may come behind a backslash, but for an u.
_ESCAPES = np.zeros(256, np.uint8)
_ESCAPES[list(b'"\\/bfnrt')] = 1
_HEXADECIMAL = np.zeros(256, np.uint8)
_HEXADECIMAL[list(b"0123456789abcdefABCDEF")] = 1
_HASH_BEGIN, _HASH_TIMES = np.uint32(2166136261), np.uint32(16777619)


@njit(types.uint32(types.uint32, types.uint8), cache=True, nogil=True)
def _mixed(code, byte):
    return (code ^ np.uint32(byte)) * _HASH_TIMES


@njit(types.void(_BYTES, _PLACES, _OUT_PLACES), cache=True, nogil=True)
def lay_table(names, ends, table):
    """Put names, which lie end to end and of which each `ends` somewhere, into a table of hashes.

    Its size is a power of two and more than there are names; it is full of -1.
    """
    mask = np.uint32(table.size - 1)
    begin = np.int64(0)
    for column in range(ends.size):
        code = _HASH_BEGIN
        for at in range(begin, ends[column]):
            code = _mixed(code, names[at])
        slot = code & mask
        while table[slot] >= 0:
            slot = (slot + np.uint32(1)) & mask
        table[slot] = column
        begin = np.int64(ends[column])


@njit(
    types.boolean(_BYTES, types.int64, types.int64, _BYTES, _PLACES, types.int64),
    cache=True,
    nogil=True,
)
def _is_name(data, start, size, names, ends, column):
    begin = np.int64(ends[column - 1]) if column else np.int64(0)
    if size != ends[column] - begin:
        return False
    same = 0
    while same < size and data[start + same] == names[begin + same]:
        same += 1
    return same == size


@njit(types.int64(_BYTES, types.int64, types.int64), cache=True, nogil=True)
def _past_blanks(data, at, stop):
    while at < stop and (data[at] == _SPACE or data[at] == _TAB):
        at += 1
    return at


@njit(types.int64(_BYTES, types.int64, types.int64), cache=True, nogil=True)
def _past_escape(data, at, stop):
    """Where it ends that begins with a backslash, or -1."""
    if at + 1 < stop and _ESCAPES[data[at + 1]]:
        return at + 2
    if at + 5 >= stop or data[at + 1] != _SMALL_U:
        return np.int64(-1)
    for k in range(at + 2, at + 6):
        if not _HEXADECIMAL[data[k]]:
            return np.int64(-1)
    return at + 6


@njit(types.int64(_BYTES, types.int64), cache=True, nogil=True)
def _half(data, at):
    """Of a character in two escapes: 1 if this is the first, 2 if it is the second, else 0."""
    if data[at + 2] | 32 != _SMALL_D or data[at + 3] < _DIGIT_8:
        return 0
    return 1 if data[at + 3] | 32 < _SMALL_C else 2


@njit(types.int64(_BYTES, types.int64, types.int64), cache=True, nogil=True)
def _past_character(data, at, stop):
    """Where a character ends that begins with a backslash, or -1 if there is none."""
    end = _past_escape(data, at, stop)
    if end != at + 6 or _half(data, at) == 0:
        return end
    if _half(data, at) == 2 or end >= stop or data[end] != _BACKSLASH:
        return np.int64(-1)
    other = _past_escape(data, end, stop)
    return other if other == end + 6 and _half(data, end) == 2 else np.int64(-1)


@njit(
    types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64, types.int64, types.boolean),
    cache=True,
    nogil=True,
)
def _past_text(data, at, stop, seen, is_read):
    """Where the quote is behind a text, or -1; and all bytes together by OR. What is behind
    backslashes must be characters if it is read."""
    while True:
        while at < stop and _STOPS[data[at]] == 0:
            seen |= np.int64(data[at])
            at += 1
        if at == stop:
            return np.int64(-1), seen
        if data[at] == _QUOTE:
            return at, seen
        if data[at] != _BACKSLASH:
            return np.int64(-1), seen
        at = _past_character(data, at, stop) if is_read else _past_escape(data, at, stop)
        if at < 0:
            return at, seen


@njit(types.int64(_BYTES, types.int64, types.int64), cache=True, nogil=True)
def _past_digits(data, at, stop):
    """Where digits end, of which there must be one; or -1."""
    start = at
    while at < stop and np.uint64(data[at]) - np.uint64(_DIGIT_0) <= np.uint64(9):
        at += 1
    return at if at > start else np.int64(-1)


@njit(
    types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64),
    cache=True,
    nogil=True,
)
def _past_number(data, at, stop):
    """Where a number ends, and what it is."""
    start = at
    failed = np.int64(-1), np.int64(_WRONG)
    if data[at] == _MINUS:
        at += 1
    first = at
    at = _past_digits(data, at, stop)
    if at < 0 or (data[first] == _DIGIT_0 and at > first + 1):
        return failed
    what = np.int64(WHOLE)
    if at - first > _MOST_FLOAT_DIGITS:
        what = np.int64(DECIMAL)
    elif first > start and data[first] == _DIGIT_0:
        # As a whole number Jackson reads -0, which loses its sign.
        what = np.int64(_ODD)
    digits = at
    if at < stop and data[at] == _POINT:
        at = _past_digits(data, at + 1, stop)
        if at < 0:
            return failed
    if at < stop and data[at] | 32 == _SMALL_E:
        at += 1
        if at < stop and (data[at] == _MINUS or data[at] == _PLUS):
            at += 1
        at = _past_digits(data, at, stop)
        if at < 0:
            return failed
    if at - start > LONGEST_NUMBER:
        return failed
    return at, (what if at == digits else np.int64(FLOAT))


@njit(
    types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64),
    cache=True,
    nogil=True,
)
def _past_word(data, at, stop):
    """Where one of three words ends, and what it is."""
    if at + 4 <= stop:
        one, two, three, four = data[at], data[at + 1], data[at + 2], data[at + 3]
        if one == 116 and two == 114 and three == 117 and four == 101:  # true
            return at + 4, np.int64(TRUTH)
        if one == 110 and two == 117 and three == 108 and four == 108:  # null
            return at + 4, np.int64(_NULL)
        is_short = at + 4 == stop or data[at + 4] != 101
        if one == 102 and two == 97 and three == 108 and four == 115 and not is_short:  # false
            return at + 5, np.int64(TRUTH)
    return np.int64(-1), np.int64(_WRONG)


@njit(
    types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
)
def _past_name(data, at, stop, seen):
    """Where the value behind a name and a colon begins, or -1, and bytes by OR. A name has no
    backslash."""
    if at >= stop or data[at] != _QUOTE:
        return np.int64(-1), seen
    start = at + 1
    at = start
    while at < stop and _STOPS[data[at]] == 0:
        seen |= np.int64(data[at])
        at += 1
    if at >= stop or data[at] != _QUOTE or at - start > LONGEST_NAME:
        return np.int64(-1), seen
    at = _past_blanks(data, at + 1, stop)
    if at >= stop or data[at] != _COLON:
        return np.int64(-1), seen
    return _past_blanks(data, at + 1, stop), seen


@njit(
    types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
)
def _past_nested(data, at, stop, seen):
    """Where an object or a list ends, with all that is in it, or -1; and bytes by OR."""
    failed = np.int64(-1), seen
    depth = 0
    # A bit for each level, the lowest for the innermost: whether it is an object.
    objects = np.uint64(0)
    while True:
        if at >= stop:
            return failed
        byte = data[at]
        is_done = True
        if byte in (_OPEN, _OPEN_LIST):
            if depth == DEEPEST:
                return failed
            depth += 1
            objects = objects << np.uint64(1) | np.uint64(byte == _OPEN)
            at = _past_blanks(data, at + 1, stop)
            if at >= stop:
                return failed
            if data[at] == byte + 2:
                at += 1
                depth -= 1
                objects >>= np.uint64(1)
            else:
                is_done = False
                if byte == _OPEN:
                    at, seen = _past_name(data, at, stop, seen)
        elif byte == _QUOTE:
            at, seen = _past_text(data, at + 1, stop, seen, False)
            at += at >= 0
        elif byte == _MINUS or np.uint64(byte) - np.uint64(_DIGIT_0) <= np.uint64(9):
            at, _ = _past_number(data, at, stop)
        else:
            at, _ = _past_word(data, at, stop)
        # Behind a value: the next one, or the ends of those around it.
        while is_done and at >= 0:
            if depth == 0:
                return at, seen
            at = _past_blanks(data, at, stop)
            if at >= stop:
                return failed
            is_object = objects & np.uint64(1)
            if data[at] == _COMMA:
                at = _past_blanks(data, at + 1, stop)
                if is_object:
                    at, seen = _past_name(data, at, stop, seen)
                is_done = False
            elif data[at] == (_CLOSE if is_object else _CLOSE_LIST):
                at += 1
                depth -= 1
                objects >>= np.uint64(1)
            else:
                return failed
        if at < 0:
            return failed


@njit(
    types.int64(
        *(_BYTES, types.int64, types.int64),
        *(_BYTES, _PLACES, _PLACES, _PLACES),
        *(_OUT_PLACES, _OUT_TABLE, _OUT_TABLE, _OUT_LONGS),
    ),
    cache=True,
    nogil=True,
)
def cut(data, at, most, names, ends, table, wanted, after, starts, sizes, found):
    """Cut lines from `at` on into members, at most so many lines; returns how many there is room
    for.

    Columns have names, which `lay_table` has laid, and what is `wanted` of their values. For each
    it is written where its value starts behind the first byte, and how many bytes it has: 0 if it
    is null or not there, -1 if it is a text of none, and of one with backslashes as many below -1.
    `after` says which column comes after each one, and before all of them: a guess, which is kept
    up to date. In `found` is left: where the next line begins, what is wrong with that line, and
    the bytes of texts together by OR.
    """
    begin = np.int64(at)
    stop = np.int64(data.size)
    columns = ends.size
    mask = np.uint32(table.size - 1)
    most = min(most, starts.shape[1])
    # The row that has each column.
    rows = np.full(columns, -1, np.int64)
    row = 0
    seen = np.int64(0)
    wrong = FINE
    while at < stop and row < most and at - begin < BATCH_BYTES:
        line = at
        at = _past_blanks(data, at, stop)
        is_object = at < stop and data[at] == _OPEN
        if is_object:
            members = 0
            before = columns
            at = _past_blanks(data, at + 1, stop)
            is_open = at >= stop or data[at] != _CLOSE
            at += not is_open
            while is_open:
                if at >= stop or data[at] != _QUOTE:
                    wrong = SHAPE
                    break
                at += 1
                start = at
                column = np.int64(after[before])
                end = start + ends[column] - (ends[column - 1] if column else 0)
                if (
                    end < stop
                    and data[end] == _QUOTE
                    and _is_name(data, start, end - start, names, ends, column)
                ):
                    at = end
                else:
                    code = _HASH_BEGIN
                    while at < stop and _STOPS[data[at]] == 0:
                        seen |= np.int64(data[at])
                        code = _mixed(code, data[at])
                        at += 1
                    if at >= stop or data[at] != _QUOTE or at - start > LONGEST_NAME:
                        wrong = ESCAPED if at < stop and data[at] == _BACKSLASH else SHAPE
                        break
                    slot = code & mask
                    column = np.int64(table[slot])
                    while column >= 0 and not _is_name(
                        data, start, at - start, names, ends, column
                    ):
                        slot = (slot + np.uint32(1)) & mask
                        column = np.int64(table[slot])
                    if column >= 0:
                        after[before] = column
                at = _past_blanks(data, at + 1, stop)
                if at >= stop or data[at] != _COLON:
                    wrong = SHAPE
                    break
                at = _past_blanks(data, at + 1, stop)
                if at >= stop:
                    wrong = SHAPE
                    break
                start = at
                byte = data[at]
                what = np.int64(_WRONG)
                size = np.int64(0)
                if byte == _QUOTE:
                    what = np.int64(BARE_TEXT)
                    start = at = at + 1
                    while at < stop and _STOPS[data[at]] == 0:
                        seen |= np.int64(data[at])
                        at += 1
                    if at < stop and data[at] == _BACKSLASH:
                        what = np.int64(TEXT)
                        at, seen = _past_text(data, at, stop, seen, column >= 0)
                        if at < 0:
                            wrong = ESCAPED
                            break
                        size = start - at - 1
                    elif at < stop and data[at] == _QUOTE:
                        size = at - start if at > start else np.int64(-1)
                    else:
                        wrong = SHAPE
                        break
                    at += 1
                elif byte == _MINUS or np.uint64(byte) - np.uint64(_DIGIT_0) <= np.uint64(9):
                    at, what = _past_number(data, at, stop)
                elif byte in (_OPEN, _OPEN_LIST):
                    at, seen = _past_nested(data, at, stop, seen)
                else:
                    at, what = _past_word(data, at, stop)
                if at < 0:
                    wrong = SHAPE
                    break
                if column >= 0:
                    if rows[column] == row:
                        wrong = TWICE
                        break
                    rows[column] = row
                    members += 1
                    before = column
                    want = wanted[column]
                    if what != want and not (
                        what == _NULL
                        or (what == BARE_TEXT and want == TEXT)
                        or (what == WHOLE and want in (FLOAT, DECIMAL))
                        or (what == FLOAT and want == DECIMAL)
                        or (what == DECIMAL and want == WHOLE)
                    ):
                        wrong = ESCAPED if what == TEXT and want == BARE_TEXT else KIND
                        break
                    if what >= WHOLE:
                        size = at - start
                    starts[column, row] = start - begin
                    sizes[column, row] = size
                at = _past_blanks(data, at, stop)
                if at < stop and data[at] == _COMMA:
                    at = _past_blanks(data, at + 1, stop)
                elif at < stop and data[at] == _CLOSE:
                    at += 1
                    is_open = False
                else:
                    wrong = SHAPE
                    break
            if wrong == FINE and members < columns:
                for k in range(columns):
                    if rows[k] != row:
                        starts[k, row] = line - begin
                        sizes[k, row] = 0
            at = _past_blanks(data, at, stop)
        if wrong == FINE:
            if at < stop and data[at] == _RETURN:
                if at + 1 < stop and data[at + 1] != _NEWLINE:
                    wrong = RETURN
                at = min(at + 2, stop)
            elif at < stop and data[at] == _NEWLINE:
                at += 1
            elif at < stop:
                wrong = BEHIND if is_object else SHAPE
                if data[at] == 0xEF and not is_object:
                    wrong = MARK
            if at - line > LONGEST:
                wrong = LONG
        if wrong:
            at = line
            break
        row += is_object
    found[0] = at
    found[1] = wrong
    found[2] = seen
    return row
