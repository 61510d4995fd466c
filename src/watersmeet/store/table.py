"""One side's rows in memory: add, find, list by partition, drop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import matching
from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.store.arena import Arena
from watersmeet.store.columns import Mask, close_fixed, fixed_bytes, make_column, variable_bytes

Hashes = NDArray[np.uint64]

_FEWEST_BUCKETS = 1024
# Per row: hash and link (16), arrival stamp (8), up to two bucket heads (8), and the flag that
# marks rows for removal (1).
_INDEX_BYTES = 33


def row_bytes(schema: pa.Schema) -> int:
    """What a row of this schema takes in a table before its variable part."""
    return _INDEX_BYTES + sum(fixed_bytes(kind) for kind in schema.types)


def batch_bytes(batch: pa.RecordBatch) -> int:
    """What a table would grow by if this batch were added."""
    return len(batch) * row_bytes(batch.schema) + sum(map(variable_bytes, batch.columns))


class PairBuffer:
    """Room for one bounded chunk of pairs, used again and again."""

    def __init__(self, size: int) -> None:
        self.first = np.empty(size, np.int64)
        self.second = np.empty(size, np.int64)


class Table:
    """Rows of one side with a hash index over all of them.

    Rows 0 .. len-1 are in arrival order, each with its hash, its arrival stamp and its place
    in a hash chain. Dropping rows closes the gaps and keeps the order, so a row's number holds
    until the next drop.
    """

    def __init__(self, schema: pa.Schema, *, rows: int, nbytes: int, partitions: int) -> None:
        self.schema = schema
        self.by_partition = np.zeros(partitions, np.int64)
        self._rows = 0
        self._capacity = rows
        self._node_arena = Arena(2 * rows, np.uint64)
        self._nodes = self._node_arena.array.reshape(rows, 2)
        self._stamps = Arena(rows, np.int64)
        self._heads = np.full(_FEWEST_BUCKETS, -1, np.int32)
        self._columns = [make_column(kind, rows=rows, nbytes=nbytes) for kind in schema.types]
        self._row_bytes = row_bytes(schema)

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        variable = sum(column.variable_bytes for column in self._columns)
        return self._rows * self._row_bytes + variable

    @property
    def stamps(self) -> NDArray[np.int64]:
        return self._stamps.array[: self._rows]

    def hashes(self, index: Index) -> Hashes:
        return self._nodes[index, 0]

    def take(self, column: int, index: Index) -> pa.Array:
        return self._columns[column].take(index)

    def key_buffers(self, column: int) -> KeyBuffers:
        return self._columns[column].key_buffers()

    def add(self, hashes: Hashes, stamps: NDArray[np.int64], rows: pa.RecordBatch) -> None:
        start, stop = self._rows, self._rows + len(rows)
        for column, values in zip(self._columns, rows.columns, strict=True):
            column.append(start, values)
        self._nodes[start:stop, 0] = hashes
        self._stamps.array[start:stop] = stamps
        matching.count_partitions(hashes, self.by_partition)
        self._rows = stop
        if stop > self._heads.size:
            self._index_again()
        else:
            matching.insert(self._heads, self._nodes, start, stop)

    def find(self, wanted: Hashes, pairs: PairBuffer) -> Iterator[tuple[Index, Index]]:
        """Rows with an equal hash, and which of `wanted` each answers, in bounded chunks."""
        start, resume = 0, -2
        while start < wanted.size:
            found, start, resume = matching.probe(
                self._heads, self._nodes, wanted, start, resume, pairs.first, pairs.second
            )
            if found:
                yield pairs.first[:found], pairs.second[:found]

    def oldest(self, rows: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """For each partition p, its rows[p] oldest row numbers."""
        places = np.cumsum(rows)
        cursor = places - rows
        grouped = np.empty(int(places[-1]), np.int32)
        matching.group_rows(self._nodes, self._rows, places, cursor, grouped)
        return np.split(grouped, places[:-1])

    def drop(self, keep: Mask, gone: NDArray[np.int64]) -> None:
        """Forget the rows that are not kept; `gone[p]` of them are of partition p."""
        kept = close_fixed(self._nodes[: self._rows], keep)
        self._node_arena.release(2 * kept)
        close_fixed(self._stamps.array[: self._rows], keep)
        self._stamps.release(kept)
        for column in self._columns:
            column.close_gaps(keep)
        self._rows = kept
        self.by_partition -= gone
        self._index_again()

    def _index_again(self) -> None:
        size = _FEWEST_BUCKETS
        while size < self._rows:
            size *= 2
        if size > self._heads.size:
            self._heads = np.empty(0, np.int32)  # freed before its successor is touched
            self._heads = Arena(size, np.int32).array
        self._heads.fill(-1)
        matching.insert(self._heads, self._nodes, 0, self._rows)
