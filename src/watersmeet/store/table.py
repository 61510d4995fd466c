"""One side's rows in memory: add, find, list by partition, drop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import matching
from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.values import Mask, fixed_width, is_ranged
from watersmeet.store.arena import HUGE_PAGE, Arena
from watersmeet.store.columns import fixed_bytes, make_column, variable_bytes
from watersmeet.store.flat import close_fixed
from watersmeet.store.index import INDEX_BYTES, Codes, HashIndex, PairBuffer

# Per row, besides the index and its columns: arrival stamp (8) and the flag that marks rows for
# removal (1).
_STAMP_BYTES = 9
_HUGE_PAGES_EACH = 8


@lru_cache
def row_bytes(schema: pa.Schema) -> int:
    """What a row of this schema takes in a table before its variable part."""
    return INDEX_BYTES + _STAMP_BYTES + sum(fixed_bytes(kind) for kind in schema.types)


def batch_bytes(batch: pa.RecordBatch) -> int:
    """What a table would grow by if this batch were added."""
    return len(batch) * row_bytes(batch.schema) + sum(map(variable_bytes, batch.columns))


def _leaves(kind: pa.DataType) -> int:
    """How many arenas of variable width a column of this type has."""
    if not is_ranged(kind):
        return 0
    if not kind.num_fields:
        return int(fixed_width(kind) is None)
    return sum(max(_leaves(kind.field(number).type), 1) for number in range(kind.num_fields))


class Table:
    """Rows of one side with a hash index over all of them.

    Rows 0 .. len-1 are in arrival order, each with its code and its arrival stamp. Dropping rows
    closes the gaps and keeps the order, so a row's number holds until the next drop.
    """

    def __init__(self, schema: pa.Schema, *, rows: int, nbytes: int, partitions: int) -> None:
        self.schema = schema
        self.by_partition = np.zeros(partitions, np.int64)
        self._index = HashIndex(rows)
        self._stamps = Arena(rows, np.int64)
        self._row_bytes = row_bytes(schema)
        # Of each column's large pages the last one stands half empty.
        huge = rows * self._row_bytes >= _HUGE_PAGES_EACH * HUGE_PAGE * sum(
            map(_leaves, schema.types)
        )
        self._columns = [
            make_column(kind, rows=rows, nbytes=nbytes, huge=huge) for kind in schema.types
        ]
        self._mean_bytes = float(self._row_bytes)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        return self._bytes_of_rows() + self._index.spare_bytes

    def mean_bytes(self) -> float:
        """What a row takes here; buckets that stand empty are no part of it."""
        return self._bytes_of_rows() / len(self) if len(self) else float(self._row_bytes)

    def latest_mean_bytes(self) -> float:
        """The same; of an empty table, what a row took that was here last.

        Who merges what was spilled asks for this when memory is empty, and with the fixed part
        alone would load long rows by the thousand.
        """
        return self.mean_bytes() if len(self) else self._mean_bytes

    def _bytes_of_rows(self) -> int:
        variable = sum(column.variable_bytes for column in self._columns)
        return len(self) * self._row_bytes + variable

    @property
    def stamps(self) -> NDArray[np.int64]:
        return self._stamps.array[: len(self)]

    def codes(self, index: Index | NDArray[np.int32]) -> Codes:
        codes: Codes = self._index.nodes[index, 0]
        return codes

    def take(self, column: int, index: Index) -> pa.Array:
        return self._columns[column].take(index)

    def key_buffers(self, column: int) -> KeyBuffers:
        return self._columns[column].key_buffers()

    def widths(self, column: int, index: Index) -> Index:
        """How many bytes the values of one column at these positions take."""
        return self._columns[column].widths(index)

    def add(
        self,
        codes: Codes,
        stamps: NDArray[np.int64],
        rows: pa.RecordBatch,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Take in rows; `counts` are how many there are of each partition, if that is known."""
        start = len(self)
        for column, values in zip(self._columns, rows.columns, strict=True):
            column.append(start, values)
        self._stamps.array[start : start + len(rows)] = stamps
        if counts is None:
            matching.count_partitions(codes, self.by_partition)
        else:
            self.by_partition += counts
        self._index.add(codes)

    def find(
        self, wanted: Codes, pairs: PairBuffer, *, since: int = 0
    ) -> Iterator[tuple[Index, Index]]:
        """Rows with an equal code, and which of `wanted` each answers, in bounded chunks.

        Only rows that arrived after the stamp `since` are looked for.
        """
        floor = int(np.searchsorted(self.stamps, since, side="right")) if since else 0
        return self._index.find(wanted, pairs, floor)

    def oldest(self, rows: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """For each partition p, its rows[p] oldest row numbers."""
        places = np.cumsum(rows)
        cursor = places - rows
        grouped = np.empty(int(places[-1]), np.int32)
        matching.group_rows(self._index.nodes, len(self), places, cursor, grouped)
        return np.split(grouped, places[:-1])

    def first_of_each(self, *, after: int = 0) -> list[NDArray[np.int32]]:
        """For each partition the number of its oldest row, if it has one."""
        assert not after, "a table in which all rows of a partition leave oldest first"
        return self.oldest(np.minimum(self.by_partition, 1))

    def drop(self, keep: Mask, gone: NDArray[np.int64]) -> None:
        """Forget the rows that are not kept; `gone[p]` of them are of partition p."""
        self._mean_bytes = self.latest_mean_bytes()
        kept = close_fixed(self._index.nodes, keep)
        close_fixed(self._stamps.array, keep)
        self._stamps.release(kept)
        for column in self._columns:
            column.close_gaps(keep)
        self._index.shrink(kept)
        self.by_partition -= gone

    def clear(self) -> None:
        """Forget every row."""
        self.drop(np.zeros(0, np.bool_), self.by_partition.copy())
