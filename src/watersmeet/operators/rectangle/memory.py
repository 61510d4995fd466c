"""The memory part of a rectangle join: tables in which slots say which partition a row is in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import rectangles
from watersmeet.model import Side
from watersmeet.operators.memory import PartitionedMemory
from watersmeet.policies.invoke import ranged_slots
from watersmeet.rows.address import Index
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.flat import close_fixed
from watersmeet.store.index import Codes
from watersmeet.store.table import Table

Slots = NDArray[np.uint16]

# How many slots, that is ranges of codes, there are for each partition. With more slots, skewed
# keys can be divided among partitions more evenly.
_SLOTS_EACH = 64


class StampedRows(BatchRows):
    """Rows of a batch with their stamps and codes, which tables have, too."""

    def __init__(self, batch: pa.RecordBatch, stamps: NDArray[np.int64], codes: Codes) -> None:
        super().__init__(batch)
        self.stamps = stamps
        self._codes = codes

    def codes(self, index: Index) -> Codes:
        return self._codes[index]


class SlottedTable(Table):
    """A table whose partitions are given by slots, and which stores the partition of each row."""

    def __init__(
        self, schema: pa.Schema, *, rows: int, nbytes: int, partitions: int, slots: Slots
    ) -> None:
        super().__init__(schema, rows=rows, nbytes=nbytes, partitions=partitions)
        self._slots = slots
        self._partitions = Arena(rows, np.uint16)

    def add(
        self,
        codes: Codes,
        stamps: NDArray[np.int64],
        rows: pa.RecordBatch,
        counts: NDArray[np.int64] | None = None,
        *,
        chosen: Index | None = None,
    ) -> None:
        assert counts is None, "rows are counted here"
        assert chosen is None, "promises, by which rows are chosen, are ignored here"
        here = self._partitions.array[len(self) : len(self) + len(rows)]
        counts = np.zeros_like(self.by_partition)
        rectangles.partition_rows(codes, self._slots, here, counts)
        super().add(codes, stamps, rows, counts)

    def drop(self, keep: Mask, gone: NDArray[np.int64]) -> None:
        self._partitions.release(close_fixed(self._partitions.array, keep))
        super().drop(keep, gone)

    def drop_index(self) -> None:
        """Stop finding rows by their codes, and free the memory for it."""
        self.index.indexed = False

    def grouped(self, rows: NDArray[np.int64], *, after: int = 0) -> NDArray[np.int32]:
        """The numbers of the rows[p] oldest rows from `after` on of each partition p, partition by
        partition."""
        places = np.cumsum(rows)
        cursor, grouped = places - rows, np.empty(int(places[-1]), np.int32)
        here = self._partitions.array[: len(self)]
        rectangles.group_rows(here, after, places, cursor, grouped)
        return grouped

    def first_of_each(self, *, after: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The numbers of the oldest row, from `after` on, of each partition that has any, and these
        partitions."""
        one = np.minimum(self.by_partition - self.in_partitions(after), 1)
        return self.grouped(one, after=after), np.flatnonzero(one)

    def of_partition(self, p: int) -> NDArray[np.int32]:
        """The row numbers of one partition."""
        return np.flatnonzero(self._partitions.array[: len(self)] == p).astype(np.int32)

    def in_partitions(self, rows: int) -> NDArray[np.int64]:
        """How many of the first `rows` rows are in each partition."""
        here = self._partitions.array[:rows]
        return np.bincount(here, minlength=len(self.by_partition)).astype(np.int64)

    def by_slot(self, slots: int) -> NDArray[np.int64]:
        counts = np.zeros(slots, np.int64)
        rectangles.count_slots(self.index.nodes, len(self), counts)
        return counts

    def remap(self, slots: Slots) -> None:
        """Change which partition each slot belongs to."""
        self._slots = slots
        self.by_partition[:] = 0
        codes, here = self.codes(np.arange(len(self))), self._partitions.array[: len(self)]
        rectangles.partition_rows(codes, slots, here, self.by_partition)

    def _bytes_of_rows(self) -> int:
        return super()._bytes_of_rows() + self._partitions.array.itemsize * len(self)


class RectangleMemory(PartitionedMemory):
    """The papers' A^m and B^m of all partitions, under one capacity."""

    tables: tuple[SlottedTable, ...]

    def __init__(
        self, schema: JoinSchema, *, nbytes: int, rows: int | None, partitions: int
    ) -> None:
        self.slots = ranged_slots(_SLOTS_EACH * partitions, partitions)
        self._indexed = True
        super().__init__(schema, nbytes=nbytes, rows=rows, partitions=partitions)

    def drop_index(self) -> None:
        """Drop the indexes after phase 1, when rows in memory are not looked for any more."""
        self._indexed = False
        for table in self.tables:
            table.drop_index()

    def partition_of(self, codes: Codes) -> Slots:
        partitions: Slots = self.slots[((codes >> 32) * np.uint64(self.slots.size)) >> 32]
        return partitions

    def by_slot(self) -> NDArray[np.int64]:
        left, right = (table.by_slot(len(self.slots)) for table in self.tables)
        return left + right

    def remap(self, slots: Slots) -> None:
        self.slots = slots
        for table in self.tables:
            table.remap(slots)

    def unused(self, spare_bytes: int) -> float:
        """How much the join of a partition may hold, in the unit of the capacity (bytes or rows).

        That is what rows leave free, and `spare_bytes`, or an eighth of the capacity in rows.
        """
        spare = self.capacity // 8 if self.counts_rows else spare_bytes
        return max(self.capacity - self.used, 0) + spare

    def size(self, table: Table) -> int:
        """The size of a table in the unit of the capacity."""
        return len(table) if self.counts_rows else table.nbytes

    def row_size(self, nbytes: float) -> float:
        """The size of a row of `nbytes` bytes in the unit of the capacity."""
        return 1.0 if self.counts_rows else max(nbytes, 1.0)

    def beside(self, side: Side) -> Table:
        """An empty table for rows of a side, beside the two tables of this class."""
        return Table(
            self._schemas[side],
            rows=max(2 * self._all // (1 if self.counts_rows else self.row_bytes[side]), 2**16) + 2,
            nbytes=2**36 if self.counts_rows else 4 * self._all + 2**31,
            partitions=1,
        )

    def _make_table(self, input: int, *, rows: int, nbytes: int) -> SlottedTable:
        table = SlottedTable(
            self._schemas[input],
            rows=rows,
            nbytes=nbytes,
            partitions=self._partitions,
            slots=self.slots,
        )
        if not self._indexed:
            table.drop_index()
        return table
