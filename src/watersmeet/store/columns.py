"""One column of rows in memory: append, copy out by position, close gaps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import gather
from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.batch import fixed_bytes as bytes_of_fixed
from watersmeet.rows.batch import has_offsets
from watersmeet.rows.batch import variable_bytes as bytes_of_variable
from watersmeet.store.arena import Arena

Mask = NDArray[np.bool_]

# Rows moved at a time when gaps are closed: the copy in between stays small.
_WINDOW = 2**16
_NO_OFFSETS = np.empty(0, np.int64)
# Arrow copies lists by a list of all their elements' places, eight bytes for each: a column of
# small numbers in one piece of 100 MB took a gigabyte for a moment whenever rows left it.
_LARGEST_PIECE = 2**20


class Column(Protocol):
    """Values of one field. Rows are appended at the end and keep their order."""

    fixed_bytes: int
    """Bytes every row takes, whatever its value."""

    @property
    def variable_bytes(self) -> int:
        """Bytes the stored values take beyond that."""
        ...

    def append(self, at: int, values: pa.Array) -> None: ...

    def take(self, index: Index) -> pa.Array: ...

    def close_gaps(self, keep: Mask) -> None:
        """Forget the rows that are not kept, and all those that `keep` does not reach."""
        ...

    def key_buffers(self) -> KeyBuffers: ...


def make_column(kind: pa.DataType, *, rows: int, nbytes: int) -> Column:
    """A column for at most `rows` rows and `nbytes` bytes of variable width."""
    if has_offsets(kind):
        return BytesColumn(kind, rows=rows, nbytes=nbytes)
    width = _fixed_width(kind)
    return ArrowColumn(kind) if width is None else FixedColumn(kind, width=width, rows=rows)


@lru_cache
def fixed_bytes(kind: pa.DataType) -> int:
    """What one row of this type takes before its variable part, as `Column.fixed_bytes`."""
    return make_column(kind, rows=0, nbytes=0).fixed_bytes


def variable_bytes(values: pa.Array) -> int:
    """What appending these values would add to a column's `variable_bytes`."""
    if has_offsets(values.type):
        _, offsets = bytes_of_variable(values)
        return int(offsets[-1] - offsets[0])
    return int(values.nbytes) if _fixed_width(values.type) is None else 0


@lru_cache
def _fixed_width(kind: pa.DataType) -> int | None:
    """Bytes of a value whose bytes are all that there is to it; None for other types."""
    if pa.types.is_null(kind) or pa.types.is_dictionary(kind) or kind.num_fields:
        return None
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:  # views and other layouts without a fixed width
        return None


def _offset_type(kind: pa.DataType) -> type[np.signedinteger[Any]]:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return np.int64 if large else np.int32


