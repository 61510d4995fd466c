"""MINER: the multiple index nested-loops reactive join, for up to eight inputs (MINER 4).

arriving    an arrival meets the memory of all other inputs, then is stored; a full memory flushes
reactive    while the inputs are silent: a nested loop over spilled blocks
clean-up    after all inputs have ended: the same loop, with the rows in memory as blocks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType
from watersmeet.operators.blocks import ResidentBlocks
from watersmeet.operators.compaction import compact
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.stage import Stage
from watersmeet.operators.tree import state
from watersmeet.operators.tree.algorithm import TreeAlgorithm
from watersmeet.operators.tree.arrival import ArrivingPhase
from watersmeet.operators.tree.flushing import Flushing
from watersmeet.operators.tree.loops import TreeLoop
from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.tree import JoinTree
from watersmeet.store.account import MemoryAccount
from watersmeet.store.merging import merged_by_code
from watersmeet.store.runs import SpilledRun
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea


class TreeJoin:
    """An inner join of inputs that form a tree, each with a memory part and blocks.

    Each combination is reported exactly once: in memory when the last of its rows arrives, or by
    the nested loop when it comes to their blocks (operators/tree/loops.py says how that is known).
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: TreeAlgorithm,
        *,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        self.workspace = TreeWorkspace(
            schema.in_order(), algorithm, account=memory, spill=spill, tuning=tuning or Tuning()
        )
        self.flushing = Flushing(self.workspace)
        self.arriving = ArrivingPhase(self.workspace, self.flushing)
        self.loop = TreeLoop(self.workspace)
        self.metrics: Metrics = self.workspace.metrics
        self.metrics.statistics = self.statistics
        self._saved = SavedRows(self.workspace, self.workspace.memory.leaving)

    @property
    def limit(self) -> int:
        return self.workspace.account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        workspace = self.workspace
        encoded = workspace.schema.encode(input, batch)
        if workspace.arrived(input, encoded) is not None:
            encoded = encoded.with_keys()
        for piece in workspace.memory.pieces(input, encoded.rows):
            codes = tuple(each[piece.place] for each in encoded.codes_of)
            yield from self.arriving.arrive(input, codes, piece)

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        yield from ()

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """The reactive phase: blocks on disk are joined with each other."""
        return self.loop.run(pause, Stage.DD, loaded=self.workspace.shares.loaded)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        """Join all that is there and has not met, while more may come; until `pause()`."""
        if self._memory_owes():
            self.flushing.flush_all()
        yield from self.idle(pause)

    def owed(self) -> list[int]:
        """By input, rows that may not have met all that is there of the others."""
        workspace = self.workspace
        owed = [len(table) if self._memory_owes() else 0 for table in workspace.memory.tables]
        if not self.loop.is_done:
            for input in workspace.inputs:
                owed[input] += workspace.blocks[input].row_count
        return owed

    def _memory_owes(self) -> bool:
        """Whether rows in memory may be part of a combination that has not met: a row of one input
        came, and is here or on disk, after a row of another had left."""
        workspace = self.workspace
        if workspace.memory.is_empty:
            return False
        latest = []
        for input in workspace.inputs:
            arrived = [run.latest for run in workspace.blocks[input].runs]
            latest.append(max([*arrived, *workspace.memory.tables[input].stamps[-1:].tolist(), 0]))
        for input in workspace.inputs:
            departed = [run.departed[0] for run in workspace.blocks[input].runs]
            others = max(latest[n] for n in workspace.others(input))
            if departed and others > min(departed):
                return True
        return False

    def end(self, input: int) -> Iterator[Matches]:
        self.workspace.ended[input] = True
        for other in self.workspace.others(input):
            self.arriving.drop_complete_rows(other)
        yield from ()

    def finish(self) -> Iterator[Matches]:
        """The clean-up phase. Rows in memory are blocks like those on disk."""
        workspace = self.workspace
        if any(map(len, workspace.blocks)):
            shares = self._make_way()
            yield from self.loop.run(lambda: False, Stage.CLEANUP, loaded=shares.loaded)
        for blocks in workspace.blocks:
            for run in blocks.runs:
                run.remove()
            blocks.replace([])

    def _make_way(self) -> MemoryShares:
        """Prepare the clean-up; returns what it may hold.

        With more memory for blocks the loop reads inner ones less often. So the rows in memory are
        written, too, unless they are many beside those on disk.
        """
        workspace = self.workspace
        in_memory = sum(map(len, workspace.memory.tables))
        on_disk = sum(blocks.row_count for blocks in workspace.blocks)
        if not workspace.algorithm.skips or on_disk > 2 * in_memory:
            self.flushing.flush_all()
            return workspace.shares.without_rows()
        for input, table in enumerate(workspace.memory.tables):
            rows = workspace.memory.block_rows(input, workspace.block_bytes)
            workspace.blocks[input].append(ResidentBlocks(table, block_rows=rows))
        return workspace.shares.without_input()

    def lend(self, nbytes: int) -> Iterator[Matches]:
        return self.workspace.lend(nbytes, self.flushing.make_room)

    def resize(self, limit: int) -> Iterator[Matches]:
        return self.workspace.resize(limit, self.flushing.make_room)

    def tidy(self) -> Iterator[Matches]:
        """Merge runs that have become many, those that are sorted in one order with each other."""
        inputs, blocks = self.workspace.inputs, self.workspace.blocks
        done = [_runs_until(blocks[n].runs, self.loop.untouched_from(n)) for n in inputs]
        old = self._by_order([slice(0, done[n]) for n in inputs])
        new = self._by_order([slice(done[n], None) for n in inputs])
        changed = compact(self.workspace, new, merged_by_code)
        if self.loop.round is None:
            # All of these have met each other, however they are cut into blocks.
            changed |= compact(self.workspace, old, merged_by_code)
        if changed and self.loop.round is None:
            for input in inputs:
                runs = [*_numbered(old, input), *_numbered(new, input)]
                blocks[input].replace([run for _, run in runs], [order for order, _ in runs])
                self.loop.joined[input] = sum(run.block_count for _, run in _numbered(old, input))
        elif changed:
            for input in inputs:
                kept = list(zip(blocks[input].orders, blocks[input].runs, strict=True))
                runs = [*kept[: done[input]], *_numbered(new, input)]
                blocks[input].replace([run for _, run in runs], [order for order, _ in runs])
        self.workspace.report_memory()
        yield from ()

    def _by_order(self, parts: list[slice]) -> list[list[list[SpilledRun]]]:
        """For each order, these runs of each input that are sorted in it."""
        tree, blocks = self.workspace.tree, self.workspace.blocks
        most = max(tree.order_count(input) for input in self.workspace.inputs)
        return [
            [
                [
                    run
                    for run, sorted_in in zip(each.runs[part], each.orders[part], strict=True)
                    if sorted_in == order
                ]
                for each, part in zip(blocks, parts, strict=True)
            ]
            for order in range(most)
        ]

    def save(self, area: StateArea) -> Manifest:
        return state.save(self, self._saved, area)

    def load(self, area: StateArea, manifest: Manifest) -> None:
        state.load(self, self._saved, area, manifest)

    def close(self) -> None:
        self.workspace.close()

    def statistics(self) -> dict[str, Any]:
        """The regions of all orders: their boundaries, rows and results since the last flush."""
        return {
            f"input {input}, order {number}": {
                "lower": regions.lower,
                "upper": regions.upper,
                "rows": regions.rows.tolist(),
                "joins": regions.joins.tolist(),
            }
            for input, orders in enumerate(self.workspace.memory.regions)
            for number, regions in enumerate(orders)
        }


def check_tree(schema: JoinSchema, algorithm: TreeAlgorithm) -> None:
    """Refuse other joins than inner ones, and inputs that do not form a tree, or not the tree that
    an algorithm needs."""
    if schema.how is not JoinType.INNER:
        raise InvalidArgument(
            f"algorithm={algorithm.name!r} has inner joins only, and this one is {schema.how}.",
            remedy="Use diner for two inputs.",
        )
    tree = JoinTree.of(schema.in_order())
    if algorithm.coordinated and not tree.is_star:
        raise InvalidArgument(
            f"algorithm={algorithm.name!r} joins all inputs on one attribute, by equality.",
            remedy="Use miner.",
        )


def _numbered(by_order: list[list[list[SpilledRun]]], input: int) -> list[tuple[int, SpilledRun]]:
    return [(order, run) for order, runs in enumerate(by_order) for run in runs[input]]


def _runs_until(runs: list[SpilledRun], blocks: int) -> int:
    """How many runs, from the first, have these blocks."""
    ends = np.cumsum([run.block_count for run in runs])
    return int(np.searchsorted(ends, blocks, side="right"))
