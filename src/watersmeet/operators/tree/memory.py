"""The memory part of a join of many inputs: tables in one order for each attribute."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import sorting
from watersmeet.operators.leaving import AnyOrder
from watersmeet.operators.memory import MemoryPart
from watersmeet.policies.regions import Regions
from watersmeet.rows.address import Index, Rows
from watersmeet.rows.leaves import Mask
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.tree import JoinTree
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows
from watersmeet.store.runs import Piece
from watersmeet.store.sorted_table import NewOrder, SortedTable, sorted_bytes


class TreeMemory(MemoryPart):
    """The rows of all inputs, and the regions of each order that they are kept in."""

    tables: tuple[SortedTable, ...]

    def __init__(
        self, schema: JoinSchema, tree: JoinTree, *, nbytes: int, rows: int | None
    ) -> None:
        inputs = range(len(schema.inputs))
        self._schema = schema
        self._tree = tree
        self.regions = [[Regions() for _ in range(tree.order_count(n))] for n in inputs]
        self.leaving = AnyOrder(len(inputs))
        each = [sorted_bytes(schema.stored(n), tree.order_count(n)) for n in inputs]
        super().__init__(schema, each, nbytes=nbytes, rows=rows)

    def rows_to_free(self, input: int, target: float) -> int:
        """How many rows of an input to flush to free `target`, in the unit of the capacity."""
        each = 1.0 if self.counts_rows else self.mean_bytes(input)
        return max(1, min(int(np.ceil(target / each)), len(self.tables[input])))

    def add(
        self,
        input: int,
        codes: list[Codes],
        stamps: NDArray[np.int64],
        rows: pa.RecordBatch,
        joins: NDArray[np.int64],
    ) -> None:
        """Add rows; `codes` are theirs in each order, `joins` how many results each has found."""
        new = []
        for regions, each in zip(self.regions[input], codes, strict=True):
            of = regions.of(each)
            regions.arrived(of, joins)
            new.append(NewOrder(sorting.sort(each), of, joins > 0))
        self.tables[input].add(stamps, rows, new)

    def drop(self, input: int, keep: Mask) -> None:
        """Drop the rows of an input that are not kept."""
        self.leaving.dropped(input, keep)
        self.tables[input].drop(keep)

    def put_back(self, input: int, piece: Piece) -> None:
        """Whether it has joined before it was saved is not known: its join bit is 0."""
        codes = self._codes_in_orders(input, Rows(piece.source, np.arange(len(piece))))
        self.add(input, codes, piece.ats, piece.rows, np.zeros(len(piece), np.int64))

    def codes_in_orders(self, input: int, codes_of: tuple[Codes, ...]) -> list[Codes]:
        """Of the codes for each edge of an input, those for each order."""
        orders = self._tree.orders[input]
        return [codes_of[orders.index(n)] for n in range(self._tree.order_count(input))]

    def _codes_in_orders(self, input: int, rows: Rows) -> list[Codes]:
        return [
            self._schema.encode_one(input, self._tree.edge_of(input, order), rows)
            for order in range(self._tree.order_count(input))
        ]

    def _make_table(self, input: int, *, rows: int, nbytes: int) -> SortedTable:
        return SortedTable(
            self._schemas[input],
            rows=rows,
            nbytes=nbytes,
            encode=partial(self._first_codes, input),
            orders=self._tree.order_count(input),
        )

    def _first_codes(self, input: int, index: Index) -> Codes:
        edge = self._tree.edge_of(input, 0)
        return self._schema.encode_one(input, edge, Rows(self.tables[input], index))

    def _copy(self, input: int, old: IndexedRows, index: Index) -> None:
        assert isinstance(old, SortedTable)
        codes = self._codes_in_orders(input, Rows(old, index))
        new = [
            NewOrder(sorting.sort(each), order.regions[index], order.joined[index])
            for order, each in zip(old.orders, codes, strict=True)
        ]
        self.tables[input].add(old.stamps[index], old.batch(index), new)
