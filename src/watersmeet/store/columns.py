"""One column of rows in memory: append, copy out by position, close gaps."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.buffers import has_offsets
from watersmeet.rows.buffers import variable_bytes as bytes_of_variable
from watersmeet.rows.values import Mask, elements_of, fixed_width, is_list, is_ranged
from watersmeet.store.flat import BytesColumn, FixedColumn
from watersmeet.store.nested import FixedListColumn, ListColumn, Part, StructColumn

# When a few rows of a piece are dropped, the rest is copied; so pieces are not too large.
_LARGEST_PIECE = 2**20


class Column(Protocol):
    """Values of one field. Rows are appended at the end and keep their order."""

    fixed_bytes: int
    """Bytes that every row takes, without its value if that is of variable width."""

    @property
    def variable_bytes(self) -> int:
        """Bytes that all stored values take beyond `fixed_bytes` for each."""
        ...

    def append(self, at: int, values: pa.Array, chosen: Index | None = None) -> None:
        """Add values, or those of them that are chosen by position."""
        ...

    def take(self, index: Index) -> pa.Array: ...

    def close_gaps(self, keep: Mask) -> None:
        """Drop the rows that are not kept, and all rows beyond the end of `keep`."""
        ...

    def widths(self, index: Index) -> Index:
        """How many bytes the values at these positions take."""
        ...

    def key_buffers(self) -> KeyBuffers: ...


def make_column(kind: pa.DataType, *, rows: int, nbytes: int, huge: bool = False) -> Column:
    """A column for at most `rows` rows and `nbytes` bytes of variable width."""
    if is_ranged(kind):
        return _made(kind, rows=rows, nbytes=nbytes, huge=huge)
    return ArrowColumn(kind)


def _made(kind: pa.DataType, *, rows: int, nbytes: int, huge: bool) -> _Made:
    if has_offsets(kind):
        return BytesColumn(kind, rows=rows, nbytes=nbytes, huge=huge)
    if pt.is_struct(kind):
        fields: list[Part] = [
            _made(field.type, rows=rows, nbytes=nbytes, huge=huge) for field in kind
        ]
        return StructColumn(kind, fields, rows=rows)
    if is_list(kind):
        inner = kind.field(0).type
        if pt.is_fixed_size_list(kind):
            size = kind.list_size
            elements = _made(inner, rows=rows * size, nbytes=nbytes, huge=huge)
            return FixedListColumn(kind, elements, rows=rows)
        most = nbytes // fixed_bytes(inner) if nbytes else 0
        return ListColumn(kind, _made(inner, rows=most, nbytes=nbytes, huge=huge), rows=rows)
    width = fixed_width(kind)
    assert width is not None, f"{kind} is ranged"
    return FixedColumn(kind, width=width, rows=rows)


_Made = BytesColumn | FixedColumn | StructColumn | ListColumn | FixedListColumn


@lru_cache
def fixed_bytes(kind: pa.DataType) -> int:
    """`Column.fixed_bytes` of a column of this type."""
    return make_column(kind, rows=0, nbytes=0).fixed_bytes


def variable_bytes(values: pa.Array) -> int:
    """By how much a column's `variable_bytes` grows when these values are appended."""
    kind = values.type
    if has_offsets(kind):
        _, offsets = bytes_of_variable(values)
        return int(offsets[-1] - offsets[0])
    if not is_ranged(kind):
        return int(values.nbytes)
    if pt.is_struct(kind):
        return sum(variable_bytes(values.field(number)) for number in range(kind.num_fields))
    if not is_list(kind):
        return 0
    elements = elements_of(values)
    fixed = 0 if pt.is_fixed_size_list(kind) else len(elements) * fixed_bytes(elements.type)
    return fixed + variable_bytes(elements)


class ArrowColumn:
    """Unions, list views and other types, as Arrow arrays: Arrow copies their rows.

    An array that is appended is merged with the one before unless that has at least twice as many
    rows, or the two together would be too large. So there are few arrays, and every value is copied
    a logarithmic number of times.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._pieces: list[pa.Array] = []
        self.variable_bytes = 0
        self.fixed_bytes = 8

    def append(self, at: int, values: pa.Array, chosen: Index | None = None) -> None:
        if chosen is not None:
            values = values.take(pa.array(chosen))
        parts = max(1, min(len(values), -(-int(values.nbytes) // _LARGEST_PIECE)))
        rows = -(-len(values) // parts)
        for start in range(0, len(values), max(rows, 1)):
            self._append(values.slice(start, rows))
        self._count()

    def _append(self, values: pa.Array) -> None:
        # Copied: a slice would keep all of its parent in memory, which is not counted.
        self._pieces.append(values.take(pa.array(np.arange(len(values)))))
        while len(self._pieces) > 1 and self._are_small(*self._pieces[-2:]):
            last = self._pieces.pop()
            self._pieces[-1] = pa.concat_arrays([self._pieces[-1], last])

    @staticmethod
    def _are_small(piece: pa.Array, last: pa.Array) -> bool:
        return len(piece) < 2 * len(last) and int(piece.nbytes) + int(last.nbytes) <= _LARGEST_PIECE

    def _count(self) -> None:
        self.variable_bytes = sum(int(piece.nbytes) for piece in self._pieces)

    def take(self, index: Index) -> pa.Array:
        if len(self._pieces) == 1:
            return self._pieces[0].take(pa.array(index))
        starts = np.cumsum([0, *map(len, self._pieces)])
        piece = np.searchsorted(starts, index, side="right") - 1
        order = np.argsort(piece, kind="stable")
        parts = [
            self._pieces[p].take(pa.array(index[piece == p] - starts[p])) for p in np.unique(piece)
        ]
        if not parts:
            return pa.array([], self._kind)
        back = np.empty(len(index), np.int64)
        back[order] = np.arange(len(index))
        return pa.concat_arrays(parts).take(pa.array(back))

    def widths(self, index: Index) -> Index:
        """The mean width for all, which is good enough to cut chunks by."""
        rows = max(sum(map(len, self._pieces)), 1)
        return np.full(len(index), self.fixed_bytes + self.variable_bytes // rows, np.int64)

    def close_gaps(self, keep: Mask) -> None:
        starts = np.cumsum([0, *map(len, self._pieces)])
        kept = [
            piece.filter(pa.array(keep[start : start + len(piece)]))
            for piece, start in zip(self._pieces, starts, strict=False)
            if keep[start : start + len(piece)].any()
        ]
        self._pieces = kept
        self._count()

    def key_buffers(self) -> KeyBuffers:
        raise TypeError(f"{self._kind} is no key type")
