"""Which group does each row belong to? Values become small numbers, and come back at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.expressions.promotion import spark_type

Codes = NDArray[np.int64]
_MOST = 1 << 62
_WIDENED = (pa.float16(),)


@dataclass(frozen=True)
class Groups:
    """`values[codes[i]]` is the group of row i. Without group columns all rows are in one group."""

    codes: Codes | None
    values: tuple[pa.Array, ...]
    count: int

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> Groups:
        """Rows with equal values in all columns are in one group; null is a value like others.

        >>> groups = Groups.of([pa.array(["b", "a", "b"]), pa.array([1, None, 1])])
        >>> groups.codes.tolist(), [column.to_pylist() for column in groups.values]
        ([0, 1, 0], [['b', 'a'], [1, None]])
        """
        if not columns:
            return cls(None, (), 1)
        parts = [_encode(column) for column in columns]
        codes, count = parts[0][0], len(parts[0][1])
        if len(parts) == 1:
            return cls(codes, (parts[0][1],), count)
        for more, values in parts[1:]:
            if count * len(values) > _MOST:
                # No more than there are rows, so that the numbers stay within 64 bits.
                found, codes = np.unique(codes, return_inverse=True)
                count = len(found)
            codes = codes * max(len(values), 1) + more
            count *= max(len(values), 1)
        _, rows, codes = np.unique(codes, return_index=True, return_inverse=True)
        # Numbered as they come, so that known groups keep their numbers when more are appended.
        order = np.argsort(rows)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        rows = rows[order]
        values_ = tuple(values.take(pa.array(part[rows])) for part, values in parts)
        return cls(ranks[codes], values_, len(rows))


def _encode(column: pa.Array) -> tuple[Codes, pa.Array]:
    """Numbers of a column's values in the order in which they come, and the values."""
    if pa.types.is_dictionary(column.type):
        return _encode_numbered(column)
    if column.type in _WIDENED or pa.types.is_decimal(column.type):
        # Arrow numbers no values of its short floats and decimals.
        column = column.cast(spark_type(column.type))
    if pa.types.is_floating(column.type):
        # SQL groups -0.0 with 0.0, and every NaN with every other, whatever its bits; adding zero
        # leaves all other numbers alone.
        column = pc.add(column, pa.scalar(0.0, column.type))
        if pc.any(pc.is_nan(column)).as_py():
            column = pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), column)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _encode_numbered(column: pa.DictionaryArray) -> tuple[Codes, pa.Array]:
    """The same of values that have numbers: only those of the dictionary are compared. Some of
    them may be no row's."""
    values = column.dictionary
    if column.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    codes, distinct = _encode(values)
    rows = column.indices.fill_null(len(values) - 1) if column.null_count else column.indices
    return codes[rows.to_numpy(zero_copy_only=False)], distinct
