"""Pages of Parquet's column chunks: where they are, what Snappy made of them, and the numbers of
values in their dictionary.

A file may be damaged, so nothing is read beyond the end of what is given. Whatever is not as
expected is answered by -1, and left to Arrow.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from watersmeet.kernels.words import read_32, read_64, write_64

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_CODES = types.Array(types.uint64, 1, "C", readonly=True)
_PLACES = types.Array(types.int32, 1, "C", readonly=True)
_OUT_BYTES = types.Array(types.uint8, 1, "C")
_OUT_PLACES = types.Array(types.int32, 1, "C")
_OUT_LONGS = types.Array(types.int64, 1, "C")
_TABLE = types.Array(types.int64, 2, "C")
_READ_TABLE = types.Array(types.int64, 2, "C", readonly=True)

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
# What a page is.
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
# Of Snappy: a literal, or a copy of bytes before, with an offset of 11, 16 or 32 bits.
_LITERAL, _NEAR, _FAR = 0, 1, 2
# Literals of more bytes say how many they are in bytes of their own.
_SHORT = 60
# Bytes that are read or written at a time may be more than there are, up to so many.
_MARGIN = 24
# How a page says how long its levels are.
_LENGTH_BYTES = 4


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


@njit(types.int64(_BYTES, _OUT_BYTES), cache=True, nogil=True)
def inflate(data, out):
    """What Snappy made `data` of; returns -1 if that are not as many bytes as `out` holds.

    Of whole numbers of eight bytes that differ in the lowest, Snappy leaves one or two bytes and a
    copy of the others, again and again. For these a step is a literal and a copy, and words are
    read so that each lies in one that was written: a processor waits where it does not. Of prices
    this takes a third of the time of Snappy's own loop.
    """
    length, at = _varint(data, np.int64(0))
    if at < 0 or length != out.size:
        return np.int64(-1)
    source, target = np.uint64(data.ctypes.data), np.uint64(out.ctypes.data)
    done = np.int64(0)
    last_in, last_out = data.size - _MARGIN, length - _MARGIN
    while at < data.size:
        while at < last_in and done < last_out:
            word = read_64(source + np.uint64(at))
            tag = np.int64(word & np.uint64(255))
            # The commonest by themselves: where to go on does not depend on what was read then.
            if tag == 4:
                write_64(target + np.uint64(done), word >> np.uint64(8))
                at, done, word = at + 3, done + 2, word >> np.uint64(24)
            elif tag == 0:
                write_64(target + np.uint64(done), word >> np.uint64(8))
                at, done, word = at + 2, done + 1, word >> np.uint64(16)
            elif tag == 8 or tag == 12:
                count = (tag >> 2) + 1
                write_64(target + np.uint64(done), word >> np.uint64(8))
                at, done, word = at + count + 1, done + count, word >> np.uint64(8 * (count + 1))
            tag = np.int64(word & np.uint64(255))
            back = np.int64((word >> np.uint64(8)) & np.uint64(255))
            if tag & 3 == _NEAR:
                count, step = ((tag >> 2) & 7) + 4, np.int64(2)
                back |= (tag >> 5) << 8
            elif tag & 3 == _FAR:
                count, step = (tag >> 2) + 1, np.int64(3)
                back |= np.int64((word >> np.uint64(16)) & np.uint64(255)) << 8
            else:
                break
            if back > done or back < _WORD or count > _WORD or count < 4:
                break
            start = target + np.uint64(done - back)
            rest = np.uint64(count - 4)
            found = read_32(start) | (read_32(start + rest) << (np.uint64(8) * rest))
            write_64(target + np.uint64(done), found)
            at, done = at + step, done + count
        if at >= data.size:
            break
        tag = np.int64(data[at])
        at += 1
        if tag & 3 == _LITERAL:
            count = tag >> 2
            if count >= _SHORT:
                size = count - _SHORT + 1
                if size > data.size - at:
                    return np.int64(-1)
                count = np.int64(0)
                for k in range(size):
                    count |= np.int64(data[at + k]) << (8 * k)
                at += size
            count += 1
            if count > data.size - at or count > length - done:
                return np.int64(-1)
            copied = np.int64(0)
            # Of few bytes a word more than there are, if there is room for it.
            roomy = at + count < last_in and done + count < last_out
            words = count if roomy else count - _WORD + 1
            while copied < words:
                word = read_64(source + np.uint64(at + copied))
                write_64(target + np.uint64(done + copied), word)
                copied += _WORD
            for k in range(copied, count):
                out[done + k] = data[at + k]
            at, done = at + count, done + count
            continue
        if tag & 3 == _NEAR:
            count, size, back = ((tag >> 2) & 7) + 4, np.int64(1), (tag >> 5) << 8
        else:
            count, size, back = (tag >> 2) + 1, np.int64(2 if tag & 3 == _FAR else 4), np.int64(0)
        if size > data.size - at:
            return np.int64(-1)
        for k in range(size):
            back |= np.int64(data[at + k]) << (8 * k)
        at += size
        if back < 1 or back > done or count > length - done:
            return np.int64(-1)
        if back >= _WORD and done + count < last_out:
            copied = np.int64(0)
            start = target + np.uint64(done)
            while copied < count:
                word = read_64(start + np.uint64(copied) - np.uint64(back))
                write_64(start + np.uint64(copied), word)
                copied += _WORD
        else:
            # What is copied may be part of the copy.
            for k in range(count):
                out[done + k] = out[done + k - back]
        done += count
    return done if done == length else np.int64(-1)


@njit(types.int64(_BYTES, types.int64), cache=True, nogil=True)
def _all_there(page, rows):
    """Where the numbers of a page begin behind what says that no row is null; -1 if it does not
    say so in one run."""
    if page.size < _LENGTH_BYTES:
        return np.int64(-1)
    length = np.int64(0)
    for k in range(_LENGTH_BYTES):
        length |= np.int64(page[k]) << (8 * k)
    end = _LENGTH_BYTES + length
    if end > page.size:
        return np.int64(-1)
    head, at = _varint(page[:end], np.int64(_LENGTH_BYTES))
    if at < 0 or at >= end or head & 1 or head >> 1 < rows or page[at] != 1:
        return np.int64(-1)
    return np.int64(end)


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


@njit(types.boolean(_BYTES, types.boolean, types.int64, _OUT_PLACES), cache=True, nogil=True)
def _numbers(page, nullable, distinct, out):
    """The numbers of a page that are all below `distinct`; false if they are not."""
    start = _all_there(page, np.int64(out.size)) if nullable else np.int64(0)
    if start < 0:
        return False
    most = unpack(page[start:], out)
    return out.size == 0 or (0 <= most < distinct)


@njit(
    types.boolean(
        _BYTES, _READ_TABLE, types.boolean, types.boolean, types.int64, _OUT_BYTES, _OUT_PLACES
    ),
    cache=True,
    nogil=True,
)
def read_pages(data, pages, snappy, nullable, distinct, dictionary, places):
    """Read the dictionary of a chunk, which is its first page, and the numbers of values of all
    its rows, each below `distinct`; false if they are not as expected.

    `pages` are as `find_pages` gives them, all but the first with numbers of values. Where there
    are nulls is looked at if it is `nullable`.
    """
    largest = np.int64(0)
    for k in range(1, pages.shape[0]):
        largest = max(largest, pages[k, 3])
    scratch = np.empty(largest if snappy else 0, np.uint8)
    done = np.int64(0)
    for k in range(pages.shape[0]):
        first, stored, nbytes, count = pages[k, 1], pages[k, 2], pages[k, 3], pages[k, 4]
        page = data[first : first + stored]
        if not snappy and nbytes != stored:
            return False
        if k == 0:
            if nbytes != dictionary.size:
                return False
            if not snappy:
                dictionary[:] = page
            elif inflate(page, dictionary) < 0:
                return False
            continue
        if count > places.size - done:
            return False
        part = places[done : done + count]
        if not snappy:
            if not _numbers(page, nullable, distinct, part):
                return False
        else:
            if inflate(page, scratch[:nbytes]) < 0:
                return False
            if not _numbers(scratch[:nbytes], nullable, distinct, part):
                return False
        done += count
    return done == places.size


@njit(types.boolean(_BYTES, _OUT_PLACES, _OUT_BYTES), cache=True, nogil=True)
def split_texts(page, ends, texts):
    """Texts of a dictionary, each with its length before it, one after the other, and where each
    of them ends, behind a 0; false if the page is not as long as they are."""
    at, done = np.int64(0), np.int64(0)
    ends[0] = 0
    for number in range(ends.size - 1):
        if page.size - at < _LENGTH_BYTES:
            return False
        length = np.int64(0)
        for k in range(_LENGTH_BYTES):
            length |= np.int64(page[at + k]) << (8 * k)
        at += _LENGTH_BYTES
        if length > page.size - at:
            return False
        for k in range(length):
            texts[done + k] = page[at + k]
        at, done = at + length, done + length
        ends[number + 1] = np.int32(done)
    return at == page.size


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


@njit(
    [
        types.void(
            types.Array(kind, 1, "C", readonly=True), _PLACES, _LONGS, types.Array(kind, 1, "C")
        )
        for kind in (types.int32, types.int64)
    ],
    cache=True,
    nogil=True,
)
def take_values(known, places, rows, out):
    """Write the known value of each of these rows, or of all if there are none."""
    if rows.size:
        for k in range(rows.size):
            out[k] = known[places[rows[k]]]
    else:
        for k in range(places.size):
            out[k] = known[places[k]]
