"""The rectangle join: one mechanism for PR-Join, Ripple, Hash Ripple, SMS, DBO and GRACE.

phase 1   all rows fit in memory: a symmetric hash join, which completes a larger rectangle with
          every arrival
phase 2   rows are spilled by partition, and the algorithm's rules say which rows are joined when:
          all rows of a partition (PR-Join); those of a full memory with all spilled ones (Ripple);
          those of a full memory with each other (SMS, DBO); every left row with the right rows
          that are kept in memory (Hash Ripple)
phase 3   after both inputs have ended: all pairs that have not met, partition by partition
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.compaction import compact, end_to_end
from watersmeet.operators.emitter import Stamps, in_order
from watersmeet.operators.leaving import OldestFirst
from watersmeet.operators.memory import NewRows
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.rectangle import state
from watersmeet.operators.rectangle.algorithm import JoinsOnArrival, RectangleAlgorithm
from watersmeet.operators.rectangle.memory import StampedRows
from watersmeet.operators.rectangle.partition import PartitionJoin
from watersmeet.operators.rectangle.progress import Counts, Rectangles
from watersmeet.operators.rectangle.ripple import rescan
from watersmeet.operators.rectangle.workspace import RectangleWorkspace
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.policies.invoke import Growth, even_slots, most_new
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea
from watersmeet.store.table import Table

# With more strips than this in a cover, `tidy` completes the rectangle of all rows so far.
_MOST_STRIPS = 64


class RectangleJoin:
    """Numbers rows as they come and completes rectangles in the plane of both numbers.

    Each pair is reported exactly once: by the step that first covers it (operators/rectangle/
    cover.py says how that is known). For estimates, `rectangles` says which rectangles are
    complete, and `numbers` in which of them a result lies. `rectangles.completed` rises after the
    last result of a rectangle was yielded and before the first of the next one.
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: RectangleAlgorithm,
        *,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        tuning = tuning or Tuning(partitions=partitions_for(memory.limit))
        _check(tuning)
        self.workspace = RectangleWorkspace(
            schema, algorithm, account=memory, spill=spill, tuning=tuning
        )
        self.metrics: Metrics = self.workspace.metrics
        self.metrics.statistics = self.statistics
        self._remapped = False
        self._saved = SavedRows(self.workspace, OldestFirst(self.workspace))

    # ---- what a runtime asks --------------------------------------------------------------------

    @property
    def limit(self) -> int:
        return self.workspace.account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        side, workspace = Side(input), self.workspace
        first = self.metrics.rows_in[side]
        encoded = workspace.schema.encode(side, batch)
        stamps = 2 * np.arange(first, first + len(batch)) + side
        if (nulls := workspace.arrived(side, encoded)) is not None:
            source = StampedRows(encoded.rows, stamps, encoded.codes)
            yield from workspace.emitter.alone(side, source, nulls)
            stamps, encoded = stamps[encoded.valid], encoded.with_keys()
        for piece in workspace.memory.pieces(side, encoded.rows):
            codes = encoded.codes[piece.place]
            yield from self._arrive(side, codes, stamps[piece.place], piece)
        workspace.progress.numbers[side] = self.metrics.rows_in[side]

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        """Ignore promises: covers know who has met whom by the numbers of rows, and estimates need
        all rows until the end."""
        yield from ()

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """The stall rule (PR-Join 5.3): join the partition with most new rows, then the next one,
        until `pause()`."""
        if self.workspace.full and self.workspace.algorithm.invoke is not None:
            yield from self._join_most_new(pause)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        if not any(self.owed()):
            return
        if self.workspace.algorithm.rescans:
            yield from self._make_room()
        elif self.workspace.covers_apart:
            yield from self._join_most_new(pause)
        else:
            yield from self._join_partitions(pause)

    def owed(self) -> list[int]:
        workspace, progress = self.workspace, self.workspace.progress
        if not workspace.full and workspace.algorithm.meets is not JoinsOnArrival.NONE:
            return [0, 0]
        left, right = (progress.arrived - progress.joined).sum(axis=1).tolist()
        return [left, right]

    def tidy(self) -> Iterator[Matches]:
        """Merge runs and strips that have become many."""
        workspace = self.workspace
        for p in compact(workspace, workspace.disk, end_to_end):
            workspace.count_spilled(p)
        if max(len(cover.strips) for cover in workspace.covers) > _MOST_STRIPS:
            yield from self.settle()

    def end(self, input: int) -> Iterator[Matches]:
        self.workspace.ended[input] = True
        yield from ()

    def finish(self) -> Iterator[Matches]:
        workspace = self.workspace
        if not workspace.full and workspace.algorithm.meets is not JoinsOnArrival.NONE:
            yield from self._report_unmatched()
        elif workspace.algorithm.rescans:
            yield from rescan(workspace, last=True)
            workspace.forget(0)
        else:
            self._close_covers()
            for p in range(workspace.partitions):
                yield from PartitionJoin(workspace, p, Stage.CLEANUP, last=True).run()
                workspace.forget(p)

    def lend(self, nbytes: int) -> Iterator[Matches]:
        return self.workspace.lend(nbytes, lambda _: self._make_room())

    def resize(self, limit: int) -> Iterator[Matches]:
        return self.workspace.resize(limit, lambda _: self._make_room())

    def save(self, area: StateArea) -> Manifest:
        return state.save(self.workspace, self._saved, area) | {"remapped": self._remapped}

    def load(self, area: StateArea, manifest: Manifest) -> None:
        state.load(self.workspace, self._saved, area, manifest)
        self._remapped = manifest["remapped"]

    def close(self) -> None:
        self.workspace.close()

    # ---- what an estimate asks ------------------------------------------------------------------

    @property
    def rectangles(self) -> Rectangles:
        progress = self.workspace.progress
        return Rectangles(
            progress.arrived.copy(),
            progress.joined.copy(),
            progress.seen.copy(),
            tuple(self.workspace.cover(0).strips_at(progress.bounds))
            if self.workspace.algorithm.meets is JoinsOnArrival.ALL
            else (),
            progress.completed,
            self._remapped,
        )

    def numbers(self, matches: Matches) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers, from 0 on for each side, of the rows of which results consist.

        The array of a missing side is empty.
        """
        return _numbers(matches.left), _numbers(matches.right)

    def partitions(self, matches: Matches) -> NDArray[np.uint16]:
        """The partition of each result row. Rows change their partitions once, when these are made
        even (`rectangles.evened`). All rows are in memory then, and have met.
        """
        rows = matches.left or matches.right
        assert rows is not None
        return self.workspace.memory.partition_of(_stamped(rows).codes(rows.index))

    def statistics(self) -> dict[str, Any]:
        progress = self.workspace.progress
        return {
            "rows_in_memory": self.workspace.memory.rows,
            "rows_arrived": progress.arrived.copy(),
            "rows_joined": progress.joined.copy(),
            "joins": progress.joins.copy(),
        }

    # ---- arrivals -------------------------------------------------------------------------------

    def _arrive(
        self, side: Side, codes: Codes, stamps: Stamps, piece: NewRows
    ) -> Iterator[Matches]:
        rows = piece.rows
        workspace, progress = self.workspace, self.workspace.progress
        workspace.reserve_marks()
        workspace.bound_chunks(piece.nbytes / len(rows))
        # Rows are flushed first, so that the new rows meet all rows that are in memory with them.
        while workspace.memory.overflow(piece) and workspace.memory.rows.any():
            yield from self._make_room()
        meets_kept = workspace.kept > 0 and side is Side.LEFT
        if workspace.meeting or meets_kept:
            yield from self._meet(side, codes, stamps, rows)
        table = workspace.memory.tables[side]
        before = table.by_partition.copy()
        table.add(codes, stamps, rows)
        progress.arrived[side] += table.by_partition - before
        progress.numbers[side] = int(stamps[-1] >> 1) + 1
        if workspace.meeting or meets_kept:
            self._met(side)
        if not (workspace.full or self._remapped):
            self._remap()
        workspace.report_memory()
        if workspace.full and (invoke := workspace.algorithm.invoke) is not None:
            for p in invoke(self._growth(), workspace.tuning.invocation):
                yield from PartitionJoin(workspace, int(p), Stage.DD).run()

    def _meet(
        self, side: Side, codes: Codes, stamps: Stamps, rows: pa.RecordBatch
    ) -> Iterator[Matches]:
        """Report the partners that arriving rows have among the other side's rows in memory."""
        workspace, others = self.workspace, self.workspace.memory.tables[side.other]
        sources = in_order(side, StampedRows(rows, stamps, codes), others)
        at = in_order(side, stamps, others.stamps)
        for found, asked in others.index.find(codes, workspace.pairs):
            if workspace.kept:
                chosen = found < workspace.kept
                found, asked = found[chosen], asked[chosen]
            yield from workspace.emitter.pairs(sources, in_order(side, asked, found), at, Stage.MM)

    def _met(self, side: Side) -> None:
        progress = self.workspace.progress
        if self.workspace.algorithm.meets is not JoinsOnArrival.ALL:
            for each in Side if self.workspace.meeting else (side,):
                progress.joined_all(each)
        progress.completed += 1

    def _remap(self) -> None:
        """Make the partitions even, when memory is half full (PR-Join 5.1)."""
        workspace = self.workspace
        if workspace.algorithm.invoke is None or not workspace.tuning.remaps:
            return
        if 2 * workspace.memory.used < workspace.memory.capacity:
            return
        workspace.memory.remap(even_slots(workspace.memory.by_slot(), workspace.partitions))
        workspace.progress.arrived[:] = workspace.memory.rows
        for side in Side:
            workspace.progress.joined_all(side)
        self._remapped = True

    def _growth(self) -> Growth:
        workspace, progress = self.workspace, self.workspace.progress
        expected = None
        if workspace.tuning.expected_rows is not None:
            pairs = zip(
                workspace.tuning.expected_rows, progress.numbers, workspace.ended, strict=True
            )
            expected = sum(came if ended else rows for rows, came, ended in pairs)
        rows, old = progress.arrived.sum(axis=0), progress.joined.sum(axis=0)
        if workspace.tuning.invocation.together:
            rows = np.full(len(rows), sum(progress.numbers) / len(rows))
            old = progress.seen.sum(axis=0) / len(rows)
        return Growth(rows, old, progress.joins, expected)

    # ---- pairs that have not met ----------------------------------------------------------------

    def _join_most_new(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        while not pause():
            if (p := most_new(self._growth())) is None:
                return
            if not (yield from PartitionJoin(self.workspace, p, Stage.DD).run(pause)):
                return

    def _join_partitions(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """Complete the rectangle of all rows so far, partition by partition.

        All rows in memory are flushed first, because the one cover of all partitions says what
        arrivals have met. Then each partition has a cover of its own until all are complete.
        """
        workspace, progress = self.workspace, self.workspace.progress
        if not workspace.full:
            self._overflow()
        self._flush(workspace.memory.rows, "what is in memory has not met all")
        workspace.divide_covers()
        for p in range(workspace.partitions):
            if (progress.arrived[:, p] > progress.joined[:, p]).any():
                yield from PartitionJoin(workspace, p, Stage.DD).run()
                workspace.cover(p).complete_corner(*progress.bounds)
                if pause():
                    return
        workspace.unite_covers()

    # ---- making room ----------------------------------------------------------------------------

    def _make_room(self) -> Iterator[Matches]:
        workspace, algorithm = self.workspace, self.workspace.algorithm
        if not workspace.full:
            self._overflow()
        elif algorithm.rescans:
            yield from rescan(workspace)
        reason = algorithm.spill.__name__.replace("_", " ")
        self._flush(algorithm.spill(workspace.resident()), reason)

    def _flush(self, taken: Counts, reason: str) -> None:
        """Flush `taken` rows by [side, partition], after noting in covers what they have met."""
        workspace = self.workspace
        kept_too = workspace.takes_kept(taken)
        if kept_too:
            self._close_covers()
        if workspace.algorithm.meets is JoinsOnArrival.ALL:
            for cover in workspace.covers:
                if taken[Side.LEFT].any():
                    cover.left_departs(workspace.progress.bounds)
                if taken[Side.RIGHT].any():
                    cover.right_departs(workspace.progress.bounds)
        workspace.flush(taken, reason, kept_too=kept_too)

    def _overflow(self) -> None:
        """End phase 1: note in the covers that all rows have met, if arrivals were joined."""
        workspace = self.workspace
        workspace.overflow()
        if workspace.algorithm.meets in (JoinsOnArrival.UNTIL_FULL, JoinsOnArrival.THEN_KEPT):
            for cover in workspace.covers:
                cover.complete_corner(*workspace.progress.bounds)
        if workspace.algorithm.meets is JoinsOnArrival.THEN_KEPT:
            workspace.kept = len(workspace.memory.tables[Side.RIGHT])

    def _close_covers(self) -> None:
        """Note in the covers what rows have met that are joined with arrivals while they are in
        memory, because they are about to leave it."""
        workspace, progress = self.workspace, self.workspace.progress
        for cover in workspace.covers:
            if workspace.algorithm.meets is JoinsOnArrival.ALL:
                cover.left_departs(progress.bounds)
            elif workspace.kept:
                cover.complete_corner(
                    progress.numbers[Side.LEFT], int(progress.seen[Side.RIGHT, 0])
                )

    def _report_unmatched(self) -> Iterator[Matches]:
        for side, table in zip(Side, self.workspace.memory.tables, strict=True):
            every = np.arange(len(table))
            yield from self.workspace.emitter.unmatched(side, table, every, table.stamps)


def _numbers(rows: Rows | None) -> NDArray[np.int64]:
    if rows is None:
        return np.empty(0, np.int64)
    return _stamped(rows).stamps[rows.index] >> 1


def _stamped(rows: Rows) -> StampedRows | Table:
    assert isinstance(rows.source, StampedRows | Table), "these are results of another join"
    return rows.source


def partitions_for(memory: int) -> int:
    """As many partitions as leave 2S of memory for each, with an S of 64 KB: each spills S."""
    return int(np.clip(MemoryShares.split(memory).store // 2**17, 16, 128))


def _check(tuning: Tuning) -> None:
    if tuning.invocation.gamma <= 0:
        raise InvalidArgument(
            f"gamma={tuning.invocation.gamma} lets no partition grow.",
            remedy="Give a number above 0; the paper's is 1.",
        )
    if tuning.invocation.not_before > 0 and tuning.expected_rows is None:
        raise InvalidArgument(
            f"not_before={tuning.invocation.not_before} is a share of the input, whose size is "
            "not known.",
            remedy="Give expected_rows too.",
        )
