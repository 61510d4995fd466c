"""Rows in memory by number: columns and arrival stamps, added at the end and dropped by a mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.batch import is_variable, longest_values
from watersmeet.rows.values import Mask, fixed_width, is_ranged
from watersmeet.store.arena import HUGE_PAGE, Arena
from watersmeet.store.columns import fixed_bytes, make_column
from watersmeet.store.flat import close_fixed

# Per row, besides its columns: arrival stamp (8) and the flag that marks rows for removal (1).
_STAMP_BYTES = 9
_HUGE_PAGES_EACH = 8


def stored_bytes(schema: pa.Schema) -> int:
    """Bytes of a row of this schema, without values of variable width and without indexes."""
    return _STAMP_BYTES + sum(fixed_bytes(kind) for kind in schema.types)


class RowStore:
    """Rows 0 .. len-1 in arrival order, each with its arrival stamp.

    When rows are dropped, the others move up in the same order, so a row keeps its number until the
    next drop. There are no codes here: whoever looks for rows by codes has an index over the same
    numbers.
    """

    def __init__(self, schema: pa.Schema, *, rows: int, nbytes: int, each: int) -> None:
        """`each` are the bytes of a row with its index, without values of variable width."""
        self.schema = schema
        self._count = 0
        self._stamps = Arena(rows, np.int64)
        self._row_bytes = each
        # The last of each column's large pages is half empty, so columns must have several.
        huge = rows * each >= _HUGE_PAGES_EACH * HUGE_PAGE * sum(map(_leaves, schema.types))
        self._columns = [
            make_column(kind, rows=rows, nbytes=nbytes, huge=huge) for kind in schema.types
        ]
        self._variable_bytes = 0
        """Of all columns."""
        self._mean_bytes = float(each)
        self._variable = [n for n, kind in enumerate(schema.types) if is_variable(kind)]
        self._longest = 0

    def __len__(self) -> int:
        return self._count

    @property
    def stamps(self) -> NDArray[np.int64]:
        return self._stamps.array[: self._count]

    def take(self, column: int, index: Index) -> pa.Array:
        return self._columns[column].take(index)

    def batch(self, index: Index) -> pa.RecordBatch:
        """All columns at these positions."""
        columns = [column.take(index) for column in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def key_buffers(self, column: int) -> KeyBuffers:
        return self._columns[column].key_buffers()

    def widths(self, column: int, index: Index) -> Index:
        """How many bytes the values of one column at these positions take."""
        return self._columns[column].widths(index)

    def longest(self, columns: Sequence[int]) -> int:
        """An upper bound of the bytes that values of variable width took in any row so far."""
        return self._longest

    def append(
        self, stamps: NDArray[np.int64], rows: pa.RecordBatch, chosen: Index | None = None
    ) -> None:
        """Add rows with these stamps: all of a batch, or those that are chosen by position."""
        start, self._count = self._count, self._count + len(stamps)
        for column, values in zip(self._columns, rows.columns, strict=True):
            column.append(start, values, chosen)
        self._stamps.array[start : self._count] = stamps
        self._variable_bytes = self._count_bytes()
        self._longest = max(self._longest, longest_values([rows.column(n) for n in self._variable]))

    def remove(self, keep: Mask) -> None:
        """Drop the rows that are not kept."""
        self._mean_bytes = self.latest_mean_bytes()
        used, self._count = self._count, close_fixed(self._stamps.array, keep)
        self._stamps.release(self._count, used=used)
        for column in self._columns:
            column.close_gaps(keep)
        self._variable_bytes = self._count_bytes()

    # ---- bytes ----------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return self._bytes_of_rows()

    def mean_bytes(self) -> float:
        """Mean bytes of a row, without spare bytes of indexes."""
        count = self._count
        return self._bytes_of_rows() / count if count else float(self._row_bytes)

    def latest_mean_bytes(self) -> float:
        """`mean_bytes`; for an empty store, that of the rows that were here last.

        Merges of spilled rows decide by it how many rows to load, often when memory is empty. If it
        were just the bytes of values of fixed width, they would load too many long rows.
        """
        return self.mean_bytes() if len(self) else self._mean_bytes

    def _bytes_of_rows(self) -> int:
        return self._count * self._row_bytes + self._variable_bytes

    def _count_bytes(self) -> int:
        return sum(column.variable_bytes for column in self._columns)


class IndexedRows(RowStore, ABC):
    """Rows in memory that are found by their codes."""

    @abstractmethod
    def codes(self, index: Index) -> NDArray[np.uint64]:
        """The codes of rows by number."""


def _leaves(kind: pa.DataType) -> int:
    """How many arenas of variable width a column of this type has."""
    if not is_ranged(kind):
        return 0
    if not kind.num_fields:
        return int(fixed_width(kind) is None)
    return sum(max(_leaves(kind.field(number).type), 1) for number in range(kind.num_fields))
