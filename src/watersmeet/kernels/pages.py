"""Pages of Parquet's column chunks: where they are, and the numbers of values in their dictionary.

A file may be damaged, so nothing is read beyond the end of what is given. Whatever is not as
expected is answered by -1, and left to Arrow.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from watersmeet.kernels.words import read_64

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_CODES = types.Array(types.uint64, 1, "C", readonly=True)
_PLACES = types.Array(types.int32, 1, "C", readonly=True)
_OUT_PLACES = types.Array(types.int32, 1, "C")
_OUT_LONGS = types.Array(types.int64, 1, "C")
_TABLE = types.Array(types.int64, 2, "C")

# Fields of a page's header, and of the headers of its kinds inside it.
_KIND, _SIZE, _STORED, _DATA, _DICTIONARY = 1, 2, 3, 5, 7
_VALUES, _ENCODING = 1, 2
# Thrift's types in its compact form.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 12
# Bits that a value may have to be read with those of the byte it begins in as one word.
_WIDEST = 32
_WORD = 8
# A run whose length has more bits is none.
_LONGEST = 34


@njit(types.UniTuple(types.int64, 2)(_BYTES, types.int64), cache=True, nogil=True)
def _varint(data, at):
    """A number and where it ends; an end of -1 if there is none."""
    number = np.int64(0)
    for shift in range(0, 63, 7):
        if at >= data.size:
            break
        byte = np.int64(data[at])
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    return np.int64(0), np.int64(-1)


@njit(types.int64(_BYTES, _TABLE), cache=True, nogil=True)
def find_pages(data, out):
    """The pages of a column chunk, each a row of `out`: kind, first byte, bytes as stored, bytes,
    values, encoding. Returns how many there are, or -1."""
    count = at = np.int64(0)
    while at < data.size:
        if count == out.shape[0]:
            return np.int64(-1)
        out[count] = -1
        depth, field, inside = np.int64(0), np.int64(0), np.int64(0)
        while True:
            if at >= data.size:
                return np.int64(-1)
            head = np.int64(data[at])
            at += 1
            if head == 0:
                if depth == 0:
                    break
                depth -= 1
                # What comes behind a header in the header needs the number of that one; what is
                # behind deeper ones is skipped.
                field = inside
                continue
            kind = head & 15
            if head >> 4:
                field += head >> 4
            else:
                field, at = _varint(data, at)
                if at < 0:
                    return np.int64(-1)
                field = (field >> 1) ^ -(field & 1)
            if kind in (_TRUE, _FALSE):
                continue
            if kind in (_I16, _I32, _I64):
                number, at = _varint(data, at)
                if at < 0:
                    return np.int64(-1)
                number = (number >> 1) ^ -(number & 1)
                if depth == 0:
                    if field == _KIND:
                        out[count, 0] = number
                    elif field == _SIZE:
                        out[count, 3] = number
                    elif field == _STORED:
                        out[count, 2] = number
                elif depth == 1 and (inside in (_DATA, _DICTIONARY)):
                    if field == _VALUES:
                        out[count, 4] = number
                    elif field == _ENCODING:
                        out[count, 5] = number
            elif kind == _BYTE:
                at += 1
            elif kind == _DOUBLE:
                at += 8
            elif kind == _BINARY:
                length, at = _varint(data, at)
                if at < 0 or length > data.size - at:
                    return np.int64(-1)
                at += length
            elif kind == _STRUCT:
                if depth == 0:
                    inside = field
                depth += 1
                field = np.int64(0)
            else:
                return np.int64(-1)
        for place in (0, 2, 3, 4, 5):
            if out[count, place] < 0:
                return np.int64(-1)
        if out[count, 2] > data.size - at:
            return np.int64(-1)
        out[count, 1] = at
        at += out[count, 2]
        count += 1
    return count


@njit(types.int64(_BYTES, _OUT_PLACES), cache=True, nogil=True)
def unpack(page, out):
    """The numbers of a page, as many as `out` holds: how many bits they have, and then runs of one
    number, or of packed ones. Returns the largest, or -1."""
    if page.size == 0 or page[0] > _WIDEST - 1:
        return np.int64(-1)
    width = np.int64(page[0])
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    base = np.uint64(page.ctypes.data)
    at, done = np.int64(1), np.int64(0)
    while done < out.size:
        head, at = _varint(page, at)
        if at < 0 or head >> _LONGEST:
            return np.int64(-1)
        if head & 1:
            # Eight numbers at a time, which are as many bytes as each has bits.
            nbytes = (head >> 1) * width
            if nbytes > page.size - at:
                return np.int64(-1)
            count = min((head >> 1) * 8, out.size - done)
            part = out[done : done + count]
            # Whole words can be read of all that begin eight bytes before the end.
            safe = np.int64(0)
            if width and page.size - at > _WORD:
                safe = min(count, (page.size - at - _WORD) * 8 // width)
            start = base + np.uint64(at)
            for k in range(safe):
                bit = np.uint64(k * width)
                word = read_64(start + (bit >> np.uint64(3)))
                part[k] = np.int32((word >> (bit & np.uint64(7))) & mask)
            for k in range(safe, count):
                number = np.uint64(0)
                for b in range(width):
                    place = k * width + b
                    byte = np.uint64(page[at + (place >> 3)])
                    number |= ((byte >> np.uint64(place & 7)) & np.uint64(1)) << np.uint64(b)
                part[k] = np.int32(number)
            at += nbytes
        else:
            count = min(head >> 1, out.size - done)
            nbytes = (width + 7) >> 3
            if nbytes > page.size - at:
                return np.int64(-1)
            number = np.uint64(0)
            for b in range(nbytes):
                number |= np.uint64(page[at + b]) << np.uint64(8 * b)
            if number > mask:
                return np.int64(-1)
            out[done : done + count] = np.int32(number)
            at += nbytes
        if count == 0:
            return np.int64(-1)
        done += count
    most = np.int32(0)
    for k in range(out.size):
        most = max(most, out[k])
    return np.int64(most)


@njit(types.int64(_PLACES, _LONGS, _OUT_LONGS, _OUT_LONGS), cache=True, nogil=True)
def find_numbered(places, known, rows, numbers):
    """Write the rows at whose place something is known, which is not negative, and what that is;
    returns how many there are."""
    count = 0
    for row in range(places.size):
        number = known[places[row]]
        rows[count] = row
        numbers[count] = number
        if number >= 0:
            count += 1
    return count


@njit(
    types.int64(_PLACES, _CODES, types.uint64, _PLACES, _OUT_LONGS, _OUT_LONGS),
    cache=True,
    nogil=True,
)
def find_numbered_dense(places, codes, least, slots, rows, numbers):
    """The same for keys that have a slot each, from the least on, with -1 where nothing is known:
    each of the distinct `codes` is looked up once."""
    size = np.uint64(slots.size)
    known = np.empty(codes.size, np.int32)
    for place in range(codes.size):
        # Keys below the least wrap around and are as far off as those above the most.
        slot = codes[place] - least
        known[place] = slots[slot] if slot < size else np.int32(-1)
    count = 0
    for row in range(places.size):
        number = known[places[row]]
        rows[count] = row
        numbers[count] = number
        if number >= 0:
            count += 1
    return count
