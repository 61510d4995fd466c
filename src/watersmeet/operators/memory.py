"""The memory part of a join: its tables, how much they may hold, and which rows have to leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import matching
from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.policies.flush import Victim
from watersmeet.rows.address import Index
from watersmeet.rows.leaves import Mask
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.columns import variable_bytes
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows
from watersmeet.store.runs import STILL_HERE, Piece, resident_piece
from watersmeet.store.table import Table, row_bytes

if TYPE_CHECKING:
    from watersmeet.operators.leaving import AnyOrder

# An arriving batch is taken in pieces of at most this fraction of the capacity, so that one flush
# frees enough for many pieces.
_PIECE_SHARE = 1 / 16
_COPIED_ROWS = 2**16
# However much is lent to waiting input, rows keep this fraction of the capacity. With none at all,
# every arriving piece would be written to disk as a run of its own.
_LEAST_SHARE = 1 / 24
_LEAST_BYTES = 2**19

Reasons = dict[tuple[Side, int], str]
"""Why rows of a side and partition leave memory."""


class NewRows(NamedTuple):
    """A piece of an arrived batch: its rows, their place in the batch, and by how many bytes a
    table grows with them."""

    rows: pa.RecordBatch
    place: slice
    nbytes: int


class MemoryPart(ABC):
    """The rows of all inputs under one capacity, in bytes, or in rows when `rows` is given."""

    tables: tuple[IndexedRows, ...]

    def __init__(
        self, schema: JoinSchema, row_bytes: Sequence[int], *, nbytes: int, rows: int | None
    ) -> None:
        """`row_bytes` are the bytes of a row of each input, without values of variable width."""
        self._schemas = [schema.stored(n) for n in range(len(schema.inputs))]
        self.row_bytes = list(row_bytes)
        self.counts_rows = rows is not None
        self._all = nbytes if rows is None else rows
        self._made_for = self._all
        """The capacity that the tables have address space for."""
        self.lent = 0
        """Bytes of the capacity that are lent to input, while a batch is larger than its share."""
        self.reserved = 0
        """Bytes of the capacity that marks need."""
        self.tables = self._new_tables()

    @property
    def capacity(self) -> int:
        """How much rows may take: bytes or, if rows are counted, a number of rows."""
        if self.counts_rows or not self.lent:
            return self._all
        least = max(int(self._all * _LEAST_SHARE), min(self._all, _LEAST_BYTES))
        return max(self._all - self.lent, least)

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self._all = capacity

    @property
    def used(self) -> int:
        if self.counts_rows:
            return sum(map(len, self.tables))
        return self.nbytes + self.reserved

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)

    def overflow(self, piece: NewRows) -> int:
        """How many bytes (or rows, if rows are counted) must leave before these rows fit."""
        size = len(piece.rows) if self.counts_rows else piece.nbytes
        return max(self.used + size - self.capacity, 0)

    def pieces(self, input: int, rows: pa.RecordBatch) -> Iterator[NewRows]:
        """Cut rows into pieces small enough to be added one after the other."""
        nbytes, start = self.batch_bytes(input, rows), 0
        mean = max(nbytes // max(len(rows), 1), 1)
        while start < len(rows):
            share = max(int(self.capacity * _PIECE_SHARE), 1)
            count = min(share if self.counts_rows else max(share // mean, 1), len(rows) - start)
            if count < len(rows):
                nbytes = self.batch_bytes(input, rows.slice(start, count))
            # Some rows are longer than the mean: halve the piece until it is small enough.
            while count > 1 and nbytes > 2 * share and not self.counts_rows:
                count //= 2
                nbytes = self.batch_bytes(input, rows.slice(start, count))
            yield NewRows(rows.slice(start, count), slice(start, start + count), nbytes)
            start += count

    def mean_bytes(self, input: int) -> float:
        return self.tables[input].mean_bytes()

    def block_rows(self, input: int, block_bytes: int) -> int:
        return max(1, int(block_bytes / self.tables[input].latest_mean_bytes()))

    @property
    def is_empty(self) -> bool:
        return not any(map(len, self.tables))

    def batch_bytes(self, input: int, rows: pa.RecordBatch) -> int:
        """By how many bytes a table grows when these rows are added."""
        return len(rows) * self.row_bytes[input] + sum(map(variable_bytes, rows.columns))

    def resize(self, capacity: int) -> None:
        """Change the capacity; the caller has made the rows fit it."""
        self.capacity = capacity
        if capacity <= self._made_for:
            return  # To copy rows takes their memory twice, and tables may be larger than need be.
        self._made_for = capacity
        old = self.tables
        self.tables = self._new_tables()
        for input, table in enumerate(old):
            for start in range(0, len(table), _COPIED_ROWS):
                index = np.arange(start, min(start + _COPIED_ROWS, len(table)))
                self._copy(input, table, index)

    def free(self) -> None:
        """Free all memory; the memory part cannot be used any more."""
        self.reserved = 0
        self.tables = tuple(self._make_table(n, rows=0, nbytes=0) for n in range(len(self.tables)))

    def reserve_rows(self, rows: Sequence[int]) -> None:
        """Make new tables for `rows` rows of each side, whatever the capacity. The old tables must
        be empty."""
        self.tables = self._new_tables(rows)

    def _new_tables(self, rows: Sequence[int] | None = None) -> tuple[IndexedRows, ...]:
        # A single row is always taken in, however small the capacity and large the row.
        nbytes = 2**36 if self.counts_rows else 2 * self._all + 2**31
        return tuple(
            self._make_table(
                n, rows=max(self._most_rows(n), rows[n] if rows else 0) + 2, nbytes=nbytes
            )
            for n in range(len(self._schemas))
        )

    def _most_rows(self, input: int) -> int:
        return self._all if self.counts_rows else self._all // self.row_bytes[input]

    @abstractmethod
    def _make_table(self, input: int, *, rows: int, nbytes: int) -> IndexedRows: ...

    @abstractmethod
    def put_back(self, input: int, piece: Piece) -> None:
        """Add rows that were saved."""

    @abstractmethod
    def _copy(self, input: int, old: IndexedRows, index: Index) -> None:
        """Add some rows of an old table to the new one of an input."""


class PartitionedMemory(MemoryPart):
    """R_mem1 and R_mem2 in hash partitions."""

    tables: tuple[Table, ...]

    def __init__(
        self, schema: JoinSchema, *, nbytes: int, rows: int | None, partitions: int
    ) -> None:
        self._partitions = partitions
        self.leaving: AnyOrder | None = None
        """What is told of rows that are dropped, if they leave in any order."""
        each = [row_bytes(schema.stored(side)) for side in Side]
        super().__init__(schema, each, nbytes=nbytes, rows=rows)

    def expect(self, rows: Sequence[int]) -> None:
        """Be ready for so many rows of each side, if all of them will fit together."""
        nbytes = sum(count * each for count, each in zip(rows, self.row_bytes, strict=True))
        if not self.counts_rows and nbytes <= self.capacity:
            for table, count in zip(self.tables, rows, strict=True):
                table.index.expect(count)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows in memory by [side, partition]."""
        return np.array([table.by_partition for table in self.tables])

    def partition_of(self, codes: Codes) -> NDArray[np.uint16]:
        """The partition of each code."""
        partitions: NDArray[np.uint16] = partition_of(codes, self._partitions)
        return partitions

    def count(self, codes: Codes) -> NDArray[np.int64]:
        """How many of these codes are of each partition."""
        counts = np.zeros(self._partitions, np.int64)
        matching.count_partitions(codes, counts)
        return counts

    def drop(self, side: Side, keep: Mask, gone: NDArray[np.int64]) -> None:
        """Drop the rows of a side that are not kept; `gone[p]` of them are of partition p."""
        if self.leaving is not None:
            self.leaving.dropped(side, keep)
        self.tables[side].drop(keep, gone)

    def clear(self, side: Side) -> None:
        """Drop all rows of a side."""
        if self.leaving is not None:
            self.leaving.dropped(side, np.zeros(len(self.tables[side]), np.bool_))
        self.tables[side].clear()

    def oldest(self, *, after: Sequence[int] = (0, 0)) -> NDArray[np.int64]:
        """By [side, partition], the stamp of the oldest row in memory; STILL_HERE for none.

        The first `after` rows of each side are left out.
        """
        oldest = np.full((2, self._partitions), STILL_HERE)
        for side, table in zip(Side, self.tables, strict=True):
            rows, partitions = table.first_of_each(after=after[side])
            oldest[side, partitions] = table.stamps[rows]
        return oldest

    def choose(self, victims: Sequence[Victim], target: float) -> tuple[NDArray[np.int64], Reasons]:
        """Go through the policy's victims until `target` bytes, or rows if rows are counted, leave.

        Returns how many rows to flush by [side, partition], and the policy's reason for each.
        """
        held, taken = self.rows, np.zeros((2, self._partitions), np.int64)
        reasons: Reasons = {}
        each = [1.0 if self.counts_rows else self.mean_bytes(side) for side in Side]
        freed = 0.0
        for victim in victims:
            for side in victim.sides:
                rows = int(held[side, victim.partition])
                if victim.divisible:
                    rows = min(rows, ceil((target - freed) / each[side]))
                taken[side, victim.partition] = rows
                freed += rows * each[side]
                reasons[side, victim.partition] = victim.reason
            if freed >= target:
                break
        return taken, reasons

    def _make_table(self, input: int, *, rows: int, nbytes: int) -> Table:
        return Table(self._schemas[input], rows=rows, nbytes=nbytes, partitions=self._partitions)

    def put_back(self, input: int, piece: Piece) -> None:
        self.tables[input].add(piece.codes, piece.ats, piece.rows)

    def _copy(self, input: int, old: IndexedRows, index: Index) -> None:
        assert isinstance(old, Table)
        self.put_back(input, resident_piece(old, index, 0))
