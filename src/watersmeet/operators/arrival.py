"""The mm-stage: arrivals meet the other side's memory, then wait there for what comes later."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import MemoryTooSmall
from watersmeet.kernels import matching
from watersmeet.model import Side
from watersmeet.operators.memory import Reasons
from watersmeet.operators.metrics import FlushRecord
from watersmeet.operators.outcome import Stamps, in_order
from watersmeet.operators.parts import Parts
from watersmeet.policies.flush import Held
from watersmeet.rows.address import Matches, RowSource, Stage
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.values import rows_where
from watersmeet.store.index import Hashes
from watersmeet.store.runs import RunWriter, by_hash, write_run
from watersmeet.store.spill import IoKind
from watersmeet.store.table import batch_bytes


class ArrivalStage:
    """Probes, stores, and makes room.

    A row that arrives at stamp a has met every row of the other side that is in memory at a. What
    is flushed to make room for it leaves at a later stamp, so the stays of the two overlap and
    nobody joins them again.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._memory = parts.memory
        self._joins_on_arrival = parts.algorithm.joins_on_arrival

    def arrive(
        self, side: Side, hashes: Hashes, rows: pa.RecordBatch, now: float
    ) -> Iterator[Matches]:
        parts = self._parts
        counts = self._count(hashes)
        parts.rates.arrived(side, counts, now)
        parts.distinct.update(hashes)
        if any(parts.outcome.marked):
            parts.outcome.marks.cover(parts.stamp + len(rows) + 1)  # and a flush before them
            self._memory.reserved = parts.outcome.marks.nbytes
        if not self._joins_on_arrival:
            # Before they are stamped: what leaves now was never joined with them, and must not
            # seem to have been. Marks have grown already, so there is room after this.
            yield from self._make_room_for(rows)
        stamps = np.arange(parts.stamp, parts.stamp + len(rows))
        parts.stamp += len(rows)
        parts.bound_chunks(batch_bytes(rows) / len(rows))
        if self._joins_on_arrival:
            source = BatchRows(rows)
            yield from self._meet(side, hashes, source, stamps)
            keep = self._undecided(side, hashes, stamps)
            if keep is not None:
                gone = np.flatnonzero(~keep)
                yield from parts.outcome.unmatched(side, source, gone, stamps)
                hashes, stamps, rows = hashes[keep], stamps[keep], rows_where(rows, keep)
                counts = self._count(hashes)
        if len(rows):
            if self._joins_on_arrival:
                yield from self._make_room_for(rows)
            parts.expected.arrived(side, counts)
            self._memory.tables[side].add(hashes, stamps, rows, counts)
            parts.newest[side][counts > 0] = stamps[-1]
        parts.tell_memory()

    def _meet(
        self, side: Side, hashes: Hashes, source: RowSource, stamps: Stamps
    ) -> Iterator[Matches]:
        """Report an arrival's partners in the other side's memory."""
        others = self._memory.tables[side.other]
        sources = in_order(side, source, others)
        at = in_order(side, stamps, others.stamps)
        for found, asked in others.find(hashes, self._parts.pairs):
            index = in_order(side, asked, found)
            yield from self._parts.outcome.pairs(sources, index, at, Stage.MM)

    def _undecided(self, side: Side, hashes: Hashes, stamps: Stamps) -> NDArray[np.bool_] | None:
        """Which arrivals may still matter after they met memory; None for all of them."""
        parts = self._parts
        keep = parts.outcome.undecided(side, stamps)
        if parts.rates.ended[side.other]:
            partitions = (((hashes >> 32) * parts.tuning.partitions) >> 32).astype(np.int64)
            owed = parts.expected.on_disk[side.other][partitions] > 0
            keep = owed if keep is None else keep & owed
        return keep

    def let_go(self, side: Side) -> Iterator[Matches]:
        """Forget rows whose every possible partner is in memory, once no more of those come."""
        if not self._joins_on_arrival:
            return
        parts, table = self._parts, self._memory.tables[side]
        going = np.where(parts.expected.on_disk[side.other] == 0, table.by_partition, 0)
        if not going.any():
            return
        if going.sum() == len(table):
            every = np.arange(len(table))
            yield from parts.outcome.unmatched(side, table, every, table.stamps)
            table.clear()
        else:
            index = np.concatenate(table.oldest(going)).astype(np.int64)
            yield from parts.outcome.unmatched(side, table, index, table.stamps)
            keep = np.ones(len(table), np.bool_)
            keep[index] = False
            table.drop(keep, going)
        parts.expected.md[side][going > 0] = 0
        parts.tell_memory()

    # ---- making room ----------------------------------------------------------------------------

    def _make_room_for(self, rows: pa.RecordBatch) -> Iterator[Matches]:
        # Again if need be: rows are of uneven size, and a flush reckons with their mean.
        while (overflow := self._memory.overflow(rows)) and self._memory.rows.any():
            yield from self.make_room(overflow)

    def make_room(self, overflow: int) -> Iterator[Matches]:
        """Flush what the policy names first, at least `overflow` and the share of a flush."""
        parts = self._parts
        policy, share = parts.algorithm.flush, parts.algorithm.flush_share
        if policy is None:
            raise MemoryTooSmall(
                f"{parts.algorithm.name} keeps every row in memory, and {parts.account.limit:,} "
                f"bytes are full after {sum(parts.metrics.rows_in):,} rows.",
                remedy='Give it more memory, or choose an algorithm that spills: "rpj".',
            )
        share = parts.tuning.flush_share if share is None else share
        # All of memory may be more than its capacity, when that has just been made smaller.
        target = max(overflow, share * max(self._memory.capacity, self._memory.used))
        held = Held(self._memory.rows, parts.rates.probabilities())
        yield from self.flush(*self._memory.choose(policy(held), target))

    def flush(self, taken: NDArray[np.int64], reasons: Reasons) -> Iterator[Matches]:
        """Write so many rows of each side and partition, the oldest first, and forget them."""
        if not taken.any():
            return
        if not self._joins_on_arrival:
            yield from self.join_memory()
        stamp = self._parts.draw()
        self._parts.metrics.flush_count += 1
        for side in Side:
            if taken[side].any():
                self._flush_side(side, taken[side], stamp, reasons)
        self._parts.tell_memory()

    def _flush_side(
        self, side: Side, taken: NDArray[np.int64], stamp: int, reasons: Reasons
    ) -> None:
        parts, table = self._parts, self._memory.tables[side]
        keep = np.ones(len(table), np.bool_)
        block_rows = self._memory.block_rows(side, parts.block_bytes)
        writer = RunWriter(parts.spill, table.schema, IoKind.FLUSH, block_rows=block_rows)
        for p, index in enumerate(table.oldest(taken)):
            if not len(index):
                continue
            run = write_run(writer, table, by_hash(table, index), departed=stamp)
            parts.disk.add(side, p, run)
            parts.expected.flushed(side, p, table.stamps[index], stamp)
            reason = reasons[side, p]
            parts.metrics.flushed(FlushRecord(stamp, side, p, run.rows, run.nbytes, reason))
            keep[index] = False
        writer.close()
        table.drop(keep, taken)

    def join_memory(self) -> Iterator[Matches]:
        """Join all of memory with itself: PMJ's step before it writes its sorted runs."""
        left, right = self._memory.tables
        at, size = (left.stamps, right.stamps), len(self._parts.pairs)
        for start in range(0, len(right), size):
            rows = np.arange(start, min(start + size, len(right)))
            for found, asked in left.find(right.hashes(rows), self._parts.pairs):
                index = (found, rows[asked])
                yield from self._parts.outcome.pairs((left, right), index, at, Stage.MM)

    def _count(self, hashes: Hashes) -> NDArray[np.int64]:
        counts = np.zeros(self._parts.tuning.partitions, np.int64)
        matching.count_partitions(hashes, counts)
        return counts
