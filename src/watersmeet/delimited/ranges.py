"""Which lines of a file belong to a range of its bytes: those that begin there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

# What is read behind a range at a time, to find the end of its last line.
_AHEAD = 1 << 16


def lines_between(file: Any, start: int, stop: int, *, size: int) -> pa.Buffer:
    """The text of those lines of a file of `size` bytes that begin in [start, stop).

    `file` has `seek` and `read`. A line ends with its line feed. Ranges that lie end to end have
    each line once, wherever they are cut; a range inside a line has none. What is read is the range
    and the rest of its last line, however long that is.
    """
    stop = min(stop, size)
    if start >= stop:
        return pa.py_buffer(b"")
    # The byte before says whether a line begins with the range.
    begin = max(start - 1, 0)
    file.seek(begin)
    text = _read(file, min(stop + _AHEAD, size) - begin)
    first = 0
    if start:
        first = text.find(b"\n", 0, stop - begin) + 1
        if not first or begin + first >= stop:
            return pa.py_buffer(b"")
    end = text.find(b"\n", stop - 1 - begin)
    if end < 0:
        pieces = [text]
        reached = begin + len(text)
        while end < 0 and reached < size:
            piece = _read(file, min(_AHEAD, size - reached))
            end = piece.find(b"\n")
            pieces.append(piece if end < 0 else piece[: end + 1])
            reached += len(piece)
        text = b"".join(pieces)
        end = len(text) - 1
    return pa.py_buffer(text).slice(first, end + 1 - first)


def _read(file: Any, count: int) -> bytes:
    """So many bytes, of which some files give fewer at a time."""
    pieces = []
    while count:
        piece = file.read(count)
        if not piece:
            raise EOFError("a file is shorter than it was")
        pieces.append(piece)
        count -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
