"""The memory part of a join with a master table: waiting stream rows and cached master rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.leaving import AnyOrder
from watersmeet.operators.memory import MemoryPart, NewRows
from watersmeet.operators.semistream.cache import Cache
from watersmeet.operators.semistream.waiting import WaitingRows, waiting_bytes
from watersmeet.rows.address import Index
from watersmeet.rows.leaves import Mask
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.rows import IndexedRows, stored_bytes
from watersmeet.store.runs import Piece, resident_piece
from watersmeet.store.table import Table, row_bytes


class SemiStreamMemory(MemoryPart):
    """H_S and H_R under one capacity. Only stream rows are in a table."""

    def __init__(self, schema: JoinSchema, *, nbytes: int, in_order: bool) -> None:
        """`in_order`: waiting rows are found in order of code, otherwise by a hash index."""
        self._in_order = in_order
        self._master = schema.stored(Side.RIGHT)
        stream = schema.stored(Side.LEFT)
        waiting = waiting_bytes(stream) if in_order else row_bytes(stream)
        self.leaving = AnyOrder(1)
        self.collected = 0
        """Bytes of what else a mechanism of caching holds: counts, the switching buffer."""
        self.patient = 0
        """Bytes of rows that wait for newer versions and have not been written to disk."""
        self.kept_free = 0.0
        """The part of the capacity that waiting rows leave to values worth caching."""
        super().__init__(schema, [waiting, stored_bytes(self._master)], nbytes=nbytes, rows=None)
        self.cache = Cache(self._master, nbytes=self._all)

    @property
    def used(self) -> int:
        return super().used + self.cache.nbytes + self.collected + self.patient

    @property
    def room(self) -> int:
        """Bytes that nobody uses; negative if there are too many."""
        return self.capacity - self.used

    def overflow(self, piece: NewRows) -> int:
        return max(self.used + piece.nbytes - int((1 - self.kept_free) * self.capacity), 0)

    @property
    def is_empty(self) -> bool:
        return super().is_empty and not len(self.cache)

    @property
    def table(self) -> WaitingRows | Table:
        """The waiting rows."""
        table = self.tables[0]
        assert isinstance(table, WaitingRows | Table)
        return table

    def most_rows(self) -> int:
        """How many waiting rows a table has room for."""
        return self._most_rows(Side.LEFT) + 2

    def forget(self, keep: Mask) -> None:
        """Drop the waiting rows that are not kept."""
        self.leaving.dropped(0, keep)
        table = self.table
        if isinstance(table, WaitingRows):
            table.close_gaps(keep)
        else:
            table.drop(keep, np.array([np.count_nonzero(~keep)]))

    def resize(self, capacity: int) -> None:
        """Change the capacity. The cache begins anew: its arrays are made for a capacity."""
        self.cache.clear()
        super().resize(capacity)
        self.cache = Cache(self._master, nbytes=capacity)

    def free(self) -> None:
        self.collected = self.patient = 0
        self.kept_free = 0.0
        self.cache.clear()
        super().free()

    def put_back(self, input: int, piece: Piece) -> None:
        self.table.add(piece.codes, piece.ats, piece.rows)

    def _new_tables(self, rows: Sequence[int] | None = None) -> tuple[IndexedRows, ...]:
        most = max(self._most_rows(Side.LEFT), rows[0] if rows else 0) + 2
        return (self._make_table(0, rows=most, nbytes=2 * self._all + 2**31),)

    def _make_table(self, input: int, *, rows: int, nbytes: int) -> WaitingRows | Table:
        if self._in_order:
            return WaitingRows(self._schemas[input], rows=rows, nbytes=nbytes)
        return Table(self._schemas[input], rows=rows, nbytes=nbytes, partitions=1)

    def _copy(self, input: int, old: IndexedRows, index: Index) -> None:
        self.put_back(input, resident_piece(old, index, 0))
