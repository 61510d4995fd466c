"""Which rows leave memory, and how they are written: MINER's policy, and MJoin's beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels.hashing import hash_codes, partition_of
from watersmeet.operators.giving_up import GivenUp, divide_again, give_up
from watersmeet.operators.memory import NewRows
from watersmeet.operators.metrics import FlushRecord
from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.policies.regions import Region
from watersmeet.rows.address import Matches
from watersmeet.store.runs import RunWriter, write_run
from watersmeet.store.spill import IoKind


class Flushing:
    """Makes room for rows by writing others to disk, those first that bring fewest results."""

    def __init__(self, workspace: TreeWorkspace) -> None:
        self._workspace = workspace
        self._memory = workspace.memory
        self.turn = 0
        """The partition that MJoin flushes next."""

    def make_room_for(self, piece: NewRows) -> Iterator[Matches]:
        # Again if need be: rows are of uneven size, and a flush reckons with their mean.
        while (overflow := self._memory.overflow(piece)) and not self._memory.is_empty:
            yield from self.make_room(overflow)

    def make_room(self, overflow: int) -> Iterator[Matches]:
        """Flush at least `overflow` and the share of a flush."""
        memory = self._memory
        share = self._workspace.tuning.flush_share * max(memory.capacity, memory.used)
        target = max(overflow, share)
        if self._workspace.algorithm.coordinated:
            self._flush_partitions(target)
        else:
            input = self._victim()
            self._flush(input, memory.rows_to_free(input, target))
        yield from ()

    def flush_all(self) -> None:
        for input, table in enumerate(self._memory.tables):
            if len(table):
                self._flush(input, len(table))

    def _victim(self) -> int:
        """The input with most rows in memory; but if all others have ended, the one that has not,
        whose rows can meet nothing more that arrives (DINER, footnote 1)."""
        workspace, tables = self._workspace, self._memory.tables
        for input in workspace.inputs:
            if len(tables[input]) and all(workspace.ended[n] for n in workspace.others(input)):
                return input
        return max(workspace.inputs, key=lambda input: len(tables[input]))

    def _flush(self, input: int, count: int) -> None:
        """Write `count` rows of an input to disk, and forget them. The rows leave all orders."""
        table, regions = self._memory.tables[input], self._memory.regions[input]
        given = give_up(table.orders, regions, count)
        self._write(input, given, self._workspace.draw())
        self._memory.drop(input, given.mask == 0)
        remembered = self._workspace.algorithm.remembers
        divide_again(table.orders, regions, given, count, remembered=remembered)
        self._workspace.selectivity.flushed()
        self._workspace.report_memory()

    def _write(self, input: int, given: GivenUp, stamp: int) -> None:
        """Write rows as one run, sorted in the order whose region had fewest results per row."""
        workspace, table = self._workspace, self._memory.tables[input]
        workspace.metrics.flush_count += 1
        codes, rows = table.orders[given.leading].index.in_order()
        places = np.flatnonzero(given.mask[rows])
        block_rows = self._memory.block_rows(input, workspace.block_bytes)
        writer = RunWriter(workspace.spill, table.schema, IoKind.FLUSH, block_rows=block_rows)
        index = rows[places].astype(np.int64)
        run = write_run(writer, table, index, departed=stamp, codes=codes[places])
        writer.close()
        workspace.blocks[input].add(run, given.leading)
        inputs = len(workspace.inputs)
        workspace.metrics.flushed(
            FlushRecord(stamp, input, None, run.rows, run.nbytes, given.reason, inputs)
        )

    # ---- MJoin ----------------------------------------------------------------------------------

    def _flush_partitions(self, target: float) -> None:
        """Flush hash partitions, one after the other, each from all inputs: rows that stay in
        memory have lost no partner (coordinated flushing)."""
        partitions = self._workspace.tuning.partitions
        masks = [np.zeros(len(table), np.uint8) for table in self._memory.tables]
        parts = [self._partitions(input) for input in self._workspace.inputs]
        freed, taken = 0.0, list[int]()
        while freed < target and len(taken) < partitions:
            for input, mask in enumerate(masks):
                mine = parts[input] == self.turn
                mask[mine] = 1
                each = 1.0 if self._memory.counts_rows else self._memory.mean_bytes(input)
                freed += float(np.count_nonzero(mine)) * each
            taken.append(self.turn)
            self.turn = (self.turn + 1) % partitions
        stamp = self._workspace.draw()
        for input, mask in enumerate(masks):
            if mask.any():
                given = GivenUp(mask, [set(Region)], 0, f"the turn of partitions {taken}")
                self._write(input, given, stamp)
                self._memory.drop(input, mask == 0)
                regions = self._memory.regions[input]
                regions[0].recount(self._memory.tables[input].regions)
        self._workspace.selectivity.flushed()
        self._workspace.report_memory()

    def _partitions(self, input: int) -> NDArray[np.uint16]:
        """The hash partition of each row of an input."""
        codes, rows = self._memory.tables[input].index.in_order()
        found = np.empty(len(rows), np.uint16)
        found[rows] = partition_of(hash_codes(codes), self._workspace.tuning.partitions)
        return found
