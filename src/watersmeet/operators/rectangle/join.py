"""The rectangle join: one mechanism for PR-Join, Ripple, Hash Ripple, SMS, DBO and GRACE.

phase 1   all fits: a symmetric hash join, which completes a larger rectangle with every arrival
phase 2   rows are spilled by partition; the algorithm's rules say which rectangle is completed
          when: a partition's (PR-Join), a full memory's with all that was spilled (Ripple), a
          full memory's alone (SMS, DBO), every left row's with what is kept (Hash Ripple)
phase 3   after both inputs have ended: whatever has not met, partition by partition
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.compaction import compact, end_to_end
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.outcome import Stamps, in_order
from watersmeet.operators.rectangle import state
from watersmeet.operators.rectangle.algorithm import Meets, RectangleAlgorithm
from watersmeet.operators.rectangle.memory import StampedRows
from watersmeet.operators.rectangle.partition import PartitionJoin
from watersmeet.operators.rectangle.parts import Parts
from watersmeet.operators.rectangle.progress import Counts, Rectangles
from watersmeet.operators.rectangle.ripple import rescan
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.tuning import Tuning
from watersmeet.policies.invoke import Growth, even_slots, most_new
from watersmeet.rows.address import Matches, Rows, Stage
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import rows_where
from watersmeet.store.account import MemoryAccount, MemoryPlan
from watersmeet.store.index import Hashes
from watersmeet.store.spill import SpillArea
from watersmeet.store.table import Table, batch_bytes

# Strips of a cover that may gather before a join without an end completes its rectangle.
_MOST_STRIPS = 64


class RectangleJoin:
    """Numbers rows as they come and completes rectangles in the plane of both numbers.

    Each pair is reported exactly once: by the step that first covers it (operators/rectangle/
    cover.py says how that is known). For estimates, `rectangles` says what is complete and
    `numbers` where a result lies. `rectangles.completed` rises after the last result of a
    rectangle was yielded and before the first of the next one.
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
        tuning = tuning or Tuning(partitions=_partitions_for(memory.limit))
        _check(tuning)
        self.parts = Parts(schema, algorithm, account=memory, spill=spill, tuning=tuning)
        self.metrics: Metrics = self.parts.metrics
        self.metrics.statistics = self.statistics
        self._remapped = False
        self._saved = SavedRows(self.parts)

    # ---- what a runtime asks --------------------------------------------------------------------

    @property
    def limit(self) -> int:
        return self.parts.account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        side, parts = Side(input), self.parts
        encoded = parts.schema.encode(side, batch)
        first = self.metrics.rows_in[side]
        self.metrics.rows_in[side] += len(batch)
        stamps = 2 * np.arange(first, first + len(batch)) + side
        hashes, rows = encoded.hashes, encoded.rows
        parts.outcome.portions.arrived(side, rows)
        if encoded.valid is not None and not encoded.valid.all():
            nulls = np.flatnonzero(~encoded.valid)
            self.metrics.null_keys[side] += len(nulls)
            yield from parts.outcome.alone(side, StampedRows(rows, stamps, hashes), nulls)
            hashes, stamps = hashes[encoded.valid], stamps[encoded.valid]
            rows = rows_where(rows, encoded.valid)
        start = 0
        while start < len(rows):
            stop = start + parts.memory.piece_rows(rows, start)
            piece = rows.slice(start, stop - start)
            yield from self._arrive(side, hashes[start:stop], stamps[start:stop], piece)
            start = stop
        parts.progress.numbers[side] = self.metrics.rows_in[side]

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """The stall rule (PR-Join 5.3): join what has most new rows, until `pause()`."""
        if self.parts.full and self.parts.algorithm.invoke is not None:
            yield from self._join_most_new(pause)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        if not any(self.owed()):
            return
        if self.parts.algorithm.rescans:
            yield from self._make_room()
        elif self.parts.covers_apart:
            yield from self._join_most_new(pause)
        else:
            yield from self._join_partitions(pause)

    def owed(self) -> list[int]:
        parts, progress = self.parts, self.parts.progress
        if not parts.full and parts.algorithm.meets is not Meets.NONE:
            return [0, 0]
        left, right = (progress.arrived - progress.joined).sum(axis=1).tolist()
        return [left, right]

    def tidy(self) -> Iterator[Matches]:
        """Keep runs and strips few, however often the join has spilled."""
        parts = self.parts
        for p in compact(parts, parts.disk, end_to_end):
            parts.count_spilled(p)
        if max(len(cover.strips) for cover in parts.covers) > _MOST_STRIPS:
            yield from self.settle()

    def end(self, input: int) -> Iterator[Matches]:
        self.parts.ended[input] = True
        yield from ()

    def finish(self) -> Iterator[Matches]:
        parts = self.parts
        if not parts.full and parts.algorithm.meets is not Meets.NONE:
            yield from self._report_unmatched()
        elif parts.algorithm.rescans:
            yield from rescan(parts, last=True)
            parts.forget(0)
        else:
            self._close_covers()
            for p in range(parts.partitions):
                yield from PartitionJoin(parts, p, Stage.CLEANUP, last=True).run()
                parts.forget(p)

    def lend(self, nbytes: int) -> Iterator[Matches]:
        """Do with so many bytes less for rows, because input that waits needs them; 0: no more."""
        memory = self.parts.memory
        memory.lent = nbytes
        while memory.used > memory.capacity and memory.rows.any():
            yield from self._make_room()

    def resize(self, limit: int) -> Iterator[Matches]:
        """Go on within another memory limit, spilling what no longer fits."""
        parts, plan = self.parts, MemoryPlan.split(limit)
        memory, capacity = parts.memory, parts.tuning.memory_rows or plan.store
        memory.capacity = capacity
        while memory.used > capacity and memory.rows.any():
            yield from self._make_room()
        parts.account.limit, parts.plan = limit, plan
        parts.outcome.portions.room = plan.work // 2
        memory.resize(capacity)
        parts.tell_memory()

    def save(self, area: StateArea) -> Manifest:
        return state.save(self.parts, self._saved, area) | {"remapped": self._remapped}

    @classmethod
    def restore(cls, area: StateArea, manifest: Manifest, **settings: Any) -> Self:
        join = cls(**settings)
        try:
            state.load(join.parts, join._saved, area, manifest)
            join._remapped = manifest["remapped"]
        except BaseException:
            join.close()
            raise
        return join

    def close(self) -> None:
        self.parts.spill.close()
        for table in self.parts.memory.tables:
            table.clear()
        self.parts.memory.free()
        self.parts.tell_memory()

    # ---- what an estimate asks ------------------------------------------------------------------

    @property
    def rectangles(self) -> Rectangles:
        progress = self.parts.progress
        return Rectangles(
            progress.arrived.copy(),
            progress.joined.copy(),
            progress.seen.copy(),
            tuple(self.parts.cover(0).strips_at(progress.bounds))
            if self.parts.algorithm.meets is Meets.ALL
            else (),
            progress.completed,
            self._remapped,
        )

    def numbers(self, matches: Matches) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The arrival numbers, from 0 on each side, of the rows that a result is made of.

        A missing side has none: its array is empty.
        """
        return _numbers(matches.left), _numbers(matches.right)

    def partitions(self, matches: Matches) -> NDArray[np.uint16]:
        """The partition of each result row. Numbers change once, when partitions are evened out.

        That is while all is in memory (`rectangles.evened`), so a rectangle of all partitions.
        """
        rows = matches.left or matches.right
        assert rows is not None
        return self.parts.memory.partition_of(_stamped(rows).hashes(rows.index))

    def statistics(self) -> dict[str, Any]:
        progress = self.parts.progress
        return {
            "rows_in_memory": self.parts.memory.rows,
            "rows_arrived": progress.arrived.copy(),
            "rows_joined": progress.joined.copy(),
            "joins": progress.joins.copy(),
        }

    # ---- arrivals -------------------------------------------------------------------------------

    def _arrive(
        self, side: Side, hashes: Hashes, stamps: Stamps, rows: pa.RecordBatch
    ) -> Iterator[Matches]:
        parts, progress = self.parts, self.parts.progress
        parts.cover_marks()
        parts.bound_chunks(batch_bytes(rows) / len(rows))
        # First, so that the rows have met all that is in memory while they are there.
        while parts.memory.overflow(rows) and parts.memory.rows.any():
            yield from self._make_room()
        meets_kept = parts.kept > 0 and side is Side.LEFT
        if parts.meeting or meets_kept:
            yield from self._meet(side, hashes, stamps, rows)
        table = parts.memory.tables[side]
        before = table.by_partition.copy()
        table.add(hashes, stamps, rows)
        progress.arrived[side] += table.by_partition - before
        progress.numbers[side] = int(stamps[-1] >> 1) + 1
        if parts.meeting or meets_kept:
            self._met(side)
        if not (parts.full or self._remapped):
            self._remap()
        parts.tell_memory()
        if parts.full and (invoke := parts.algorithm.invoke) is not None:
            for p in invoke(self._growth(), parts.tuning.invocation):
                yield from PartitionJoin(parts, int(p), Stage.DD).run()

    def _meet(
        self, side: Side, hashes: Hashes, stamps: Stamps, rows: pa.RecordBatch
    ) -> Iterator[Matches]:
        """Report an arrival's partners in the other side's memory."""
        parts, others = self.parts, self.parts.memory.tables[side.other]
        sources = in_order(side, StampedRows(rows, stamps, hashes), others)
        at = in_order(side, stamps, others.stamps)
        for found, asked in others.find(hashes, parts.pairs):
            if parts.kept:
                chosen = found < parts.kept
                found, asked = found[chosen], asked[chosen]
            yield from parts.outcome.pairs(sources, in_order(side, asked, found), at, Stage.MM)

    def _met(self, side: Side) -> None:
        progress = self.parts.progress
        if self.parts.algorithm.meets is not Meets.ALL:
            for each in Side if self.parts.meeting else (side,):
                progress.reached(each)
        progress.completed += 1

    def _remap(self) -> None:
        """Even out the partitions, when memory is half full (PR-Join 5.1)."""
        parts = self.parts
        if parts.algorithm.invoke is None or not parts.tuning.remaps:
            return
        if 2 * parts.memory.used < parts.memory.capacity:
            return
        parts.memory.remap(even_slots(parts.memory.by_slot(), parts.partitions))
        parts.progress.arrived[:] = parts.memory.rows
        for side in Side:
            parts.progress.reached(side)
        self._remapped = True

    def _growth(self) -> Growth:
        parts, progress = self.parts, self.parts.progress
        expected = None
        if parts.tuning.expected_rows is not None:
            pairs = zip(parts.tuning.expected_rows, progress.numbers, parts.ended, strict=True)
            expected = sum(came if ended else rows for rows, came, ended in pairs)
        rows, old = progress.arrived.sum(axis=0), progress.joined.sum(axis=0)
        if parts.tuning.invocation.together:
            rows = np.full(len(rows), sum(progress.numbers) / len(rows))
            old = progress.seen.sum(axis=0) / len(rows)
        return Growth(rows, old, progress.joins, expected)

    # ---- what has not met -----------------------------------------------------------------------

    def _join_most_new(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        while not pause():
            if (p := most_new(self._growth())) is None:
                return
            if not (yield from PartitionJoin(self.parts, p, Stage.DD).run(pause)):
                return

    def _join_partitions(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """Complete the rectangle of all rows so far, partition by partition.

        Memory leaves first: what it meets on arrival is known for all partitions together. Then
        each partition has a cover of its own until all are complete.
        """
        parts, progress = self.parts, self.parts.progress
        if not parts.full:
            self._overflow()
        self._flush(parts.memory.rows, "what is in memory has not met all")
        parts.divide_covers()
        for p in range(parts.partitions):
            if (progress.arrived[:, p] > progress.joined[:, p]).any():
                yield from PartitionJoin(parts, p, Stage.DD).run()
                parts.cover(p).reach(*progress.bounds)
                if pause():
                    return
        parts.unite_covers()

    # ---- making room ----------------------------------------------------------------------------

    def _make_room(self) -> Iterator[Matches]:
        parts, algorithm = self.parts, self.parts.algorithm
        if not parts.full:
            self._overflow()
        elif algorithm.rescans:
            yield from rescan(parts)
        reason = algorithm.spill.__name__.replace("_", " ")
        self._flush(algorithm.spill(parts.resident()), reason)

    def _flush(self, taken: Counts, reason: str) -> None:
        """Write so many rows of each side and partition, after noting what they have met."""
        parts = self.parts
        kept_too = parts.takes_kept(taken)
        if kept_too:
            self._close_covers()
        if parts.algorithm.meets is Meets.ALL:
            for cover in parts.covers:
                if taken[Side.LEFT].any():
                    cover.left_departs(parts.progress.bounds)
                if taken[Side.RIGHT].any():
                    cover.right_departs(parts.progress.bounds)
        parts.flush(taken, reason, kept_too=kept_too)

    def _overflow(self) -> None:
        """Phase 1 is over: what is in memory has met, but for what was never joined there."""
        parts = self.parts
        parts.overflow()
        if parts.algorithm.meets in (Meets.UNTIL_FULL, Meets.THEN_KEPT):
            for cover in parts.covers:
                cover.reach(*parts.progress.bounds)
        if parts.algorithm.meets is Meets.THEN_KEPT:
            parts.kept = len(parts.memory.tables[Side.RIGHT])

    def _close_covers(self) -> None:
        """Rows that meet what comes while they are in memory, do so no longer."""
        parts, progress = self.parts, self.parts.progress
        for cover in parts.covers:
            if parts.algorithm.meets is Meets.ALL:
                cover.left_departs(progress.bounds)
            elif parts.kept:
                cover.reach(progress.numbers[Side.LEFT], int(progress.seen[Side.RIGHT, 0]))

    def _report_unmatched(self) -> Iterator[Matches]:
        for side, table in zip(Side, self.parts.memory.tables, strict=True):
            every = np.arange(len(table))
            yield from self.parts.outcome.unmatched(side, table, every, table.stamps)


def _numbers(rows: Rows | None) -> NDArray[np.int64]:
    if rows is None:
        return np.empty(0, np.int64)
    return _stamped(rows).stamps[rows.index] >> 1


def _stamped(rows: Rows) -> StampedRows | Table:
    assert isinstance(rows.source, StampedRows | Table), "these are results of another join"
    return rows.source


def _partitions_for(memory: int) -> int:
    """As many as still spill pieces of some size: 2S for each, with an S of 64 KB."""
    return int(np.clip(MemoryPlan.split(memory).store // 2**17, 16, 128))


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
