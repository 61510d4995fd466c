"""The memory part of a join by regions: tables in order of their codes."""

from __future__ import annotations

from functools import partial

import numpy as np

from watersmeet.kernels import sorting
from watersmeet.operators.leaving import AnyOrder
from watersmeet.operators.memory import MemoryPart
from watersmeet.policies.regions import Regions
from watersmeet.rows.address import Index, Rows
from watersmeet.rows.leaves import Mask
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows
from watersmeet.store.runs import Piece
from watersmeet.store.sorted_table import NewOrder, SortedTable, sorted_bytes


class RegionMemory(MemoryPart):
    """The rows of both inputs, each with the regions of its index."""

    tables: tuple[SortedTable, ...]

    def __init__(self, schema: JoinSchema, *, nbytes: int, rows: int | None) -> None:
        inputs = range(len(schema.inputs))
        self._schema = schema
        self.regions = [Regions() for _ in inputs]
        self.leaving = AnyOrder(len(inputs))
        each = [sorted_bytes(schema.stored(n)) for n in inputs]
        super().__init__(schema, each, nbytes=nbytes, rows=rows)

    def rows_to_free(self, input: int, target: float) -> int:
        """How many rows of an input to flush to free `target`, in the unit of the capacity."""
        each = 1.0 if self.counts_rows else self.mean_bytes(input)
        return max(1, min(int(np.ceil(target / each)), len(self.tables[input])))

    def drop(self, input: int, keep: Mask) -> None:
        """Drop the rows of an input that are not kept."""
        self.leaving.dropped(input, keep)
        self.tables[input].drop(keep)

    def put_back(self, input: int, piece: Piece) -> None:
        """Whether it has joined before it was saved is not known: its join bit is 0."""
        regions, codes = self.regions[input], piece.codes
        of, none = regions.of(codes), np.zeros(len(piece), np.int64)
        regions.arrived(of, none)
        new = NewOrder(sorting.sort(codes), of, none > 0)
        self.tables[input].add(piece.ats, piece.rows, [new])

    def _make_table(self, input: int, *, rows: int, nbytes: int) -> SortedTable:
        return SortedTable(
            self._schemas[input],
            rows=rows,
            nbytes=nbytes,
            encode=partial(self._codes, input),
            classes=self._schema.edges[0].order.classes,
        )

    def _codes(self, input: int, index: Index) -> Codes:
        return self._schema.encode_again(input, Rows(self.tables[input], index))[0]

    def _copy(self, input: int, old: IndexedRows, index: Index) -> None:
        assert isinstance(old, SortedTable)
        ordered = sorting.sort(self._schema.encode_again(input, Rows(old, index))[0])
        new = NewOrder(ordered, old.regions[index], old.joined[index])
        self.tables[input].add(old.stamps[index], old.batch(index), [new])
