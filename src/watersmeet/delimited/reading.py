"""From lines of text to columns with the values that Spark's reader gives, or to no columns.

What is read is what has been compared with Spark, and nothing else: simple texts of simple types,
in quotes that hold no quote and no backslash, or in none. So a line that is not read may be one
that Spark reads, and where it stands is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.delimited.layout import Layout
from watersmeet.delimited.values import NoValue, Texts, column_of

_ENCODING = -1
# How far around a byte the ends of its line are looked for at first.
_NEAR = 4096
# After a text that has no value, the next batch has so many rows, and then ever more.
_FEW_ROWS = 64
# So many characters of a text are shown.
_SHOWN = 40


class NotPlain(Exception):
    """A line, `text[start:stop]`, is not certain to have Spark's values here."""

    def __init__(self, reason: str, *, start: int, stop: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.start = start
        self.stop = stop


def columns_of(
    text: pa.Buffer,
    layout: Layout,
    *,
    batch_rows: int,
    refuse: Callable[[NotPlain], None] | None = None,
) -> Iterator[tuple[list[pa.Array], int]]:
    """Columns, those whose kind is given and in their order, and how many rows, of one batch of
    lines after the other.

    `text` has whole lines; the last may lack its end. When the rows of all lines before one that is
    not plain have been given, NotPlain is raised. Or `refuse` is told of it, which may raise, and
    the rows of the lines behind it follow: in smaller batches, so many such lines are slow.

    Needs memory for the columns of a batch, and 8 bytes for each of its values.
    """
    reader = _Reader(text, layout, batch_rows)
    rows_wanted = batch_rows
    while reader.next < len(reader.data):
        texts = reader.cut(rows_wanted)
        columns, failed = _columns(texts, reader.kinds)
        rows = failed.row if failed else texts.rows
        if rows:
            yield columns, rows
        rows_wanted = min(2 * rows_wanted, batch_rows)
        if failed:
            error = reader.value_error(texts, failed)
            # What was cut behind it is cut again.
            rows_wanted = min(max(2 * rows, _FEW_ROWS), batch_rows)
        elif reader.wrong:
            error = reader.line_error()
        else:
            continue
        if refuse is None:
            raise error
        refuse(error)
        reader.next = error.stop


def _columns(texts: Texts, kinds: list[pa.DataType]) -> tuple[list[pa.Array], NoValue | None]:
    """Columns of the rows before the first without a value, and what that has instead."""
    failed: NoValue | None = None
    while True:
        try:
            return [column_of(texts, kind, number) for number, kind in enumerate(kinds)], failed
        except NoValue as error:
            failed, texts = error, texts.first(error.row)


class _Reader:
    """One text. Lines from `next` on are not cut; what is `wrong` is so with the first of them."""

    def __init__(self, text: pa.Buffer, layout: Layout, batch_rows: int) -> None:
        self.data: NDArray[np.uint8] = np.frombuffer(text, np.uint8)
        self.kinds = [kind for kind in layout.kinds if kind is not None]
        self.next = 0
        self.wrong = 0
        self._layout = layout
        self._cutter = layout.cutter()
        # No line has less than a byte.
        rows = max(1, min(batch_rows, len(self.data)))
        self._places = np.empty((2, len(self.kinds), rows), np.int32)
        self._found = np.zeros(3, np.int64)

    def cut(self, most: int) -> Texts:
        """Those of the next lines, not more than so many."""
        begin = self.next
        rows = self._cut(begin, len(self.data), most)
        if self._found[2] >= 0x80 and (end := self._first_undecodable(begin)) is not None:
            rows = self._cut(begin, end, most)
            self.wrong = _ENCODING
        starts, sizes = self._places
        return Texts(
            self.data[begin:], starts[:, :rows], sizes[:, :rows], rows, begin, self._layout
        )

    def _cut(self, begin: int, stop: int, most: int) -> int:
        starts, sizes = self._places
        rows = self._cutter(self.data[:stop], begin, most, starts, sizes, self._found)
        self.next, self.wrong = self._found[:2].tolist()
        return rows

    def _first_undecodable(self, begin: int) -> int | None:
        """Where the first of the lines that were cut begins that is no UTF-8, if there is one."""
        whole = np.array([0, self.next - begin], np.int64)
        pieces = [None, pa.py_buffer(whole), pa.py_buffer(self.data[begin : self.next])]
        try:
            pa.Array.from_buffers(pa.large_string(), 1, pieces).validate(full=True)
        except pa.ArrowInvalid:
            try:
                self.data[begin : self.next].tobytes().decode()
            except UnicodeDecodeError as error:
                return self._line_of(begin + error.start)[0]
        return None

    def line_error(self) -> NotPlain:
        """Say of the next line what is wrong with it."""
        start, stop = self._line_of(self.next)
        is_undecodable = self.wrong == _ENCODING
        fault = "is not UTF-8" if is_undecodable else self._layout.fault(self.wrong)
        return NotPlain(f"a line {fault}", start=start, stop=stop)

    def value_error(self, texts: Texts, failed: NoValue) -> NotPlain:
        """Say where a text is that has no value."""
        place = texts.begin + int(texts.starts[failed.column, failed.row])
        start, stop = self._line_of(place)
        text = texts.text(failed.column, failed.row)
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return NotPlain(f"{shown!r} is not a plain {failed.kind}", start=start, stop=stop)

    def _line_of(self, place: int) -> tuple[int, int]:
        """Where the line begins and ends that a byte is in."""
        reach = _NEAR
        while True:
            first, last = max(place - reach, 0), min(place + reach, len(self.data))
            text = self.data[first:last].tobytes()
            start = text.rfind(b"\n", 0, place - first)
            stop = text.find(b"\n", place - first)
            if (start >= 0 or not first) and (stop >= 0 or last == len(self.data)):
                return first + start + 1, first + stop + 1 if stop >= 0 else last
            reach *= 8
