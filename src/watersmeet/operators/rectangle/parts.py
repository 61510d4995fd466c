"""What the steps of a rectangle join share: its rows, its rectangles, its memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.metrics import FlushRecord, Metrics
from watersmeet.operators.outcome import Outcome
from watersmeet.operators.rectangle.algorithm import Meets, RectangleAlgorithm
from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.memory import RectangleMemory
from watersmeet.operators.rectangle.progress import Counts, Progress
from watersmeet.operators.tuning import Tuning
from watersmeet.policies.invoke import Resident
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount, MemoryPlan
from watersmeet.store.index import PairBuffer
from watersmeet.store.runs import Piece, RunWriter, SpilledRun, resident_piece
from watersmeet.store.spill import IoKind, SpillArea

_SMALLEST_BLOCK = 4096

Runs = tuple[list[SpilledRun], list[SpilledRun]]


class Parts:
    """Rows in memory and on disk, in arrival order in both, and what has been joined of them.

    A row of a partition is in one of its runs or, if it came after those, in its side's table.
    Stamps are twice a row's number plus its side: no two rows share one, and a number is half of
    it.
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: RectangleAlgorithm,
        *,
        account: MemoryAccount,
        spill: SpillArea,
        tuning: Tuning,
    ) -> None:
        self.schema = schema
        self.algorithm = algorithm
        self.tuning = tuning
        self.account = account
        self.spill = spill
        self.metrics = Metrics()
        self.plan = MemoryPlan.split(account.limit)
        self.partitions = 1 if algorithm.rescans else tuning.partitions
        self.memory = RectangleMemory(
            schema, nbytes=self.plan.store, rows=tuning.memory_rows, partitions=self.partitions
        )
        work, row_bytes = self.plan.work, self.memory.row_bytes
        self.block_bytes = max(min(spill.block_bytes, work // 48), _SMALLEST_BLOCK)
        self.pairs = PairBuffer(max(1, min(tuning.chunk_rows, work // (4 * sum(row_bytes)))))
        self.outcome = Outcome(schema, self.metrics, self.pairs, room=work // 2)
        self.disk: list[Runs] = [([], []) for _ in range(self.partitions)]
        self.progress = Progress(self.partitions)
        # Partitions that are joined one by one have a cover each, others share one.
        self.covers_apart = algorithm.invoke is not None
        self.covers = [Cover() for _ in range(self.partitions if self.covers_apart else 1)]
        self.full = False
        """Whether memory has overflowed: phase 1 is over."""
        self.kept = 0
        """Right rows, at the front of their table, that stay in memory (Hash Ripple's B^m)."""
        self.ended = [False, False]

    def cover(self, p: int) -> Cover:
        return self.covers[p % len(self.covers)]

    @property
    def meeting(self) -> bool:
        """Whether every arrival meets the other side's memory."""
        meets = self.algorithm.meets
        return meets is Meets.ALL or (meets is not Meets.NONE and not self.full)

    def resident(self) -> Resident:
        """What a spill rule is shown."""
        memory, right = self.memory, self.memory.tables[Side.RIGHT]
        left_bytes, right_bytes = (memory.row_size(memory.mean_bytes(side)) for side in Side)
        return Resident(
            memory.rows,
            (left_bytes, right_bytes),
            kept=memory.counts(right.hashes(np.arange(self.kept))),
            turn=self.metrics.flush_count,
        )

    # ---- leaving memory -------------------------------------------------------------------------

    def flush(self, taken: Counts, reason: str) -> None:
        """Write so many rows of each side and partition, the oldest first, and forget them."""
        if not taken.any():
            return
        self.metrics.flush_count += 1
        for side in Side:
            if taken[side].any():
                self._flush_side(side, taken[side], reason)
        self.tell_memory()

    def _flush_side(self, side: Side, taken: Counts, reason: str) -> None:
        table = self.memory.tables[side]
        keep = np.ones(len(table), np.bool_)
        block_rows = self.memory.block_rows(side, self.block_bytes)
        writer = RunWriter(self.spill, table.schema, IoKind.FLUSH, block_rows=block_rows)
        kept = self.kept if side is Side.RIGHT else 0
        for p, index in enumerate(table.oldest(taken, after=kept)):
            if not len(index):
                continue
            older, newer = self._around_runs(side, p, index)
            before = [self._write(writer, side, older)] if len(older) else []
            behind = [self._write(writer, side, newer)] if len(newer) else []
            self.disk[p][side][:] = [*before, *self.disk[p][side], *behind]
            for run in before + behind:
                number = sum(self.progress.numbers)
                self.metrics.flushed(FlushRecord(number, side, p, run.rows, run.nbytes, reason))
            keep[index] = False
        writer.close()
        table.drop(keep, taken)

    def _write(self, writer: RunWriter, side: Side, index: NDArray[np.int32]) -> SpilledRun:
        for piece in self._copied(side, index, 8 * writer.block_rows):
            writer.append(piece)
        first, last = self.memory.tables[side].stamps[index[[0, -1]]]
        return writer.cut((int(first), int(last)))

    # ---- rows of a partition --------------------------------------------------------------------

    def pieces(self, side: Side, p: int, *, since: int = 0) -> Iterator[Piece]:
        """A partition's rows in the order they came, without runs that end before a stamp."""
        index = self.memory.tables[side].of_partition(p)
        rows = self.memory.block_rows(side, self.block_bytes)
        older, newer = self._around_runs(side, p, index)
        yield from self._copied(side, older, rows)
        for run in self.disk[p][side]:
            if run.departed[1] >= since:
                read = run.open(IoKind.SCAN)
                yield from (read(number) for number in range(run.block_count))
        yield from self._copied(side, newer, rows)

    def _around_runs(
        self, side: Side, p: int, index: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Rows in memory that are older than the partition's runs, and those that are newer.

        Only Hash Ripple has older ones: those that it keeps.
        """
        runs = self.disk[p][side]
        first = runs[0].departed[0] if runs else 0
        older = int(np.searchsorted(self.memory.tables[side].stamps[index], first))
        return index[:older], index[older:]

    def _copied(self, side: Side, index: NDArray[np.int32], rows: int) -> Iterator[Piece]:
        table = self.memory.tables[side]
        for start in range(0, len(index), rows):
            yield resident_piece(table, index[start : start + rows].astype(np.int64), 0)

    def forget(self, p: int) -> None:
        """Remove a partition's runs."""
        for runs in self.disk[p]:
            for run in runs:
                run.remove()
            runs.clear()

    # ---- memory ---------------------------------------------------------------------------------

    def bound_chunks(self, arriving_bytes: float) -> None:
        """Have fewer rows in a chunk while rows are long: copying them out is work memory too."""
        widest = arriving_bytes + sum(self.memory.mean_bytes(side) for side in Side)
        self.pairs.bound(int(self.plan.work / (4 * widest)))

    def cover_marks(self) -> None:
        """Have a mark for every row so far."""
        if any(self.outcome.marked):
            self.outcome.marks.cover(2 * max(self.metrics.rows_in) + 2)
            self.memory.reserved = self.outcome.marks.nbytes

    def tell_memory(self, building: int = 0) -> None:
        self.account.hold(self.memory.nbytes, "rows")
        self.account.hold(self.memory.reserved, "marks")
        self.account.hold(building, "partition being joined")
        self.metrics.memory_used = self.account.used
        self.metrics.memory_peak = self.account.peak
