"""Columns of values of one width, and of texts and bytes of any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import gather, ranges
from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.buffers import fixed_bytes as bytes_of_fixed
from watersmeet.rows.buffers import variable_bytes as bytes_of_variable
from watersmeet.rows.values import BytesValues, FixedValues, Mask, offset_type, values_at
from watersmeet.store.arena import Arena

# How many rows are moved at a time when gaps are closed, so that the intermediate copy is small.
_WINDOW = 2**16
_NO_OFFSETS = np.empty(0, np.int64)


class Validity:
    """One byte a row that says whether it has a value; allocated when the first null comes."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._arena: Arena | None = None

    def matters(self, values: pa.Array) -> bool:
        """Whether it is kept which of these values are there."""
        return values.null_count > 0 or self._arena is not None

    def append(self, at: int, values: pa.Array) -> None:
        if not self.matters(values):
            return
        if self._arena is None:
            self._arena = Arena(self._rows, np.bool_)
            self._arena.array[:at] = True
        self._arena.array[at : at + len(values)] = values.is_valid().to_numpy(zero_copy_only=False)

    def bitmap(self, index: Index) -> pa.Buffer | None:
        if self._arena is None:
            return None
        return pa.py_buffer(np.packbits(values_at(self._arena.array, index), bitorder="little"))

    def close_gaps(self, keep: Mask) -> None:
        if self._arena is not None:
            self._arena.release(close_fixed(self._arena.array, keep))

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        if self._arena is not None:
            kept = ranges.move_ranges(self._arena.array.view(np.uint8), starts, stops)
            self._arena.release(kept)

    def mask(self) -> Mask | None:
        return None if self._arena is None else self._arena.array


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
        self._valid = Validity(rows)
        self._width = width
        self._rows = 0
        self.fixed_bytes = width + 1

    variable_bytes = 0

    def append(self, at: int, values: pa.Array, chosen: Index | None = None) -> None:
        if chosen is not None and (self._boolean or self._valid.matters(values)):
            values, chosen = values.take(pa.array(chosen)), None
        self._valid.append(at, values)
        self._rows = at + (len(values) if chosen is None else len(chosen))
        stored = self._arena.array[at : self._rows]
        if chosen is not None:
            stored[:] = bytes_of_fixed(values, self._width).view(stored.dtype)[chosen]
        elif self._boolean:
            stored[:] = values.fill_null(False).to_numpy(zero_copy_only=False)
        elif len(values):
            stored[:] = bytes_of_fixed(values, self._width).view(stored.dtype)

    def take(self, index: Index) -> pa.Array:
        values = values_at(self._arena.array, index)
        if self._boolean:
            values = np.packbits(values, bitorder="little")
        buffers = [self._valid.bitmap(index), pa.py_buffer(values)]
        return pa.Array.from_buffers(self._kind, len(index), buffers)

    def close_gaps(self, keep: Mask) -> None:
        used, self._rows = self._rows, close_fixed(self._arena.array, keep)
        self._arena.release(self._rows, used=used)
        self._valid.close_gaps(keep)

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        data = self._arena.array.view(np.uint8)
        kept = ranges.move_ranges(data, starts * self._width, stops * self._width)
        used, self._rows = self._rows, kept // self._width
        self._arena.release(self._rows, used=used)
        self._valid.keep_ranges(starts, stops)

    def values(self) -> FixedValues:
        data = self._arena.array.view(np.uint8)
        return FixedValues(self._kind, self._width, data, self._valid.mask())

    def widths(self, index: Index) -> Index:
        return self.values().widths(index, index + 1)

    def key_buffers(self) -> KeyBuffers:
        return KeyBuffers(self._arena.array.view(np.uint8), _NO_OFFSETS, self._width)


class BytesColumn:
    """Strings and binaries: offsets, and the bytes end to end."""

    def __init__(self, kind: pa.DataType, *, rows: int, nbytes: int, huge: bool) -> None:
        self._kind = kind
        self._offset_type = offset_type(kind)
        self._offsets = Arena(rows + 1, np.int64)
        self._data = Arena(nbytes, np.uint8, huge=huge)
        self._valid = Validity(rows)
        self._rows = 0
        self.fixed_bytes = 9

    @property
    def variable_bytes(self) -> int:
        return int(self._offsets.array[self._rows])

    def append(self, at: int, values: pa.Array, chosen: Index | None = None) -> None:
        if chosen is not None and self._valid.matters(values):
            values, chosen = values.take(pa.array(chosen)), None
        self._valid.append(at, values)
        data, offsets = bytes_of_variable(values)
        if chosen is not None:
            gather.append_bytes(offsets, data, chosen, at, self._offsets.array, self._data.array)
            self._rows = at + len(chosen)
            return
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
        rows, nbytes = self._rows, self.variable_bytes
        gather.close_gaps(self._offsets.array, self._data.array, keep)
        self._rows = int(np.count_nonzero(keep))
        self._offsets.release(self._rows + 1, used=rows + 1)
        self._data.release(self.variable_bytes, used=nbytes)
        self._valid.close_gaps(keep)

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        ranges.move_ranges(
            self._data.array, self._offsets.array[starts], self._offsets.array[stops]
        )
        self._rows = int(ranges.move_offsets(self._offsets.array, starts, stops))
        self._offsets.release(self._rows + 1)
        self._data.release(self.variable_bytes)
        self._valid.keep_ranges(starts, stops)

    def values(self) -> BytesValues:
        offsets, data = self._offsets.array, self._data.array
        return BytesValues(self._kind, offsets, data, self._valid.mask())

    def widths(self, index: Index) -> Index:
        return self.values().widths(index, index + 1)

    def key_buffers(self) -> KeyBuffers:
        return KeyBuffers(self._data.array, self._offsets.array, 0)
