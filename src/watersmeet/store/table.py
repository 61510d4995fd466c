"""One side's rows in memory, found by hash and listed by partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import matching, sorting
from watersmeet.rows.address import Index
from watersmeet.rows.values import Mask
from watersmeet.store.columns import variable_bytes
from watersmeet.store.index import INDEX_BYTES, Codes, HashIndex, PairBuffer
from watersmeet.store.rows import IndexedRows, stored_bytes


@lru_cache
def row_bytes(schema: pa.Schema) -> int:
    """Bytes of a row of this schema in a table, without values of variable width."""
    return INDEX_BYTES + stored_bytes(schema)


def batch_bytes(batch: pa.RecordBatch) -> int:
    """By how many bytes a table grows when this batch is added."""
    return len(batch) * row_bytes(batch.schema) + sum(map(variable_bytes, batch.columns))


class Table(IndexedRows):
    """Rows of one side with a hash index over all of them, counted by hash partition."""

    def __init__(self, schema: pa.Schema, *, rows: int, nbytes: int, partitions: int) -> None:
        super().__init__(schema, rows=rows, nbytes=nbytes, each=row_bytes(schema))
        self.by_partition = np.zeros(partitions, np.int64)
        self.index = HashIndex(rows)

    @property
    def nbytes(self) -> int:
        return self._bytes_of_rows() + self.index.spare_bytes

    def codes(self, index: Index | NDArray[np.int32]) -> Codes:
        codes: Codes = self.index.nodes[index, 0]
        return codes

    def codes_from(self, first: int) -> Codes:
        """The codes of all rows from number `first` on."""
        return np.ascontiguousarray(self.index.nodes[first : len(self), 0])

    def add(
        self,
        codes: Codes,
        stamps: NDArray[np.int64],
        rows: pa.RecordBatch,
        counts: NDArray[np.int64] | None = None,
        *,
        chosen: Index | None = None,
    ) -> None:
        """Add rows, all of a batch or those that are chosen by position; `counts` says how many
        there are of each partition, if that is known."""
        self.append(stamps, rows, chosen)
        if counts is None:
            matching.count_partitions(codes, self.by_partition)
        else:
            self.by_partition += counts
        self.index.add(codes)

    def find(
        self, wanted: Codes, pairs: PairBuffer, *, since: int = 0
    ) -> Iterator[tuple[Index, Index]]:
        """Pairs of a row and an i such that the row's code is wanted[i], no more at a time than fit
        `pairs`. Only rows that arrived after the stamp `since` are looked for.
        """
        floor = int(np.searchsorted(self.stamps, since, side="right")) if since else 0
        return self.index.find(wanted, pairs, floor)

    def by_code(self, rows: NDArray[np.int32]) -> tuple[Codes, Index]:
        """The codes of rows by number, in order, and the rows; older ones first if codes are equal
        and older rows come first in `rows`. Partitions are ranges of codes, so those of rows of
        several partitions stand one behind the other."""
        codes, ordered = sorting.sort_rows(self.index.nodes, rows)
        return codes, ordered

    def oldest(self, rows: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """For each partition p, the numbers of its rows[p] oldest rows."""
        return np.split(self.oldest_together(rows), np.cumsum(rows)[:-1])

    def first_of_each(self, *, after: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The numbers of the oldest row of each partition that has any, and these partitions."""
        assert not after, "a table in which all rows of a partition leave oldest first"
        one = np.minimum(self.by_partition, 1)
        return self.oldest_together(one), np.flatnonzero(one)

    def oldest_together(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers of the rows[p] oldest rows of each partition p, partition by partition."""
        places = np.cumsum(rows)
        grouped = np.empty(int(places[-1]), np.int32)
        matching.group_rows(self.index.nodes, len(self), places, places - rows, grouped)
        return grouped

    def count_dropped(self, keep: Mask) -> NDArray[np.int64]:
        """How many rows of each partition are not kept."""
        gone = np.zeros_like(self.by_partition)
        matching.count_dropped(self.index.nodes, keep, gone)
        return gone

    def drop(self, keep: Mask, gone: NDArray[np.int64]) -> None:
        """Drop the rows that are not kept; `gone[p]` of them are of partition p."""
        self.remove(keep)
        self.index.drop(keep)
        self.by_partition -= gone

    def clear(self) -> None:
        """Drop all rows."""
        self.drop(np.zeros(0, np.bool_), self.by_partition.copy())
