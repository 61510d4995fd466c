"""The spilled blocks of one input, numbered as they were written, for nested loops over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from watersmeet.rows.address import Index
from watersmeet.store.index import Codes
from watersmeet.store.runs import STILL_HERE, Piece, SpilledRun, resident_piece
from watersmeet.store.sorted_table import SortedTable
from watersmeet.store.spill import IoKind


class BlockRun(Protocol):
    """Some blocks that were written together."""

    @property
    def block_count(self) -> int: ...

    def block_bytes(self, number: int) -> int: ...

    def first_code(self, number: int) -> int: ...

    def last_code(self, number: int) -> int: ...

    def open(self, kind: IoKind) -> Callable[[int], Piece]: ...


class ResidentBlocks:
    """Rows that are still in memory, cut into blocks in order of their codes."""

    def __init__(self, table: SortedTable, *, block_rows: int, order: int = 0) -> None:
        self._table = table
        self._codes, self._rows = table.orders[order].index.in_order()
        self._size = block_rows

    @property
    def block_count(self) -> int:
        return -(-len(self._rows) // self._size)

    def block_bytes(self, number: int) -> int:
        return int(len(self._rows[self._part(number)]) * self._table.mean_bytes())

    def first_code(self, number: int) -> int:
        return int(self._codes[self._part(number)][0])

    def last_code(self, number: int) -> int:
        return int(self._codes[self._part(number)][-1])

    def open(self, kind: IoKind) -> Callable[[int], Piece]:
        return self._piece

    def _piece(self, number: int) -> Piece:
        part = self._part(number)
        rows = self._rows[part].astype(np.int64)
        return resident_piece(self._table, rows, STILL_HERE, self._codes[part].copy())

    def _part(self, number: int) -> slice:
        return slice(number * self._size, (number + 1) * self._size)


class Blocks:
    """Blocks 0 .. len-1 of one input, each sorted by its codes in one of the table's orders."""

    def __init__(self) -> None:
        self.runs: list[SpilledRun] = []
        """Those that are on disk."""
        self.orders: list[int] = []
        """For each run on disk, the order that it is sorted in."""
        self._all: list[tuple[BlockRun, int, int]] = []
        self._ranges = Ranges.of(())

    def __len__(self) -> int:
        return len(self._all)

    def add(self, run: SpilledRun, order: int = 0) -> None:
        self.runs.append(run)
        self.orders.append(order)
        self.append(run, order)

    def append(self, run: BlockRun, order: int = 0) -> None:
        """Add the blocks of a run that need not be on disk."""
        self._all += [(run, number, order) for number in range(run.block_count)]

    def read(self, number: int) -> Piece:
        run, block, _ = self._all[number]
        return run.open(IoKind.SCAN)(block)

    @property
    def ranges(self) -> Ranges:
        """The codes of all blocks."""
        if len(self._ranges.first) != len(self):
            self._ranges = Ranges.of(self._all)
        return self._ranges

    @property
    def row_count(self) -> int:
        return sum(run.rows for run in self.runs)

    def replace(self, runs: Sequence[SpilledRun], orders: Sequence[int] | None = None) -> None:
        """Have these runs instead, which hold the same rows."""
        self.runs, self.orders, self._all, self._ranges = [], [], [], Ranges.of(())
        for run, order in zip(runs, orders or [0] * len(runs), strict=True):
            self.add(run, order)


class Ranges(NamedTuple):
    """Of each block, the first and the last code, its size in bytes, and the order of its rows."""

    first: Codes
    last: Codes
    nbytes: Index
    order: Index

    @classmethod
    def of(cls, blocks: Sequence[tuple[BlockRun, int, int]]) -> Ranges:
        return cls(
            np.array([run.first_code(number) for run, number, _ in blocks], np.uint64),
            np.array([run.last_code(number) for run, number, _ in blocks], np.uint64),
            np.array([run.block_bytes(number) for run, number, _ in blocks], np.int64),
            np.array([order for _, _, order in blocks], np.int64),
        )
