"""What the texts of a column are as values of a type: Arrow columns that kernels have filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.delimited.layout import Bytes, Layout, Places
from watersmeet.kernels import texts as kernels

_OFFSET_LIMIT = 2**31 - 1
# Words that `copy_texts` writes may reach so far behind the last text.
_MARGIN = 7


class NoValue(Exception):
    """The first row whose text is not plainly of its column's type."""

    def __init__(self, row: int, *, column: int, kind: pa.DataType) -> None:
        super().__init__(row)
        self.row = row
        self.column = column
        self.kind = kind


@dataclass(frozen=True)
class Texts:
    """Where texts are that are read: for each column a row of `starts` and of `sizes`, as a cutter
    leaves them."""

    data: Bytes
    """From the byte on that `starts` count from; it is `begin` of the text."""
    starts: NDArray[np.int32]
    sizes: NDArray[np.int32]
    rows: int
    begin: int
    layout: Layout

    def first(self, rows: int) -> Texts:
        return replace(self, starts=self.starts[:, :rows], sizes=self.sizes[:, :rows], rows=rows)

    def text(self, column: int, row: int) -> str:
        start, size = int(self.starts[column, row]), max(int(self.sizes[column, row]), 0)
        return self.data[start : start + size].tobytes().decode()


def column_of(texts: Texts, kind: pa.DataType, number: int) -> pa.Array:
    """The values of one column; raises NoValue."""
    column = _Column(texts, number, kind)
    if pt.is_string(kind):
        return _strings(column)
    if pt.is_floating(kind):
        return _floats(column)
    return column.array(_KINDS[kind.id](column))


class _Column:
    """One column's texts, as kernels want them, and which of them are null."""

    def __init__(self, texts: Texts, number: int, kind: pa.DataType) -> None:
        layout = texts.layout
        self.kind = kind
        self.rows = texts.rows
        self.data = texts.data
        self.starts, self.sizes = texts.starts[number], texts.sizes[number]
        self.empty_value = _bytes(layout.empty_value)
        self._number = number
        self._null_value = _bytes(layout.null_value)
        self._empty_is_null = layout.empty_is_null
        self._bits = np.full((self.rows + 7) // 8, 0xFF, np.uint8)
        self.count = np.zeros(2, np.int64)

    def fill(self, kernel: Callable[..., int], *more: Any) -> None:
        """Have a kernel read the texts; `more` is what it is given before the bits."""
        row = self._call(kernel, *more)
        if row >= 0:
            raise self.no_value(row)

    def no_value(self, row: int) -> NoValue:
        return NoValue(row, column=self._number, kind=self.kind)

    def lay(self, offsets: NDArray[np.int32]) -> int:
        return self._call(kernels.lay_texts, len(self.empty_value), offsets)

    def _call(self, kernel: Callable[..., int], *more: Any) -> int:
        places = self.starts, self.sizes
        nulls = self._null_value, self._empty_is_null
        return int(kernel(self.data, *places, *nulls, *more, self._bits, self.count))

    def array(self, *buffers: NDArray[Any]) -> pa.Array:
        """The column whose values lie in `buffers`."""
        nulls = int(self.count[0])
        # Bits behind the last row are no rows.
        valid = pa.py_buffer(self._bits) if nulls else None
        pieces = [valid, *(pa.py_buffer(buffer) for buffer in buffers)]
        return pa.Array.from_buffers(self.kind, self.rows, pieces, null_count=nulls)


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.array(list(text.encode()), np.uint8)


def _whole_numbers(column: _Column) -> NDArray[Any]:
    out = np.empty(column.rows, column.kind.to_pandas_dtype())
    column.fill(kernels.whole_numbers, np.iinfo(out.dtype).max, out)
    return out


def _decimals(column: _Column) -> NDArray[Any]:
    kind = column.kind
    upper, lower = divmod(10**kind.precision, 2**64)
    out = np.empty((column.rows, 2), np.uint64)
    limits = np.uint64(upper), np.uint64(lower)
    column.fill(kernels.decimals, kind.precision, kind.scale, *limits, out)
    return out


def _truths(column: _Column) -> NDArray[Any]:
    out = np.zeros((column.rows + 7) // 8, np.uint8)
    column.fill(kernels.truths, out)
    return out


def _days(column: _Column) -> NDArray[Any]:
    out = np.empty(column.rows, np.int32)
    column.fill(kernels.days, out)
    return out


_KINDS: dict[int, Callable[[_Column], NDArray[Any]]] = {
    **{kind.id: _whole_numbers for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    pa.decimal128(1).id: _decimals,
    pa.bool_().id: _truths,
    pa.date32().id: _days,
}


def _floats(column: _Column) -> pa.Array:
    out = np.empty(column.rows, column.kind.to_pandas_dtype())
    hard = np.empty(column.rows, np.int32)
    column.fill(kernels.floats, out, hard)
    if hards := int(column.count[1]):
        rows = hard[:hards]
        starts, sizes = column.starts[rows], column.sizes[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        copied = _copied(column, starts, sizes, offsets)
        strings = pa.StringArray.from_buffers(hards, pa.py_buffer(offsets), pa.py_buffer(copied))
        # Arrow finds the float or double that is nearest, each from the text itself.
        out[rows] = pc.cast(strings, column.kind).to_numpy()
    return column.array(out)


def _strings(column: _Column) -> pa.Array:
    offsets = np.empty(column.rows + 1, np.int32)
    total = column.lay(offsets)
    if total > _OFFSET_LIMIT:
        raise column.no_value(0)
    return column.array(offsets, _copied(column, column.starts, column.sizes, offsets))


def _copied(column: _Column, starts: Places, sizes: Places, offsets: Places) -> NDArray[np.uint8]:
    out = np.empty(int(offsets[-1]) + _MARGIN, np.uint8)
    kernels.copy_texts(column.data, starts, sizes, column.empty_value, offsets, out)
    return out
