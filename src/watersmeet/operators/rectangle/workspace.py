"""What the steps of a rectangle join share: its rows, its covers, its memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.metrics import FlushRecord
from watersmeet.operators.rectangle.algorithm import JoinsOnArrival, RectangleAlgorithm
from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.memory import RectangleMemory, SlottedTable
from watersmeet.operators.rectangle.progress import Counts, RectangleProgress
from watersmeet.operators.saved import Runs
from watersmeet.operators.tuning import Tuning
from watersmeet.operators.workspace import Workspace
from watersmeet.policies.invoke import Resident
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.runs import Piece, RunWriter, resident_piece
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import IoKind, SpillArea

# How many blocks are copied or joined together, because few rows take nearly as long as many.
_TOGETHER = 4
# A block is this fraction of the share for loaded blocks, which the table takes with which they are
# joined. `_TOGETHER` blocks and one copy of them fit the share for copies.
_LOADED_BLOCKS = 10


class RectangleWorkspace(Workspace):
    """Rows in memory and on disk, in order of arrival in both, and which of them have met.

    A row of a partition is in one of its runs or, if it came after those, in its side's table.
    A row's stamp is twice its number plus its side, so that no two rows have the same.
    """

    memory: RectangleMemory

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: RectangleAlgorithm,
        *,
        account: MemoryAccount,
        spill: SpillArea,
        tuning: Tuning,
    ) -> None:
        self.partitions = 1 if algorithm.rescans else tuning.partitions
        memory = RectangleMemory(
            schema,
            nbytes=MemoryShares.split(account.limit).store,
            rows=tuning.memory_rows,
            partitions=self.partitions,
        )
        super().__init__(
            schema, memory, account=account, spill=spill, tuning=tuning, blocks=_LOADED_BLOCKS
        )
        self.algorithm = algorithm
        self.disk: list[Runs] = [([], []) for _ in range(self.partitions)]
        self.spilled = np.zeros((2, 2, self.partitions), np.int64)
        """Rows, and bytes, on disk by [side, partition]."""
        self.progress = RectangleProgress(self.partitions)
        # Partitions that are joined one by one have a cover each; otherwise there is one for all.
        self.covers_apart = algorithm.invoke is not None
        self.covers = [Cover() for _ in range(self.partitions if self.covers_apart else 1)]
        self.full = False
        """Whether memory has overflowed: phase 1 is over."""
        if algorithm.meets is JoinsOnArrival.NONE:
            self.memory.drop_index()
        self.kept = 0
        """How many right rows, at the front of their table, stay in memory (Hash Ripple's B^m).

        They are older than all spilled rows of their side."""
        self.ended = [False, False]

    def cover(self, p: int) -> Cover:
        return self.covers[p % len(self.covers)]

    def divide_covers(self) -> None:
        """Give each partition a cover of its own, so that they can be completed one by one."""
        if len(self.covers) < self.partitions:
            self.covers = [Cover.load(self.covers[0].save()) for _ in range(self.partitions)]

    def unite_covers(self) -> None:
        """Note that all rows so far have met; one cover for all partitions becomes one again."""
        count = self.partitions if self.covers_apart else 1
        self.covers = [Cover.complete(self.progress.bounds) for _ in range(count)]

    @property
    def meeting(self) -> bool:
        """Whether every arriving row is joined with the other side's rows in memory."""
        meets = self.algorithm.meets
        return meets is JoinsOnArrival.ALL or (meets is not JoinsOnArrival.NONE and not self.full)

    def resident(self) -> Resident:
        """What a spill rule decides by."""
        memory = self.memory
        left_bytes, right_bytes = (memory.row_size(memory.mean_bytes(side)) for side in Side)
        return Resident(
            memory.rows,
            (left_bytes, right_bytes),
            kept=self._kept_rows(),
            turn=self.metrics.flush_count,
        )

    def overflow(self) -> None:
        """End phase 1; drop the indexes if the algorithm does not need them any more."""
        self.full = True
        if self.algorithm.meets is JoinsOnArrival.UNTIL_FULL and not self.algorithm.rescans:
            self.memory.drop_index()

    # ---- leaving memory -------------------------------------------------------------------------

    def flush(self, taken: Counts, reason: str, *, kept_too: bool = False) -> None:
        """Write `taken` rows by [side, partition], the oldest first, and drop them from memory.

        Rows that are kept stay, unless they are to be written, too (`kept_too`).
        """
        if not taken.any():
            return
        self.metrics.flush_count += 1
        older = np.minimum(taken[Side.RIGHT], self._kept_rows() if kept_too else 0)
        self._flush_side(Side.LEFT, taken[Side.LEFT], reason)
        self._flush_side(Side.RIGHT, taken[Side.RIGHT] - older, reason, after=self.kept)
        if kept_too:
            self._flush_side(Side.RIGHT, older, reason, in_front=True)
            self.kept = 0
        self.report_memory()

    def _flush_side(
        self, side: Side, taken: Counts, reason: str, *, after: int = 0, in_front: bool = False
    ) -> None:
        if not taken.any():
            return
        table, stamp = self.memory.tables[side], sum(self.progress.numbers)
        grouped, ends = table.grouped(taken, after=after), np.cumsum(taken)
        block_rows = self.memory.block_rows(side, self.block_bytes)
        writer = RunWriter(self.spill, table.schema, IoKind.FLUSH, block_rows=block_rows)
        for p, pieces in self._by_partition(table, grouped, ends, _TOGETHER * block_rows):
            for piece in pieces:
                writer.append(piece)
            first, last = table.stamps[grouped[[ends[p] - taken[p], ends[p] - 1]]]
            run = writer.cut((int(first), int(last)))
            runs = self.disk[p][side]
            runs.insert(0 if in_front else len(runs), run)
            self.spilled[:, side, p] += run.rows, run.nbytes
            self.metrics.flushed(FlushRecord(stamp, side, p, run.rows, run.nbytes, reason))
        writer.close()
        keep = np.ones(len(table), np.bool_)
        keep[grouped] = False
        table.drop(keep, taken)

    def _by_partition(
        self, table: SlottedTable, grouped: NDArray[np.int32], ends: Counts, most: int
    ) -> Iterator[tuple[int, list[Piece]]]:
        """The rows of each partition, copied together with those of its neighbours, at most `most`
        at a time: there are many partitions, and a copy of few rows takes as long as one of many.
        """
        start, pieces = 0, list[Piece]()
        copied, at = None, 0
        for p, end in enumerate(ends.tolist()):
            while start < end:
                if copied is None or start == at + len(copied):
                    at = start
                    copied = resident_piece(table, grouped[at : at + most].astype(np.int64), 0)
                stop = min(end, at + len(copied))
                pieces.append(copied.slice(start - at, stop - at))
                start = stop
            if pieces:
                yield p, pieces
                pieces = []

    def takes_kept(self, taken: Counts) -> bool:
        """Whether all rows in memory are to leave, so that even Hash Ripple's kept right rows are
        spilled."""
        return self.kept > 0 and bool((taken == self.memory.rows).all())

    def _kept_rows(self) -> Counts:
        """How many of the kept right rows are in each partition."""
        return self.memory.tables[Side.RIGHT].in_partitions(self.kept)

    # ---- rows of a partition --------------------------------------------------------------------

    def pieces(self, side: Side, p: int, *, since: int = 0) -> Iterator[Piece]:
        """A partition's rows in order of arrival, without runs whose rows all came before `since`.

        A piece consists of several blocks if these are small.
        """
        rows = _TOGETHER * self.memory.block_rows(side, self.block_bytes)
        index = self.memory.tables[side].of_partition(p)
        kept = int(np.searchsorted(index, self.kept)) if side is Side.RIGHT else 0
        yield from self._copied(side, index[:kept], rows)
        blocks: list[Piece] = []
        count = 0
        for run in self.disk[p][side]:
            if run.departed[1] < since:
                continue
            read = run.open(IoKind.SCAN)
            for number in range(run.block_count):
                if blocks and count + run.block_rows(number) > rows:
                    yield Piece.concat(blocks, run.schema)
                    blocks, count = [], 0
                blocks.append(read(number))
                count += len(blocks[-1])
        if blocks:
            yield Piece.concat(blocks, self.schema.stored(side))
        yield from self._copied(side, index[kept:], rows)

    def _copied(self, side: Side, index: NDArray[np.int32], rows: int) -> Iterator[Piece]:
        table = self.memory.tables[side]
        for start in range(0, len(index), rows):
            yield resident_piece(table, index[start : start + rows].astype(np.int64), 0)

    def drop_before(self, p: int) -> None:
        """Drop the rows in memory of partitions before p, which have been joined for good."""
        for side, table in zip(Side, self.memory.tables, strict=True):
            gone = table.by_partition.copy()
            gone[p:] = 0
            index, keep = table.grouped(gone), np.ones(len(table), np.bool_)
            keep[index] = False
            table.drop(keep, gone)
            if side is Side.RIGHT:
                self.kept -= int(np.count_nonzero(index < self.kept))
        self.report_memory()

    def forget(self, p: int) -> None:
        """Remove a partition's runs."""
        for runs in self.disk[p]:
            for run in runs:
                run.remove()
            runs.clear()
        self.spilled[:, :, p] = 0

    def oldest(self) -> Counts:
        """The stamp of the oldest row in memory that is not kept, by [side, partition]."""
        return self.memory.oldest(after=(0, self.kept))

    def was_dropped(self, side: Side, piece: Piece) -> None:
        """No row is dropped while older ones of its partition are there."""

    def pinned(self) -> list[int]:
        """The stamp behind the last row that is kept: all kept rows are older than other rows."""
        right = self.memory.tables[Side.RIGHT]
        return [0, int(right.stamps[self.kept - 1]) + 1 if self.kept else 0]

    def take_over(self, disk: list[Runs]) -> None:
        """Go on with the runs of a saved join."""
        self.disk = disk
        for p in range(self.partitions):
            self.count_spilled(p)

    def count_spilled(self, p: int) -> None:
        """Count a partition's rows and bytes on disk anew."""
        for side in Side:
            runs = self.disk[p][side]
            self.spilled[:, side, p] = (
                sum(run.rows for run in runs),
                sum(run.nbytes for run in runs),
            )

    # ---- memory ---------------------------------------------------------------------------------

    def reserve_marks(self) -> None:
        """Have a mark for every row so far."""
        if any(self.emitter.marked):
            self.emitter.marks.cover(2 * max(self.metrics.rows_in) + 2)
            self.memory.reserved = self.emitter.marks.nbytes
