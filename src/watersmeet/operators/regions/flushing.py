"""DINER's flushing policy at work (Algorithm 2): which rows leave, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.giving_up import divide_again, give_up
from watersmeet.operators.memory import NewRows
from watersmeet.operators.metrics import FlushRecord
from watersmeet.operators.regions.workspace import RegionWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches
from watersmeet.store.runs import RunWriter, write_run
from watersmeet.store.spill import IoKind


class Flushing:
    """Makes room for rows by writing others to disk, those first that bring fewest results."""

    def __init__(self, workspace: RegionWorkspace) -> None:
        self._workspace = workspace
        self._memory = workspace.memory

    def make_room_for(self, piece: NewRows) -> Iterator[Matches]:
        # Again if need be: rows are of uneven size, and a flush reckons with their mean.
        while (overflow := self._memory.overflow(piece)) and not self._memory.is_empty:
            yield from self.make_room(overflow)

    def make_room(self, overflow: int) -> Iterator[Matches]:
        """Flush at least `overflow` and the share of a flush, all of one input."""
        memory = self._memory
        if not self._workspace.algorithm.joins_on_arrival:
            yield from self.flush_all()
            return
        share = self._workspace.tuning.flush_share * max(memory.capacity, memory.used)
        side = self._victim()
        self._flush(side, memory.rows_to_free(side, max(overflow, share)))

    def _victim(self) -> Side:
        """The input with most rows in memory; but if one has ended, the other, whose rows can meet
        nothing more that arrives (DINER, footnote 1)."""
        workspace, tables = self._workspace, self._memory.tables
        for side in Side:
            if workspace.ended[side.other] and len(tables[side]):
                return side
        return max(Side, key=lambda side: len(tables[side]))

    def flush_all(self) -> Iterator[Matches]:
        """Flush all rows. What has not met in memory meets before it."""
        if not self._workspace.algorithm.joins_on_arrival:
            yield from self.join_memory()
        for side in Side:
            if len(self._memory.tables[side]):
                self._flush(side, len(self._memory.tables[side]))

    def join_memory(self) -> Iterator[Matches]:
        """Join all of memory with itself: PMJ's step before it writes its sorted runs."""
        workspace = self._workspace
        left, right = self._memory.tables
        codes, rows = left.index.in_order()
        size = len(workspace.pairs)
        for start in range(0, len(rows), size):
            asking = rows[start : start + size].astype(np.int64)
            for found, asked in workspace.find(right.index, Side.LEFT, codes[start : start + size]):
                index = (asking[asked], found)
                at = (left.stamps, right.stamps)
                yield from workspace.emitter.pairs((left, right), index, at, Stage.MM)

    def _flush(self, side: Side, count: int) -> None:
        """Write `count` rows of an input to disk, as one run sorted by code, and forget them."""
        workspace, table = self._workspace, self._memory.tables[side]
        regions = [self._memory.regions[side]]
        given = give_up(table.orders, regions, count)
        _, rows = table.index.in_order()
        places = np.flatnonzero(given.mask[rows])
        index = rows[places].astype(np.int64)
        keep = given.mask == 0
        undecided = workspace.emitter.undecided(side, table.stamps[index])
        if undecided is not None:
            index, places = index[undecided], places[undecided]
        self._write(side, index, places, given.reason)
        self._memory.drop(side, keep)
        divide_again(table.orders, regions, given, count)
        workspace.report_memory()

    def _write(self, side: Side, index: Index, places: Index, reason: str) -> None:
        workspace, table = self._workspace, self._memory.tables[side]
        stamp = workspace.draw()
        workspace.metrics.flush_count += 1
        if not len(index):
            return
        rows = self._memory.block_rows(side, workspace.block_bytes)
        writer = RunWriter(workspace.spill, table.schema, IoKind.FLUSH, block_rows=rows)
        codes, _ = table.index.in_order()
        run = write_run(writer, table, index, departed=stamp, codes=codes[places])
        writer.close()
        workspace.blocks[side].add(run)
        workspace.metrics.flushed(FlushRecord(stamp, side, None, run.rows, run.nbytes, reason))
