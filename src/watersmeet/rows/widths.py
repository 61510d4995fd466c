"""How many bytes each row of a batch takes once its values are written out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.rows.buffers import has_offsets, variable_bytes
from watersmeet.rows.values import elements_of, is_list, own_offsets

Widths = NDArray[np.int64]

_OFFSET_BYTES = 8


def total_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of all rows, when dictionaries, views and run-end encoded columns are plain columns."""
    return sum(_total(column) for column in batch.columns)


def row_widths(batch: pa.RecordBatch) -> Widths:
    """Bytes of each row."""
    widths = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        width = _fixed_width(column.type)
        widths += _widths(column) if width is None else width
    return widths


def longest_row(batch: pa.RecordBatch) -> int:
    return int(row_widths(batch).max(initial=0))


def _total(array: pa.Array) -> int:
    """Bytes of a column, computed without looking at each row where the type allows it."""
    kind = array.type
    if has_offsets(kind):
        _, offsets = variable_bytes(array)
        return int(offsets[-1] - offsets[0]) + _OFFSET_BYTES * len(array)
    width = _fixed_width(kind)
    if width is not None:
        return width * len(array)
    if pt.is_struct(kind) or is_list(kind):
        return int(_of_ranges(array, np.array([0]), np.array([len(array)]))[0])
    return int(_widths(array).sum())


def _widths(array: pa.Array) -> Widths:
    kind = array.type
    if has_offsets(kind):
        _, offsets = variable_bytes(array)
        lengths: Widths = np.diff(offsets).astype(np.int64) + _OFFSET_BYTES
        return lengths
    width = _fixed_width(kind)
    if width is not None:
        return np.full(len(array), width, np.int64)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return _of_views(array)
    if pt.is_dictionary(kind):
        return _looked_up(_widths(array.dictionary), array.indices)
    if isinstance(array, pa.ExtensionArray):
        return _widths(array.storage)
    return _of_nested(array)


def _of_views(array: pa.Array) -> Widths:
    """A view is 16 bytes. The first four are the length; of a null they may be anything."""
    views = np.frombuffer(array.buffers()[1], np.int32)[4 * array.offset :: 4][: len(array)]
    return np.maximum(views, 0).astype(np.int64) + _OFFSET_BYTES


def _of_nested(array: pa.Array) -> Widths:
    kind = array.type
    if pt.is_struct(kind) or is_list(kind):
        every = np.arange(len(array))
        return _of_ranges(array, every, every + 1)
    if pt.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        run = np.searchsorted(np.asarray(array.run_ends), rows, side="right")
        return _widths(array.values)[run]
    # Unions and list views are rare, and Arrow's sum, divided evenly, is good enough to cut by.
    return np.full(len(array), -(-int(array.nbytes) // max(len(array), 1)), np.int64)


def _of_ranges(array: pa.Array, starts: Widths, stops: Widths) -> Widths:
    """Bytes of rows starts[k] .. stops[k] - 1, for every k.

    There may be a thousand times as many elements as lists, so they are summed up one by one only
    in encodings whose offsets do not tell.
    """
    kind, counts = array.type, stops - starts
    width = _fixed_width(kind)
    if width is not None:
        return np.asarray(counts * width)
    if has_offsets(kind):
        _, offsets = variable_bytes(array)
        nbytes = offsets[stops].astype(np.int64) - offsets[starts]
        return np.asarray(nbytes + _OFFSET_BYTES * counts)
    if pt.is_struct(kind):
        fields = range(kind.num_fields)
        return np.asarray(
            counts + sum(_of_ranges(array.field(number), starts, stops) for number in fields)
        )
    if pt.is_fixed_size_list(kind):
        size = kind.list_size
        return counts + _of_ranges(elements_of(array), starts * size, stops * size)
    if is_list(kind):
        offsets = own_offsets(array)
        elements = _of_ranges(elements_of(array), offsets[starts], offsets[stops])
        return np.asarray(elements + _OFFSET_BYTES * counts)
    ends = np.concatenate([[0], np.cumsum(_widths(array))])
    return np.asarray(ends[stops] - ends[starts])


def _looked_up(widths: Widths, indices: pa.Array) -> Widths:
    if not len(widths):
        return np.zeros(len(indices), np.int64)
    return widths[_whole_numbers(indices)]


def _whole_numbers(array: pa.Array) -> Widths:
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64)


def _fixed_width(kind: pa.DataType) -> int | None:
    if pt.is_null(kind):
        return 1
    if pt.is_dictionary(kind) or kind.num_fields:
        return None
    try:
        return int(kind.bit_width) // 8 + 1
    except ValueError:
        return None
