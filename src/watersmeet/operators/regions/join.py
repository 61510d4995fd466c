"""DINER: the double index nested-loops reactive join, for equality and bands (DINER 3).

arriving    an arrival meets the other side's memory, then is stored; a full memory flushes
reactive    while the inputs are silent: a nested loop over spilled blocks
clean-up    after both inputs have ended: the same loop, with the rows in memory as blocks
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.blocks import ResidentBlocks
from watersmeet.operators.compaction import compact
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.regions import state
from watersmeet.operators.regions.algorithm import RegionAlgorithm
from watersmeet.operators.regions.arrival import ArrivingPhase
from watersmeet.operators.regions.flushing import Flushing
from watersmeet.operators.regions.loops import NestedLoop
from watersmeet.operators.regions.workspace import RegionWorkspace
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.merging import merged_by_code
from watersmeet.store.runs import SpilledRun
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import IoKind, SpillArea


class RegionJoin:
    """Three phases over rows in order of their codes, each side with a memory part and blocks.

    Each pair is reported exactly once: in memory when the later row arrives, or by the nested loop
    when it comes to their blocks (operators/regions/loops.py says how that is known).
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: RegionAlgorithm,
        *,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        self.workspace = RegionWorkspace(
            schema.in_order(), algorithm, account=memory, spill=spill, tuning=tuning or Tuning()
        )
        self.flushing = Flushing(self.workspace)
        self.arriving = ArrivingPhase(self.workspace, self.flushing)
        self.loop = NestedLoop(self.workspace)
        self.metrics: Metrics = self.workspace.metrics
        self.metrics.statistics = self.statistics
        self._saved = SavedRows(self.workspace, self.workspace.memory.leaving)

    @property
    def limit(self) -> int:
        return self.workspace.account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        side, workspace = Side(input), self.workspace
        encoded = workspace.schema.encode(side, batch)
        if (nulls := workspace.arrived(side, encoded)) is not None:
            yield from workspace.emitter.alone(side, BatchRows(encoded.rows), nulls)
            encoded = encoded.with_keys()
        for piece in workspace.memory.pieces(side, encoded.rows):
            yield from self.arriving.arrive(side, encoded.codes[piece.place], piece)

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        yield from ()

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """The reactive phase: blocks on disk are joined with each other."""
        return self._react(pause) if self.workspace.algorithm.reacts else iter(())

    def _react(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        return self.loop.run(pause, Stage.DD, loaded=self.workspace.shares.loaded)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        """Join all that is there and has not met, while more may come; until `pause()`."""
        if self._memory_owes():
            yield from self.flushing.flush_all()
        yield from self._react(pause)

    def owed(self) -> list[int]:
        """Rows that may not have met all that is there of the other side, left and right."""
        workspace = self.workspace
        owed = [len(table) if self._memory_owes() else 0 for table in workspace.memory.tables]
        if not self.loop.is_done:
            for side in Side:
                owed[side] += workspace.blocks[side].row_count
        return owed

    def _memory_owes(self) -> bool:
        """Whether a row in memory may not have met another in memory, or a row on disk: it came
        after that had left."""
        workspace = self.workspace
        if not workspace.algorithm.joins_on_arrival and all(map(len, workspace.memory.tables)):
            return True
        for side in Side:
            stamps = workspace.memory.tables[side].stamps
            left = [run.departed[0] for run in workspace.blocks[side.other].runs]
            if len(stamps) and left and stamps[-1] > min(left):
                return True
        return False

    def end(self, input: int) -> Iterator[Matches]:
        side = Side(input)
        self.workspace.ended[side] = True
        return self.arriving.drop_complete_rows(side.other)

    def finish(self) -> Iterator[Matches]:
        """The clean-up phase. Rows in memory are blocks like those on disk."""
        workspace = self.workspace
        if any(map(len, workspace.blocks)):
            shares = yield from self._make_way()
            yield from self.loop.run(lambda: False, Stage.CLEANUP, loaded=shares.loaded)
        elif not workspace.algorithm.joins_on_arrival:
            yield from self.flushing.join_memory()
        yield from self._unmatched()
        for side in Side:
            for run in workspace.blocks[side].runs:
                run.remove()
            workspace.blocks[side].replace([])

    def _make_way(self) -> Generator[Matches, None, MemoryShares]:
        """Prepare the clean-up; returns what it may hold.

        With more memory for outer blocks the loop reads inner ones less often. So the rows in
        memory are written, too, unless they are many beside those on disk.
        """
        workspace = self.workspace
        in_memory = sum(map(len, workspace.memory.tables))
        on_disk = sum(blocks.row_count for blocks in workspace.blocks)
        if not workspace.algorithm.skips or on_disk > 2 * in_memory:
            yield from self.flushing.flush_all()
            if workspace.algorithm.skips and workspace.edge.order.has_classes:
                # Each block of a large run has one class and few starts, and needs few others.
                yield from self.tidy()
            return workspace.shares.without_rows()
        if not workspace.algorithm.joins_on_arrival:
            yield from self.flushing.join_memory()
        for side in Side:
            table = workspace.memory.tables[side]
            rows = workspace.memory.block_rows(side, workspace.block_bytes)
            workspace.blocks[side].append(ResidentBlocks(table, block_rows=rows))
        return workspace.shares.without_input()

    def _unmatched(self) -> Iterator[Matches]:
        """Report the rows that have found no partner, now that all have met."""
        workspace, emitter = self.workspace, self.workspace.emitter
        for side in Side:
            if not workspace.schema.how.keeps_unmatched(side):
                continue
            table = workspace.memory.tables[side]
            yield from emitter.unmatched(side, table, np.arange(len(table)), table.stamps)
            for run in workspace.blocks[side].runs:
                read = run.open(IoKind.SCAN)
                for piece in map(read, range(run.block_count)):
                    every = np.arange(len(piece))
                    yield from emitter.unmatched(side, piece.source, every, piece.ats)

    def lend(self, nbytes: int) -> Iterator[Matches]:
        return self.workspace.lend(nbytes, self.flushing.make_room)

    def resize(self, limit: int) -> Iterator[Matches]:
        return self.workspace.resize(limit, self.flushing.make_room)

    def tidy(self) -> Iterator[Matches]:
        """Merge runs that have become many. Joins that end can do without."""
        done = [self.loop.untouched_from(side) for side in Side]
        runs = [blocks.runs for blocks in self.workspace.blocks]
        counts = [_runs_until(runs[side], done[side]) for side in Side]
        new = (runs[0][counts[0] :], runs[1][counts[1] :])
        old = (runs[0][: counts[0]], runs[1][: counts[1]])
        changed = compact(self.workspace, [new], merged_by_code)
        if self.loop.round is None:
            # All of these have met each other, however they are cut into blocks.
            changed |= compact(self.workspace, [old], merged_by_code)
        if changed:
            for side in Side:
                self.workspace.blocks[side].replace([*old[side], *new[side]])
                if self.loop.round is None:
                    self.loop.joined[side] = sum(run.block_count for run in old[side])
        workspace = self.workspace
        workspace.forget_marks(workspace.stamp, [blocks.runs for blocks in workspace.blocks])
        workspace.report_memory()
        yield from ()

    def save(self, area: StateArea) -> Manifest:
        return state.save(self, self._saved, area)

    def load(self, area: StateArea, manifest: Manifest) -> None:
        state.load(self, self._saved, area, manifest)

    def close(self) -> None:
        self.workspace.close()

    def statistics(self) -> dict[str, Any]:
        """The regions of both sides: their boundaries, rows and results since the last flush."""
        return {
            side.name.lower(): {
                "lower": regions.lower,
                "upper": regions.upper,
                "rows": regions.rows.tolist(),
                "joins": regions.joins.tolist(),
            }
            for side, regions in zip(Side, self.workspace.memory.regions, strict=True)
        }


def _runs_until(runs: list[SpilledRun], blocks: int) -> int:
    """How many runs, from the first, have these blocks."""
    ends = np.cumsum([run.block_count for run in runs])
    return int(np.searchsorted(ends, blocks, side="right"))
