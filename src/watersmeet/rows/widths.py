"""How many bytes each row of a batch takes once its values are written out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.rows.batch import has_offsets, variable_bytes

Widths = NDArray[np.int64]

_OFFSET_BYTES = 8


def total_bytes(batch: pa.RecordBatch) -> int:
    """What the rows take when dictionaries, views and runs are written out."""
    return sum(_total(column) for column in batch.columns)


def row_widths(batch: pa.RecordBatch) -> Widths:
    """The same for each row."""
    widths = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        widths += _widths(column)
    return widths


def longest_row(batch: pa.RecordBatch) -> int:
    return int(row_widths(batch).max(initial=0))


def _total(array: pa.Array) -> int:
    """Without looking at each row where the type allows it."""
    kind = array.type
    if has_offsets(kind):
        _, offsets = variable_bytes(array)
        return int(offsets[-1] - offsets[0]) + _OFFSET_BYTES * len(array)
    width = _fixed_width(kind)
    return width * len(array) if width is not None else int(_widths(array).sum())


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
    """A view is 16 bytes, of which the first four are the length. Nulls have whatever they have."""
    views = np.frombuffer(array.buffers()[1], np.int32)[4 * array.offset :: 4][: len(array)]
    return np.maximum(views, 0).astype(np.int64) + _OFFSET_BYTES


def _of_nested(array: pa.Array) -> Widths:
    kind = array.type
    if pt.is_struct(kind):
        widths = np.ones(len(array), np.int64)
        for number in range(kind.num_fields):
            widths += _widths(array.field(number))
        return widths
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _of_ranges(np.asarray(array.offsets), _widths(array.values))
    if pt.is_map(kind):
        items = _widths(array.keys) + _widths(array.items)
        return _of_ranges(np.asarray(array.offsets), items)
    if pt.is_fixed_size_list(kind):
        # `values` begins with the parent's first row, whatever was sliced off.
        size, start = kind.list_size, array.offset * kind.list_size
        values = _widths(array.values.slice(start, len(array) * size))
        return np.asarray(values.reshape(len(array), size).sum(axis=1))
    if pt.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        run = np.searchsorted(np.asarray(array.run_ends), rows, side="right")
        return _widths(array.values)[run]
    # Unions and list views: rare, and Arrow's own figure is near enough to cut by.
    return np.full(len(array), -(-int(array.nbytes) // max(len(array), 1)), np.int64)


def _of_ranges(offsets: NDArray[np.int64], values: Widths) -> Widths:
    ends = np.concatenate([[0], np.cumsum(values)])
    return np.asarray(np.diff(ends[offsets]) + _OFFSET_BYTES)


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
