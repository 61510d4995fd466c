"""Columns of any type as plain arrays, whose rows are copied out by position or by ranges.

To copy lists, Arrow makes an array of the positions of all their elements, eight bytes for each,
which is many times the size of a list of small numbers. Here lists are copied by ranges: the
elements of neighbouring lists are one range, so no such array is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.kernels import gather, ranges
from watersmeet.rows.address import Index
from watersmeet.rows.buffers import aligned, fixed_bytes, has_offsets, variable_bytes

Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

_FLAG_BYTES = 1
OFFSET_BYTES = 9


class Values(Protocol):
    """Values of one column. `valid` says which are not null; None if all are."""

    def taken(self, index: Index) -> pa.Array: ...

    def copied(self, starts: Index, stops: Index) -> pa.Array:
        """Rows starts[k] .. stops[k] - 1 of every k, end to end."""
        ...

    def widths(self, starts: Index, stops: Index) -> Index:
        """How many bytes the rows of each range take in memory."""
        ...


@dataclass(frozen=True, slots=True)
class FixedValues:
    """Values of one width. Booleans are a byte each."""

    kind: pa.DataType
    width: int
    data: Bytes
    valid: Mask | None

    def taken(self, index: Index) -> pa.Array:
        dtype = f"u{self.width}" if self.width in (1, 2, 4, 8) else f"V{self.width}"
        values = values_at(self.data.view(dtype), index)
        return self._array(values.view(np.uint8), len(index), _bits_at(self.valid, index))

    def copied(self, starts: Index, stops: Index) -> pa.Array:
        count = int((stops - starts).sum())
        out = np.empty(count * self.width, np.uint8)
        ranges.copy_ranges(self.data, starts * self.width, stops * self.width, out)
        return self._array(out, count, _bits_in(self.valid, starts, stops))

    def widths(self, starts: Index, stops: Index) -> Index:
        return (stops - starts) * (self.width + _FLAG_BYTES)

    def _array(self, values: Bytes, count: int, bits: pa.Buffer | None) -> pa.Array:
        if pt.is_boolean(self.kind):
            values = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(self.kind, count, [bits, pa.py_buffer(values)])


@dataclass(frozen=True, slots=True)
class BytesValues:
    """Texts and bytes."""

    kind: pa.DataType
    offsets: Index
    data: Bytes
    valid: Mask | None

    def taken(self, index: Index) -> pa.Array:
        offsets = np.empty(len(index) + 1, offset_type(self.kind))
        data = np.empty(gather.lay_out(self.offsets, index, offsets), np.uint8)
        gather.copy_bytes(self.offsets, self.data, index, data)
        buffers = [_bits_at(self.valid, index), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.kind, len(index), buffers)

    def copied(self, starts: Index, stops: Index) -> pa.Array:
        offsets = _laid_out(self.kind, self.offsets, starts, stops)
        data = np.empty(int(offsets[-1]), np.uint8)
        ranges.copy_ranges(self.data, self.offsets[starts], self.offsets[stops], data)
        bits = _bits_in(self.valid, starts, stops)
        buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.kind, len(offsets) - 1, buffers)

    def widths(self, starts: Index, stops: Index) -> Index:
        return self.offsets[stops] - self.offsets[starts] + (stops - starts) * OFFSET_BYTES


@dataclass(frozen=True, slots=True)
class ListValues:
    """Lists and maps."""

    kind: pa.DataType
    offsets: Index
    elements: Values
    valid: Mask | None

    def taken(self, index: Index) -> pa.Array:
        return self.copied(index, index + 1)

    def copied(self, starts: Index, stops: Index) -> pa.Array:
        offsets = _laid_out(self.kind, self.offsets, starts, stops)
        buffers = [_bits_in(self.valid, starts, stops), pa.py_buffer(offsets)]
        elements = self.elements.copied(self.offsets[starts], self.offsets[stops])
        return pa.Array.from_buffers(self.kind, len(offsets) - 1, buffers, children=[elements])

    def widths(self, starts: Index, stops: Index) -> Index:
        own = (stops - starts) * OFFSET_BYTES
        return own + self.elements.widths(self.offsets[starts], self.offsets[stops])


@dataclass(frozen=True, slots=True)
class FixedListValues:
    """Lists that are all of one length."""

    kind: pa.DataType
    elements: Values
    valid: Mask | None

    def taken(self, index: Index) -> pa.Array:
        return self.copied(index, index + 1)

    def copied(self, starts: Index, stops: Index) -> pa.Array:
        size, count = self.kind.list_size, int((stops - starts).sum())
        elements = self.elements.copied(starts * size, stops * size)
        bits = _bits_in(self.valid, starts, stops)
        return pa.Array.from_buffers(self.kind, count, [bits], children=[elements])

    def widths(self, starts: Index, stops: Index) -> Index:
        size = self.kind.list_size
        return (stops - starts) * _FLAG_BYTES + self.elements.widths(starts * size, stops * size)


@dataclass(frozen=True, slots=True)
class StructValues:
    kind: pa.DataType
    fields: tuple[Values, ...]
    valid: Mask | None

    def taken(self, index: Index) -> pa.Array:
        fields = [each.taken(index) for each in self.fields]
        bits = _bits_at(self.valid, index)
        return pa.Array.from_buffers(self.kind, len(index), [bits], children=fields)

    def copied(self, starts: Index, stops: Index) -> pa.Array:
        fields = [each.copied(starts, stops) for each in self.fields]
        bits, count = _bits_in(self.valid, starts, stops), int((stops - starts).sum())
        return pa.Array.from_buffers(self.kind, count, [bits], children=fields)

    def widths(self, starts: Index, stops: Index) -> Index:
        own = (stops - starts) * _FLAG_BYTES
        return own + sum(each.widths(starts, stops) for each in self.fields)


def values_at(values: NDArray[Any], index: Index) -> NDArray[Any]:
    """Items of an array at these positions, which are not checked."""
    if values.dtype.kind == "V":
        return values[index]
    taken = np.empty(len(index), values.dtype)
    gather.take_values(values, np.ascontiguousarray(index), taken)
    return taken


def values_of(array: pa.Array) -> Values:
    """The values of an array whose type `is_ranged`; most types are not copied."""
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if has_offsets(kind):
        data, offsets = variable_bytes(array)
        return BytesValues(kind, offsets.astype(np.int64, copy=False), data, valid)
    if pt.is_struct(kind):
        fields = (values_of(array.field(number)) for number in range(kind.num_fields))
        return StructValues(kind, tuple(fields), valid)
    if pt.is_fixed_size_list(kind):
        return FixedListValues(kind, values_of(elements_of(array)), valid)
    if kind.num_fields:
        return ListValues(kind, own_offsets(array), values_of(elements_of(array)), valid)
    width = fixed_width(kind)
    assert width is not None, f"{kind} is ranged"
    if pt.is_boolean(kind):
        data = array.fill_null(False).to_numpy(zero_copy_only=False).view(np.uint8)
    else:
        data = aligned_bytes(array, width)
    return FixedValues(kind, width, data, valid)


def aligned_bytes(array: pa.Array, width: int) -> Bytes:
    values = fixed_bytes(array, width)
    whole = values.view(f"u{width}") if width in (2, 4, 8) else values
    found: Bytes = aligned(whole).view(np.uint8)
    return found


def elements_of(array: pa.Array) -> pa.Array:
    """The elements of the lists in this array, without those of lists that were sliced off."""
    if pt.is_fixed_size_list(array.type):
        # `values` also has the elements of lists that were sliced off.
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size)
    if not len(array):
        return array.values.slice(0, 0)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def own_offsets(array: pa.Array) -> Index:
    """Where each list begins among the elements of its array."""
    if not len(array):
        return np.zeros(1, np.int64)
    offsets: Index = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    offsets -= offsets[0]
    return offsets


def taken(array: pa.Array, index: Index) -> pa.Array:
    """The rows of an array at these positions."""
    if has_lists(array.type) and is_ranged(array.type):
        return values_of(array).taken(index)
    return array.take(pa.array(index))


def rows_at(batch: pa.RecordBatch, index: Index) -> pa.RecordBatch:
    """The rows of a batch at these positions."""
    if not any(map(has_lists, batch.schema.types)):
        return batch.take(pa.array(index))
    columns = [taken(column, index) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def rows_where(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    """The rows of a batch for which the mask is true."""
    if not any(map(has_lists, batch.schema.types)):
        return batch.filter(pa.array(mask))
    return rows_at(batch, np.flatnonzero(mask))


@lru_cache
def fixed_width(kind: pa.DataType) -> int | None:
    """Bytes of a value, for types with one buffer of values of one width; None for others."""
    if pt.is_null(kind) or pt.is_dictionary(kind) or kind.num_fields:
        return None
    try:
        return max(int(kind.bit_width) // 8, 1)
    except ValueError:  # views and other layouts without a fixed width
        return None


def is_ranged(kind: pa.DataType) -> bool:
    """Whether columns of this type can be copied by ranges of rows."""
    # Asked first, because the answers are cached, and an extension type may have no hash.
    return not isinstance(kind, pa.BaseExtensionType) and _is_ranged(kind)


@lru_cache
def _is_ranged(kind: pa.DataType) -> bool:
    if is_list(kind) or pt.is_struct(kind):
        return all(is_ranged(kind.field(number).type) for number in range(kind.num_fields))
    return has_offsets(kind) or fixed_width(kind) is not None


def has_lists(kind: pa.DataType) -> bool:
    """Whether there are lists or maps somewhere in a type."""
    return not isinstance(kind, pa.BaseExtensionType) and _has_lists(kind)


@lru_cache
def _has_lists(kind: pa.DataType) -> bool:
    fields = range(kind.num_fields)
    return is_list(kind) or (
        pt.is_struct(kind) and any(has_lists(kind.field(number).type) for number in fields)
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind) or pt.is_fixed_size_list(kind)
    )


def offset_type(kind: pa.DataType) -> type[np.signedinteger[Any]]:
    large = pt.is_large_string(kind) or pt.is_large_binary(kind) or pt.is_large_list(kind)
    return np.int64 if large else np.int32


def _laid_out(kind: pa.DataType, offsets: Index, starts: Index, stops: Index) -> NDArray[Any]:
    out = np.empty(int((stops - starts).sum()) + 1, offset_type(kind))
    ranges.lay_out_ranges(offsets, starts, stops, out)
    return out


def _bits_at(valid: Mask | None, index: Index) -> pa.Buffer | None:
    return None if valid is None else _bits(valid[index])


def _bits_in(valid: Mask | None, starts: Index, stops: Index) -> pa.Buffer | None:
    if valid is None:
        return None
    out = np.empty(int((stops - starts).sum()), np.uint8)
    ranges.copy_ranges(valid.view(np.uint8), starts, stops, out)
    return _bits(out)


def _bits(valid: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