class _Validity:
    """One byte a row saying whether it has a value, kept only once a null has come."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._arena: Arena | None = None

    def append(self, at: int, values: pa.Array) -> None:
        if values.null_count == 0 and self._arena is None:
            return
        if self._arena is None:
            self._arena = Arena(self._rows, np.bool_)
            self._arena.array[:at] = True
        self._arena.array[at : at + len(values)] = values.is_valid().to_numpy(zero_copy_only=False)

    def bitmap(self, index: Index) -> pa.Buffer | None:
        if self._arena is None:
            return None
        return pa.py_buffer(np.packbits(self._arena.array[index], bitorder="little"))

    def close_gaps(self, keep: Mask) -> None:
        if self._arena is not None:
            self._arena.release(close_fixed(self._arena.array, keep))


def close_fixed(values: NDArray[Any], keep: Mask) -> int:
    """Move kept items to the front, in place and in order; returns how many there are."""
    if values.ndim == 2:
        return int(gather.close_pairs(values, keep))
    if values.dtype.kind != "V":
        return int(gather.close_values(values, keep))
    if values.itemsize == 16:
        return int(gather.close_pairs(values.view(np.uint64).reshape(-1, 2), keep))
    kept = 0
    for start in range(0, keep.size, _WINDOW):
        moved = np.flatnonzero(keep[start : start + _WINDOW]) + start
        values[kept : kept + moved.size] = values[moved]
        kept += moved.size
    return kept


class FixedColumn:
    """Values of one width, as their bytes. Booleans take a byte each."""

    def __init__(self, kind: pa.DataType, *, width: int, rows: int) -> None:
        self._kind = kind
        self._boolean = pa.types.is_boolean(kind)
        dtype = f"u{width}" if width in (1, 2, 4, 8) else f"V{width}"
        self._arena = Arena(rows, np.bool_ if self._boolean else dtype)
        self._valid = _Validity(rows)
        self._width = width
        self.fixed_bytes = width + 1

    variable_bytes = 0

    def append(self, at: int, values: pa.Array) -> None:
        self._valid.append(at, values)
        stored = self._arena.array[at : at + len(values)]
        if self._boolean:
            stored[:] = values.fill_null(False).to_numpy(zero_copy_only=False)
        elif len(values):
            stored[:] = bytes_of_fixed(values, self._width).view(stored.dtype)

    def take(self, index: Index) -> pa.Array:
        values = self._arena.array[index]
        if self._boolean:
            values = np.packbits(values, bitorder="little")
        buffers = [self._valid.bitmap(index), pa.py_buffer(values)]
        return pa.Array.from_buffers(self._kind, len(index), buffers)

    def close_gaps(self, keep: Mask) -> None:
        self._arena.release(close_fixed(self._arena.array, keep))
        self._valid.close_gaps(keep)

    def key_buffers(self) -> KeyBuffers:
        return KeyBuffers(self._arena.array.view(np.uint8), _NO_OFFSETS, self._width)


class BytesColumn:
    """Strings and binaries: offsets, and the bytes end to end."""

    def __init__(self, kind: pa.DataType, *, rows: int, nbytes: int) -> None:
        self._kind = kind
        self._offset_type = _offset_type(kind)
        self._offsets = Arena(rows + 1, np.int64)
        self._data = Arena(nbytes, np.uint8)
        self._valid = _Validity(rows)
        self._rows = 0
        self.fixed_bytes = 9

    @property
    def variable_bytes(self) -> int:
        return int(self._offsets.array[self._rows])

    def append(self, at: int, values: pa.Array) -> None:
        self._valid.append(at, values)
        data, offsets = bytes_of_variable(values)
        used, first, last = self.variable_bytes, int(offsets[0]), int(offsets[-1])
        self._data.array[used : used + last - first] = data[first:last]
        self._rows = at + len(values)
        self._offsets.array[at : self._rows + 1] = offsets
        self._offsets.array[at : self._rows + 1] += used - first

    def take(self, index: Index) -> pa.Array:
        offsets = np.empty(len(index) + 1, self._offset_type)
        data = np.empty(gather.lay_out(self._offsets.array, index, offsets), np.uint8)
        gather.copy_bytes(self._offsets.array, self._data.array, index, data)
        buffers = [self._valid.bitmap(index), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(self._kind, len(index), buffers)

    def close_gaps(self, keep: Mask) -> None:
        gather.close_gaps(self._offsets.array, self._data.array, keep)
        self._rows = int(np.count_nonzero(keep))
        self._offsets.release(self._rows + 1)
        self._data.release(self.variable_bytes)
        self._valid.close_gaps(keep)

    def key_buffers(self) -> KeyBuffers:
        return KeyBuffers(self._data.array, self._offsets.array, 0)


class ArrowColumn:
    """Lists, maps, structs and whatever else Arrow has: pieces that it copies for us.

    Piece sizes fall at least by half from one to the next, until they are as large as they may
    be, so there are few of them and every value is copied a logarithmic number of times.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._pieces: list[pa.Array] = []
        self.variable_bytes = 0
        self.fixed_bytes = 8

    def append(self, at: int, values: pa.Array) -> None:
        parts = max(1, min(len(values), -(-int(values.nbytes) // _LARGEST_PIECE)))
        rows = -(-len(values) // parts)
        for start in range(0, len(values), max(rows, 1)):
            self._append(values.slice(start, rows))
        self._count()

    def _append(self, values: pa.Array) -> None:
        # A slice would keep its whole parent alive, which nobody counts.
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
