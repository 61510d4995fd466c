"""The mm-stage: arrivals meet the other side's memory, then wait there for what comes later."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import MemoryTooSmall
from watersmeet.kernels import sorting
from watersmeet.model import Side
from watersmeet.operators.emitter import Stamps, in_order
from watersmeet.operators.memory import NewRows, Reasons
from watersmeet.operators.metrics import FlushRecord
from watersmeet.operators.progressive.watching import CodedRows
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.policies.flush import Held
from watersmeet.rows.address import Index, Matches, Rows, RowSource
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.edges import TakenRows
from watersmeet.rows.values import rows_at
from watersmeet.store.index import Codes
from watersmeet.store.runs import BLOCKS_COPIED, RunWriter, copied_together, write_runs
from watersmeet.store.spill import IoKind
from watersmeet.store.table import batch_bytes


class ArrivalStage:
    """Probes, stores, and makes room.

    A row that arrives at stamp a has met every row of the other side that is in memory at a. What
    is flushed to make room for it leaves at a later stamp, so the stays of the two overlap and
    nobody joins them again.
    """

    def __init__(
        self, workspace: ProgressiveWorkspace, sweep: Callable[[], Iterator[Matches]]
    ) -> None:
        """`sweep` drops rows in memory that may go."""
        self._workspace = workspace
        self._sweep = sweep
        self._memory = workspace.memory
        self._joins_on_arrival = workspace.algorithm.joins_on_arrival

    def arrive(self, side: Side, coded: CodedRows, piece: NewRows, now: float) -> Iterator[Matches]:
        """Take in a piece of a batch; `coded` are its rows with their codes."""
        workspace, rows, codes = self._workspace, piece.rows, coded[0]
        chosen: Index | None = None
        # Before these rows are stamped: a sweep takes it that all rows with a stamp are stored.
        if workspace.may_sweep and self._memory.overflow(piece):
            yield from self._sweep()
        counts = self._memory.count(codes)
        workspace.rates.arrived(side, counts, now)
        workspace.distinct.update(codes)
        if any(workspace.emitter.marked):
            workspace.emitter.marks.cover(
                workspace.stamp + len(rows) + 1
            )  # and a flush before them
            self._memory.reserved = workspace.emitter.marks.nbytes
        if not self._joins_on_arrival:
            # Before they are stamped: what leaves now was never joined with them, and must not
            # seem to have been. Marks have grown already, so there is room after this.
            yield from self._make_room_for(piece)
        stamps = np.arange(workspace.stamp, workspace.stamp + len(rows))
        workspace.stamp += len(rows)
        workspace.bound_chunks(piece.nbytes / len(rows))
        if self._joins_on_arrival:
            source = BatchRows(rows)
            yield from self._meet(side, codes, source, stamps)
            keep = self._undecided(side, coded, stamps)
            if keep is not None and not keep.all():
                index = np.flatnonzero(keep)
                workspace.metrics.dropped_on_arrival += len(rows) - len(index)
                if workspace.schema.how.keeps_unmatched(side):
                    gone = np.flatnonzero(~keep)
                    yield from workspace.emitter.unmatched(side, source, gone, stamps)
                if not len(index):
                    workspace.report_memory()
                    return
                codes, stamps, chosen = codes[index], stamps[index], index
                counts = self._memory.count(codes)
                if self._memory.overflow(piece):  # if all of them would not fit, count these
                    rows, chosen = rows_at(rows, index), None
                    piece = piece._replace(rows=rows, nbytes=batch_bytes(rows))
        if len(rows):
            if self._joins_on_arrival:
                yield from self._make_room_for(piece)
            workspace.expected.arrived(side, counts)
            self._memory.tables[side].add(codes, stamps, rows, counts, chosen=chosen)
            workspace.newest[side][counts > 0] = stamps[-1]
        workspace.report_memory()

    def _meet(
        self, side: Side, codes: Codes, source: RowSource, stamps: Stamps
    ) -> Iterator[Matches]:
        """Report an arrival's partners in the other side's memory."""
        others = self._memory.tables[side.other]
        sources = in_order(side, source, others)
        at = in_order(side, stamps, others.stamps)
        for found, asked in others.index.find(codes, self._workspace.pairs):
            index = in_order(side, asked, found)
            yield from self._workspace.emitter.pairs(sources, index, at, Stage.MM)

    def _undecided(self, side: Side, coded: CodedRows, stamps: Stamps) -> NDArray[np.bool_] | None:
        """Which arrivals may still matter after they met memory; None for all of them."""
        workspace = self._workspace
        keep = workspace.emitter.undecided(side, stamps)
        has_ended, watching = workspace.rates.ended[side.other], workspace.watching
        if not has_ended and not watching.is_promised(side.other):
            return keep
        on_disk = workspace.expected.on_disk[side.other]
        waits: NDArray[np.bool_]
        if on_disk.any():
            waits = on_disk[self._memory.partition_of(coded[0])] > 0
            if not has_ended:
                alone = watching.without_partners(side, coded)
                watching.heard += bool((alone & waits).any())
                waits |= ~alone
        elif has_ended:
            waits = np.zeros(len(coded), np.bool_)
        else:
            waits = ~watching.without_partners(side, coded)
        return waits if keep is None else keep & waits

    def drop_complete_rows(self, side: Side) -> Iterator[Matches]:
        """Drop rows that have met all their partners, after the other side has ended: those of
        partitions of which the other side has no runs."""
        if not self._joins_on_arrival:
            return
        workspace, table = self._workspace, self._memory.tables[side]
        going = np.where(workspace.expected.on_disk[side.other] == 0, table.by_partition, 0)
        if not going.any():
            return
        if going.sum() == len(table):
            every = np.arange(len(table))
            yield from workspace.emitter.unmatched(side, table, every, table.stamps)
            self._memory.clear(side)
        else:
            index = np.concatenate(table.oldest(going)).astype(np.int64)
            yield from workspace.emitter.unmatched(side, table, index, table.stamps)
            keep = np.ones(len(table), np.bool_)
            keep[index] = False
            self._memory.drop(side, keep, going)
        workspace.expected.md[side][going > 0] = 0
        workspace.report_memory()

    def drop_decided_rows(self) -> None:
        """Drop left rows of semi and anti joins that have found a partner since they came, when
        they are more than half of the table: to drop some, all others are linked again."""
        for side, table in zip(Side, self._memory.tables, strict=True):
            keep = self._workspace.emitter.undecided(side, table.stamps)
            if keep is not None and 2 * np.count_nonzero(keep) < len(table):
                self._memory.drop(side, keep, table.count_dropped(keep))

    # ---- making room ----------------------------------------------------------------------------

    def _make_room_for(self, piece: NewRows) -> Iterator[Matches]:
        # Again if need be: rows are of uneven size, and a flush reckons with their mean.
        while (overflow := self._memory.overflow(piece)) and self._memory.rows.any():
            yield from self.make_room(overflow)

    def make_room(self, overflow: int) -> Iterator[Matches]:
        """Flush what the policy names first, at least `overflow` and the share of a flush."""
        workspace = self._workspace
        policy, share = workspace.algorithm.flush, workspace.algorithm.flush_share
        if policy is None:
            raise MemoryTooSmall(
                f"{workspace.algorithm.name} keeps every row in memory, and "
                f"{workspace.account.limit:,} bytes are full after "
                f"{sum(workspace.metrics.rows_in):,} rows.",
                remedy='Give it more memory, or choose an algorithm that spills: "rpj".',
            )
        share = workspace.tuning.flush_share if share is None else share
        # All of memory may be more than its capacity, when that has just been made smaller.
        target = max(overflow, share * max(self._memory.capacity, self._memory.used))
        held = Held(self._memory.rows, workspace.rates.probabilities())
        yield from self.flush(*self._memory.choose(policy(held), target))

    def flush(self, taken: NDArray[np.int64], reasons: Reasons) -> Iterator[Matches]:
        """Write so many rows of each side and partition, the oldest first, and forget them."""
        if not taken.any():
            return
        if not self._joins_on_arrival:
            yield from self.join_memory()
        stamp = self._workspace.draw()
        self._workspace.metrics.flush_count += 1
        for side in Side:
            if taken[side].any():
                self._flush_side(side, taken[side], stamp, reasons)
        self._workspace.report_memory()

    def _flush_side(
        self, side: Side, taken: NDArray[np.int64], stamp: int, reasons: Reasons
    ) -> None:
        workspace, table = self._workspace, self._memory.tables[side]
        block_rows = self._memory.block_rows(side, workspace.block_bytes)
        writer = RunWriter(workspace.spill, table.schema, IoKind.FLUSH, block_rows=block_rows)
        leaving, starts = table.oldest_together(taken), np.cumsum(taken) - taken
        came, keep = sorting.leave_out(leaving, table.stamps)
        most = 2 * BLOCKS_COPIED * block_rows  # Nothing else is copied while rows leave.
        for together in copied_together(taken.tolist(), most=most):
            partitions = [p for p in together if taken[p]]
            first = starts[together.start]
            codes, index = table.by_code(leaving[first : first + taken[list(together)].sum()])
            rows = taken[partitions].tolist()
            # The stamps of each partition, the oldest first.
            ats = [came[starts[p] : starts[p] + taken[p]] for p in partitions]
            arrived = [(int(each[0]), int(each[-1])) for each in ats]
            runs = write_runs(
                writer, table, index, rows=rows, arrived=arrived, departed=stamp, codes=codes
            )
            for p, run, each in zip(partitions, runs, ats, strict=True):
                if workspace.watching.knows_spans:
                    mine = index[starts[p] - first :][: run.rows]
                    run.spans = workspace.watching.spans(side, TakenRows(Rows(table, mine)))
                workspace.disk.add(side, p, run)
                workspace.expected.flushed(side, p, each, stamp)
                record = FlushRecord(stamp, side, p, run.rows, run.nbytes, reasons[side, p])
                workspace.metrics.flushed(record)
        writer.close()
        self._memory.drop(side, keep, taken)

    def join_memory(self) -> Iterator[Matches]:
        """Join all of memory with itself: PMJ's step before it writes its sorted runs."""
        left, right = self._memory.tables
        at, size = (left.stamps, right.stamps), len(self._workspace.pairs)
        for start in range(0, len(right), size):
            rows = np.arange(start, min(start + size, len(right)))
            for found, asked in left.index.find(right.codes(rows), self._workspace.pairs):
                index = (found, rows[asked])
                yield from self._workspace.emitter.pairs((left, right), index, at, Stage.MM)
