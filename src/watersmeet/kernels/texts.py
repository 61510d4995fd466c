"""What the texts of lines are as values: loops over those that `delimited.cut` or `objects.cut` has
found.

Each is given the data from the batch's first byte on, where texts start, how many bytes they have
(0 is none, -1 an empty one, and less is one with JSON's backslashes), what is null, and bits that
are all set, of which those of nulls are cleared. It leaves how many nulls there are in `count`, and
returns the first row whose text is not of its form, or -1. The forms are narrower than those that
Spark reads, and all values are Spark's.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from watersmeet.kernels.words import read_64, write_64

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES = types.Array(types.int32, 1, "C", readonly=True)
_OUT_BYTES = types.Array(types.uint8, 1, "C")
_OUT_PLACES = types.Array(types.int32, 1, "C")
_OUT_LONGS = types.Array(types.int64, 1, "C")
_OUT_WORDS = types.Array(types.uint64, 2, "C")
# What every kernel is given first.
_TEXTS = (_BYTES, _PLACES, _PLACES, _BYTES, types.boolean)

_MINUS, _PLUS, _POINT = 45, 43, 46
_DIGIT_0, _NINE = 48, 57
_SMALL_A, _SMALL_E, _SMALL_U, _LARGE_E = 97, 101, 117, 69
_BACKSLASH = 92


@njit(
    types.boolean(_BYTES, types.int64, types.int64, _BYTES, types.boolean), cache=True, nogil=True
)
def _is_null(data, start, size, null_value, empty_is_null):
    if size <= 0:
        return size == 0 or empty_is_null
    if size != null_value.size:
        return False
    same = 0
    while same < size and data[start + same] == null_value[same]:
        same += 1
    return same == size


@njit(types.void(_OUT_BYTES, types.int64), cache=True, nogil=True)
def _clear(bits, row):
    bits[row >> 3] &= np.uint8(0xFF ^ (1 << (row & 7)))


@njit(
    [
        types.int64(
            *(*_TEXTS, types.int64, types.Array(kind, 1, "C"), _OUT_BYTES, _OUT_LONGS),
        )
        for kind in (types.int8, types.int16, types.int32, types.int64)
    ],
    cache=True,
    nogil=True,
)
def whole_numbers(data, starts, sizes, null_value, empty_is_null, largest, out, bits, count):
    """Digits, with a sign or none, of numbers up to `largest` or one less than its negative."""
    nulls = 0
    for row in range(sizes.size):
        start, size = np.int64(starts[row]), np.int64(sizes[row])
        if _is_null(data, start, size, null_value, empty_is_null):
            out[row] = 0
            _clear(bits, row)
            nulls += 1
            continue
        if size <= 0:
            return row
        at, stop = start, start + size
        negative = data[at] == _MINUS
        if negative or data[at] == _PLUS:
            at += 1
            if at == stop:
                return row
        while at < stop - 1 and data[at] == _DIGIT_0:
            at += 1
        # As many digits are less than 2**64.
        if stop - at > 19:
            return row
        number = np.uint64(0)
        while at < stop:
            digit = np.uint64(data[at]) - np.uint64(_DIGIT_0)
            if digit > np.uint64(9):
                return row
            number = number * np.uint64(10) + digit
            at += 1
        if number > np.uint64(largest) + np.uint64(negative):
            return row
        value = np.int64(number)
        out[row] = -value if negative else value
    count[0] = nulls
    return -1


@njit(types.UniTuple(types.int64, 2)(_BYTES, types.int64, types.int64), cache=True, nogil=True)
def _exponent(data, at, stop):
    """The power of ten that a text ends with, and where it ends; an end of -1 if that is none."""
    if data[at] != _SMALL_E and data[at] != _LARGE_E:
        return np.int64(0), np.int64(-1)
    at += 1
    negative = at < stop and data[at] == _MINUS
    if at < stop and (negative or data[at] == _PLUS):
        at += 1
    if at == stop or stop - at > 3:
        return np.int64(0), np.int64(-1)
    power = np.int64(0)
    while at < stop:
        digit = np.int64(data[at]) - _DIGIT_0
        if digit < 0 or digit > 9:
            return np.int64(0), np.int64(-1)
        power = 10 * power + digit
        at += 1
    return -power if negative else power, at


# Powers of ten that a double or a float has exactly.
_TENS = np.array([10.0**k for k in range(23)])
_FLOAT_TENS = np.array([10.0**k for k in range(11)], np.float32)


@njit(
    [
        types.int64(
            *(*_TEXTS, types.Array(kind, 1, "C"), _OUT_PLACES, _OUT_BYTES, _OUT_LONGS),
        )
        for kind in (types.float32, types.float64)
    ],
    cache=True,
    nogil=True,
)
def floats(data, starts, sizes, null_value, empty_is_null, out, hard, bits, count):
    """Digits with a sign, a point and an exponent, or without.

    A number of few digits and its power of ten are exact, so what one division or product makes
    of them is the nearest. Rows of others are listed in `hard`, `count[1]` of them, for a
    reader that is slower. Numbers near the ends of a type's range are not read.
    """
    is_float = out.itemsize == 4
    exact = np.uint64(1 << 24) if is_float else np.uint64(1 << 53)
    furthest = 10 if is_float else 22
    lowest, highest = (-36, 38) if is_float else (-300, 308)
    nulls = 0
    hards = 0
    for row in range(sizes.size):
        start, size = np.int64(starts[row]), np.int64(sizes[row])
        if _is_null(data, start, size, null_value, empty_is_null):
            out[row] = 0
            _clear(bits, row)
            nulls += 1
            continue
        if size <= 0:
            return row
        at, stop = start, start + size
        negative = data[at] == _MINUS
        if negative or data[at] == _PLUS:
            at += 1
        number = np.uint64(0)
        # Digits that were read, those from the first that is not 0 on, and those behind a point.
        digits = significant = behind = 0
        has_point = False
        while at < stop:
            digit = np.uint64(data[at]) - np.uint64(_DIGIT_0)
            if digit <= np.uint64(9):
                digits += 1
                behind += has_point
                if significant or digit:
                    significant += 1
                    if significant <= 19:
                        number = number * np.uint64(10) + digit
            elif data[at] == _POINT and not has_point:
                has_point = True
            else:
                break
            at += 1
        if digits == 0:
            return row
        power = np.int64(0)
        if at < stop:
            power, at = _exponent(data, at, stop)
            if at < 0:
                return row
        power -= behind
        if number == 0:
            out[row] = -0.0 if negative else 0.0
            continue
        # More digits would be right, too, but nobody has looked.
        if significant > 40 or not lowest <= significant + power <= highest:
            return row
        if number > exact or significant > 19 or not -furthest <= power <= furthest:
            hard[hards] = row
            hards += 1
            continue
        if is_float:
            small = np.float32(number)
            if power < 0:
                small /= _FLOAT_TENS[-power]
            else:
                small *= _FLOAT_TENS[power]
            out[row] = -small if negative else small
        else:
            large = np.float64(number)
            if power < 0:
                large /= _TENS[-power]
            else:
                large *= _TENS[power]
            out[row] = -large if negative else large
    count[0] = nulls
    count[1] = hards
    return -1


@njit(
    types.int64(
        *(*_TEXTS, types.int64, types.int64, types.uint64, types.uint64),
        *(_OUT_WORDS, _OUT_BYTES, _OUT_LONGS),
    ),
    cache=True,
    nogil=True,
)
def decimals(
    data, starts, sizes, null_value, empty_is_null, precision, scale, upper, lower, out, bits, count
):
    """Digits with a sign, a point and an exponent, or without, rounded half up to `scale`.

    `upper` and `lower` are the words of the first number that has too many digits.
    """
    low_half = np.uint64(0xFFFFFFFF)
    nulls = 0
    for row in range(sizes.size):
        start, size = np.int64(starts[row]), np.int64(sizes[row])
        if _is_null(data, start, size, null_value, empty_is_null):
            out[row, 0] = 0
            out[row, 1] = 0
            _clear(bits, row)
            nulls += 1
            continue
        if size <= 0:
            return row
        at, stop = start, start + size
        negative = data[at] == _MINUS
        if negative or data[at] == _PLUS:
            at += 1
        begin = at
        # In most texts there are few digits, no exponent, and not more behind the point than are
        # kept: then one word is enough, and one look.
        low = np.uint64(0)
        digits = behind = 0
        has_point = False
        while at < stop:
            digit = np.uint64(data[at]) - np.uint64(_DIGIT_0)
            if digit <= np.uint64(9):
                low = low * np.uint64(10) + digit
                digits += 1
                behind += has_point
            elif data[at] == _POINT and not has_point:
                has_point = True
            else:
                break
            at += 1
        if digits == 0:
            return row
        high = np.uint64(0)
        if at == stop and behind <= scale and digits + scale - behind <= 19:
            for _ in range(scale - behind):
                low *= np.uint64(10)
        else:
            power = np.int64(0)
            if at < stop:
                end = at
                power, at = _exponent(data, at, stop)
                if at < 0:
                    return row
                stop = end
            # Digits up to this number are kept, and the next one decides.
            kept = digits - behind + power + scale
            low = np.uint64(0)
            number = significant = 0
            up = np.uint64(0)
            for k in range(begin, stop):
                if data[k] == _POINT:
                    continue
                digit = np.uint64(data[k]) - np.uint64(_DIGIT_0)
                if number < kept:
                    if significant or digit:
                        significant += 1
                    if significant > precision:
                        return row
                    first = (low & low_half) * np.uint64(10) + digit
                    second = (low >> np.uint64(32)) * np.uint64(10) + (first >> np.uint64(32))
                    low = (second << np.uint64(32)) | (first & low_half)
                    high = high * np.uint64(10) + (second >> np.uint64(32))
                elif number == kept:
                    up = digit // np.uint64(5)
                number += 1
            if significant:
                if significant + max(kept - number, 0) > precision:
                    return row
                for _ in range(kept - number):
                    first = (low & low_half) * np.uint64(10)
                    second = (low >> np.uint64(32)) * np.uint64(10) + (first >> np.uint64(32))
                    low = (second << np.uint64(32)) | (first & low_half)
                    high = high * np.uint64(10) + (second >> np.uint64(32))
            low += up
            high += np.uint64(low < up)
        if high >= upper and (high > upper or low >= lower):
            return row
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(low == 0)
        out[row, 0] = low
        out[row, 1] = high
    count[0] = nulls
    return -1


@njit(types.boolean(_BYTES, types.int64, _BYTES), cache=True, nogil=True)
def _is_word(data, start, word):
    """Whether letters, small or capital, are those of a word in small ones."""
    same = 0
    while same < word.size and data[start + same] | 32 == word[same]:
        same += 1
    return same == word.size


_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)


@njit(types.int64(*(*_TEXTS, _OUT_BYTES, _OUT_BYTES, _OUT_LONGS)), cache=True, nogil=True)
def truths(data, starts, sizes, null_value, empty_is_null, out, bits, count):
    """`true` and `false`, in letters of any size; bits of `out` that are zero become values."""
    nulls = 0
    for row in range(sizes.size):
        start, size = np.int64(starts[row]), np.int64(sizes[row])
        if _is_null(data, start, size, null_value, empty_is_null):
            _clear(bits, row)
            nulls += 1
        elif size == 4 and _is_word(data, start, _TRUE):
            out[row >> 3] |= np.uint8(1 << (row & 7))
        elif size != 5 or not _is_word(data, start, _FALSE):
            return row
    count[0] = nulls
    return -1


_MONTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@njit(types.int64(*(*_TEXTS, _OUT_PLACES, _OUT_BYTES, _OUT_LONGS)), cache=True, nogil=True)
def days(data, starts, sizes, null_value, empty_is_null, out, bits, count):
    """`yyyy-MM-dd` of days that there are, from 1583 on, as days since 1970."""
    nulls = 0
    for row in range(sizes.size):
        start, size = np.int64(starts[row]), np.int64(sizes[row])
        if _is_null(data, start, size, null_value, empty_is_null):
            out[row] = 0
            _clear(bits, row)
            nulls += 1
            continue
        if size != 10:
            return row
        number = np.int64(0)
        for k in range(10):
            byte = np.int64(data[start + k])
            if k == 4 or k == 7:
                if byte != _MINUS:
                    return row
                continue
            if byte < _DIGIT_0 or byte > _NINE:
                return row
            number = 10 * number + byte - _DIGIT_0
        year, month, day = number // 10000, number // 100 % 100, number % 100
        if year < 1583 or month < 1 or month > 12 or day < 1:
            return row
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if day > _MONTHS[month] + (leap and month == 2):
            return row
        # Years that begin in March have their odd day at their end.
        if month <= 2:
            year -= 1
            month += 12
        before = 365 * year + year // 4 - year // 100 + year // 400
        out[row] = before + (153 * (month - 3) + 2) // 5 + day - 1 - 719468
    count[0] = nulls
    return -1


# What stands for a character behind a backslash, in JSON.
_NAMED = np.zeros(256, np.uint8)
_NAMED[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


@njit(types.int64(_BYTES, types.int64), cache=True, nogil=True)
def _unit(data, at):
    """Half a character, or a whole one, in four hexadecimal digits."""
    unit = np.int64(0)
    for k in range(at, at + 4):
        byte = np.int64(data[k])
        unit = unit * 16 + (byte - _DIGIT_0 if byte <= _NINE else (byte | 32) - _SMALL_A + 10)
    return unit


@njit(types.UniTuple(types.int64, 2)(_BYTES, types.int64), cache=True, nogil=True)
def _character(data, at):
    """What begins with a backslash, which is known to be right: the character, and where it
    ends."""
    if data[at + 1] != _SMALL_U:
        return np.int64(_NAMED[data[at + 1]]), at + 2
    unit = _unit(data, at + 2)
    if not 0xD800 <= unit <= 0xDBFF:
        return unit, at + 6
    return 0x10000 + ((unit - 0xD800) << 10) + _unit(data, at + 8) - 0xDC00, at + 12


@njit(types.int64(_BYTES, types.int64, types.int64), cache=True, nogil=True)
def _unescaped_size(data, at, stop):
    """How many bytes of UTF-8 a text has in place of its backslashes."""
    size = np.int64(0)
    while at < stop:
        if data[at] != _BACKSLASH:
            size += 1
            at += 1
            continue
        code, at = _character(data, at)
        size += 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
    return size


@njit(types.void(_BYTES, types.int64, types.int64, _OUT_BYTES, types.int64), cache=True, nogil=True)
def _unescape(data, at, stop, out, to):
    while at < stop:
        if data[at] != _BACKSLASH:
            out[to] = data[at]
            to += 1
            at += 1
            continue
        code, at = _character(data, at)
        if code < 0x80:
            out[to] = code
            to += 1
            continue
        more = 1 + (code >= 0x800) + (code >= 0x10000)
        # As many bits from the top as there are bytes, and then the first of the character's.
        out[to] = 0xFF << (7 - more) & 0xFF | code >> 6 * more
        for k in range(1, more + 1):
            out[to + k] = 0x80 | code >> 6 * (more - k) & 0x3F
        to += 1 + more


@njit(
    types.int64(*(*_TEXTS, types.int64, _OUT_PLACES, _OUT_BYTES, _OUT_LONGS)),
    cache=True,
    nogil=True,
)
def lay_texts(data, starts, sizes, null_value, empty_is_null, empty_size, offsets, bits, count):
    """Where texts are if they are laid end to end; returns how many bytes they have."""
    nulls = 0
    total = np.int64(0)
    for row in range(sizes.size):
        start, size = np.int64(starts[row]), np.int64(sizes[row])
        offsets[row] = total
        if _is_null(data, start, size, null_value, empty_is_null):
            _clear(bits, row)
            nulls += 1
        elif size < -1:
            total += _unescaped_size(data, start, start - size - 1)
        else:
            total += empty_size if size < 0 else size
    offsets[sizes.size] = total
    count[0] = nulls
    return total


@njit(types.void(_BYTES, _PLACES, _PLACES, _BYTES, _PLACES, _OUT_BYTES), cache=True, nogil=True)
def copy_texts(data, starts, sizes, empty_value, offsets, out):
    """Lay the texts there. `out` has seven bytes more than they need."""
    source, target = np.uint64(data.ctypes.data), np.uint64(out.ctypes.data)
    for row in range(sizes.size):
        to, size = np.int64(offsets[row]), np.int64(offsets[row + 1] - offsets[row])
        start = np.int64(starts[row])
        if size == 0:
            continue
        if sizes[row] < -1:
            _unescape(data, start, start - np.int64(sizes[row]) - 1, out, to)
        elif sizes[row] < 0:
            for k in range(size):
                out[to + k] = empty_value[k]
        elif start + size + 7 <= data.size:
            # A word at a time, of which the last may reach into the next text, which comes later.
            for k in range(0, size, 8):
                write_64(
                    target + np.uint64(to + k),
                    read_64(source + np.uint64(start + k)),
                )
        else:
            for k in range(size):
                out[to + k] = data[start + k]
