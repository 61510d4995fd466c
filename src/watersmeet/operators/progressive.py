"""The progressive hash join: one mechanism for SHJ, XJoin, HMJ, PMJ and RPJ.

mm-stage   an arrival meets the other side's memory, then is stored; a full memory flushes
reactive   while the inputs are silent: md-tasks and dd-tasks, as the react policy chooses
clean-up   after both inputs have ended: whatever has not met (RPJ, Figure 3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import MemoryTooSmall
from watersmeet.kernels import matching
from watersmeet.meters.distinct import DistinctKeys
from watersmeet.meters.expected import ExpectedResults
from watersmeet.meters.rates import ArrivalRates
from watersmeet.model import Side
from watersmeet.operators import state
from watersmeet.operators.algorithm import Algorithm
from watersmeet.operators.disk import Disk
from watersmeet.operators.memory import MemoryPart
from watersmeet.operators.merging import Found, Merging
from watersmeet.operators.metrics import FlushRecord, Metrics
from watersmeet.operators.outcome import Outcome
from watersmeet.operators.tasks import DdTask, FoundInMemory, MdTask, Step
from watersmeet.operators.tuning import Tuning
from watersmeet.policies.flush import Held
from watersmeet.policies.react import Owed, Task, TaskKind
from watersmeet.rows.address import Index, Matches, RowSource, Stage
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount, MemoryPlan
from watersmeet.store.device import measure_costs
from watersmeet.store.index import Hashes, PairBuffer
from watersmeet.store.runs import ResidentRun, Run, RunWriter, append_rows, by_hash
from watersmeet.store.spill import IoKind, SpillArea

Stamps = NDArray[np.int64]
_T = TypeVar("_T")
_U = TypeVar("_U")

_SMALLEST_BLOCK = 4096


class ProgressiveJoin:
    """Three stages over hash partitions, each side with a memory part and a disk part.

    Every row that may still find a partner is in exactly one place, its side's table or one run,
    and `Disk` knows what has met from there. So each pair is reported exactly once: in memory
    when the later row arrives, or by the first task that brings the two together.
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: Algorithm,
        *,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float],
        tuning: Tuning | None = None,
    ) -> None:
        self.schema = schema
        self.algorithm = algorithm
        self.tuning = tuning = tuning or Tuning()
        self.metrics = Metrics(statistics=self.statistics)
        self.spill = spill
        self._account = memory
        self._clock = clock
        plan = MemoryPlan.split(memory.limit)
        partitions = tuning.partitions
        self.memory = MemoryPart(
            schema, nbytes=plan.store, rows=tuning.memory_rows, partitions=partitions
        )
        widest = max(self.memory.row_bytes)
        self.block_bytes = max(min(spill.block_bytes, plan.work // 48), _SMALLEST_BLOCK)
        self.disk = Disk(
            partitions,
            page_rows=tuning.page_rows or max(1, self.block_bytes // widest),
            fan_in=tuning.fan_in or max(2, plan.work // (6 * self.block_bytes)),
        )
        # Result rows are copied out a chunk at a time, and the copy counts as work memory.
        chunk = plan.work // (4 * sum(self.memory.row_bytes))
        self._pairs = PairBuffer(max(1, min(tuning.chunk_rows, chunk)))
        self.outcome = Outcome(schema, self.metrics)
        self.rates = ArrivalRates(partitions, decay=tuning.decay, time_unit=tuning.time_unit)
        self.expected = ExpectedResults(partitions)
        self.distinct = DistinctKeys()
        self.running: Running | None = None
        self.stamp = 1
        self._costs = tuning.costs

    # ---- mm-stage -------------------------------------------------------------------------------

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[Matches]:
        encoded = self.schema.encode(side, batch)
        self.metrics.rows_in[side] += len(batch)
        hashes, rows = encoded.hashes, encoded.rows
        if encoded.valid is not None and not encoded.valid.all():
            nulls = np.flatnonzero(~encoded.valid)
            self.metrics.null_keys[side] += len(nulls)
            yield from self._alone(side, BatchRows(rows), nulls)
            hashes, rows = hashes[encoded.valid], rows.filter(pa.array(encoded.valid))
        start = 0
        while start < len(rows):
            stop = start + self.memory.piece_rows(rows, start)
            yield from self._arrive(side, hashes[start:stop], rows.slice(start, stop - start))
            start = stop

    def _arrive(self, side: Side, hashes: Hashes, rows: pa.RecordBatch) -> Iterator[Matches]:
        self.rates.arrived(side, self._count(hashes), self._clock())
        self.distinct.update(hashes)
        if not self.algorithm.joins_on_arrival:
            # What leaves now must not seem to have met rows that it was never joined with.
            yield from self._make_room_for(rows)
        stamps = np.arange(self.stamp, self.stamp + len(rows))
        self.stamp += len(rows)
        if any(self.outcome.marked):
            self.outcome.marks.cover(self.stamp)
        source = BatchRows(rows)
        if self.algorithm.joins_on_arrival:
            yield from self._meet(side, hashes, source, stamps)
            keep = self._undecided(side, hashes, stamps)
            if keep is not None:
                gone = np.flatnonzero(~keep)
                yield from self._unmatched(side, source, gone, stamps)
                hashes, stamps, rows = hashes[keep], stamps[keep], rows.filter(pa.array(keep))
        if len(rows):
            yield from self._make_room_for(rows)
            self.expected.arrived(side, self._count(hashes))
            self.memory.tables[side].add(hashes, stamps, rows)
        self._tell_memory()

    def _meet(
        self, side: Side, hashes: Hashes, source: RowSource, stamps: Stamps
    ) -> Iterator[Matches]:
        """Report an arrival's partners in the other side's memory."""
        others = self.memory.tables[side.other]
        sources = _in_order(side, source, others)
        for found, asked in others.find(hashes, self._pairs):
            index = _in_order(side, asked, found)
            at = _in_order(side, stamps, others.stamps)
            yield from self.outcome.pairs(sources, index, at, Stage.MM)

    def _undecided(self, side: Side, hashes: Hashes, stamps: Stamps) -> NDArray[np.bool_] | None:
        """Which arrivals may still matter after they met memory; None for all of them."""
        keep = self.outcome.wanted(side, stamps)
        if self.rates.ended[side.other]:
            owed = self.expected.on_disk[side.other][_partitions(hashes, self.tuning.partitions)]
            keep = owed > 0 if keep is None else keep & (owed > 0)
        return keep

    def end(self, side: Side) -> Iterator[Matches]:
        self.rates.ended[side] = True
        if self.algorithm.joins_on_arrival:
            yield from self._let_go(side.other)

    def _let_go(self, side: Side) -> Iterator[Matches]:
        """Forget rows whose every possible partner is in memory and has ended arriving."""
        table = self.memory.tables[side]
        going = np.where(self.expected.on_disk[side.other] == 0, table.by_partition, 0)
        if not going.any():
            return
        if going.sum() == len(table):
            yield from self._unmatched(side, table, np.arange(len(table)), table.stamps)
            table.clear()
        else:
            index = np.concatenate(table.oldest(going)).astype(np.int64)
            yield from self._unmatched(side, table, index, table.stamps)
            keep = np.ones(len(table), np.bool_)
            keep[index] = False
            table.drop(keep, going)
        self.expected.md[side][going > 0] = 0
        self._tell_memory()

    # ---- flushing -------------------------------------------------------------------------------

    def _make_room_for(self, rows: pa.RecordBatch) -> Iterator[Matches]:
        overflow = self.memory.overflow(rows)
        if overflow:
            yield from self._make_room(overflow)

    def _make_room(self, overflow: int) -> Iterator[Matches]:
        policy = self.algorithm.flush
        if policy is None:
            raise MemoryTooSmall(
                f"{self.algorithm.name} keeps every row in memory, and {self._account.limit:,} "
                f"bytes are full after {sum(self.metrics.rows_in):,} rows.",
                remedy='Give it more memory, or choose an algorithm that spills: "rpj".',
            )
        share = self.algorithm.flush_share
        share = self.tuning.flush_share if share is None else share
        target = max(overflow, share * self.memory.capacity)
        held = Held(self.memory.rows, self.rates.probabilities())
        yield from self._flush(*self.memory.choose(policy(held), target))

    def _flush(self, taken: NDArray[np.int64], reasons: dict[int, str]) -> Iterator[Matches]:
        if not self.algorithm.joins_on_arrival:
            yield from self._join_memory()
        stamp = self._draw()
        self.metrics.flush_count += 1
        for side in Side:
            if taken[side].any():
                self._flush_side(side, taken[side], stamp, reasons)
        self._tell_memory()

    def _flush_side(
        self, side: Side, taken: NDArray[np.int64], stamp: int, reasons: dict[int, str]
    ) -> None:
        table = self.memory.tables[side]
        keep = np.ones(len(table), np.bool_)
        block_rows = self.memory.block_rows(side, self.block_bytes)
        writer = RunWriter(self.spill, table.schema, IoKind.FLUSH)
        for p, index in enumerate(table.oldest(taken)):
            if not len(index):
                continue
            in_order = by_hash(table, index)
            append_rows(writer, table, in_order, departed=stamp, block_rows=block_rows)
            run = writer.cut()
            self.disk[p].runs[side].append(run)
            self.disk.changed(p)
            self.expected.flushed(side, p, table.stamps[index], stamp)
            keep[index] = False
            record = FlushRecord(stamp, side, p, run.rows, run.nbytes, reasons[p])
            self.metrics.flushes.append(record)
            self.metrics.rows_spilled += run.rows
            self.metrics.bytes_spilled += run.nbytes
        writer.close()
        table.drop(keep, taken)

    def _join_memory(self) -> Iterator[Matches]:
        """Join all of memory with itself: PMJ's step before it writes its sorted runs."""
        left, right = self.memory.tables
        for start in range(0, len(right), self.tuning.chunk_rows):
            rows = np.arange(start, min(start + self.tuning.chunk_rows, len(right)))
            for found, asked in left.find(right.hashes(rows), self._pairs):
                at = (left.stamps, right.stamps)
                yield from self.outcome.pairs((left, right), (found, rows[asked]), at, Stage.MM)

    def resize(self, limit: int) -> Iterator[Matches]:
        """Go on within another memory limit, flushing what no longer fits."""
        store = MemoryPlan.split(limit).store
        while self.memory.used > store:
            self.memory.capacity = store
            yield from self._make_room(self.memory.used - store)
        self._account.limit = limit
        self.memory.resize(store)
        self._tell_memory()

    # ---- reactive stage -------------------------------------------------------------------------

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        stamp = self._draw()
        whole_stage = self.tuning.whole_tasks and self.algorithm.whole_stage
        while True:
            between_tasks = self.running is None
            if (between_tasks or not self.tuning.whole_tasks) and not whole_stage and pause():
                return
            if self.running is None:
                self.running = self._choose(stamp)
                if self.running is None:
                    return
            yield from self._step(self.running, stamp, None)

    def _choose(self, stamp: int) -> Running | None:
        if self.algorithm.react is None or not self.metrics.flush_count:
            return None
        choice = self.algorithm.react(self._owed())
        return None if choice is None else self.start(choice, stamp)

    def start(self, choice: Task, stamp: int, begun: dict[str, Any] | None = None) -> Running:
        """Begin a task, or go on with one that was saved."""
        disk = self.disk[choice.partition]
        begun = begun or {}
        if choice.kind is TaskKind.MD:
            owed = self.expected.md[choice.side, choice.partition]
            task: MdTask | DdTask = MdTask(
                disk,
                choice.side,
                self.memory.tables[choice.side],
                pairs=self._pairs,
                **begun.get("place", {}),
            )
        else:
            owed = self.expected.dd[choice.partition]
            task = self._dd_task(choice.partition, begun.get("place"))
        return Running(choice, task, begun.get("began", stamp), begun.get("owed", float(owed)))

    def _dd_task(self, partition: int, begun: dict[str, Any] | None = None) -> DdTask:
        widest = max(self.memory.block_rows(side, self.block_bytes) for side in Side)
        left, right = (table.schema for table in self.memory.tables)
        return DdTask(
            self.disk[partition],
            (left, right),
            fan_in=self.disk.fan_in,
            pairs=self._pairs,
            area=self.spill,
            block_rows=widest,
            begun=begun,
        )

    def _step(self, running: Running, stamp: int, stage: Stage | None) -> Iterator[Matches]:
        """One step of the task at hand, and its end if that is reached."""
        kind, p, side = running.choice
        stage = stage or (Stage.MD if kind is TaskKind.MD else Stage.DD)
        yield from self._reported(running.task.step(stamp), stage)
        if not running.task.done:
            return
        self.running = None
        if kind is TaskKind.MD:
            self.metrics.md_tasks += 1
            self.expected.md_done(side, p, began=running.began, reported=running.owed)
        else:
            self.metrics.dd_tasks += 1
            self.expected.dd_done(p, reported=running.owed)
            self.disk.changed(p)

    def _reported(self, step: Step, stage: Stage, *, last: bool = False) -> Iterator[Matches]:
        """Results of one step. In the `last` merging, rows that pass have met everything."""
        for found in step:
            if isinstance(found, Found):
                yield from self.outcome.pairs(
                    (found.left.source, found.right.source),
                    (found.left_index, found.right_index),
                    (found.left.ats, found.right.ats),
                    stage,
                )
            elif isinstance(found, FoundInMemory):
                yield from self.outcome.pairs(
                    _in_order(found.side, found.table, found.piece.source),
                    _in_order(found.side, found.table_index, found.piece_index),
                    _in_order(found.side, found.table.stamps, found.piece.ats),
                    stage,
                )
            elif last:
                piece = found.piece
                every = np.arange(len(piece))
                yield from self._unmatched(found.side, piece.source, every, piece.ats)

    # ---- clean-up -------------------------------------------------------------------------------

    def finish(self) -> Iterator[Matches]:
        stamp = self._draw()
        if not self.algorithm.joins_on_arrival:
            yield from self._join_memory()
        while self.running is not None:
            yield from self._step(self.running, stamp, Stage.CLEANUP)
        # No more input: its buffers' share may be used for merging. If that is not enough to read
        # all runs of a partition together, memory is flushed first, as in the paper.
        plan = MemoryPlan.split(self._account.limit)
        ahead_bytes = (plan.work + plan.input) // 3
        if self.disk.most_runs() > ahead_bytes // self.block_bytes - 2:
            everything = "clean-up needs the memory"
            reasons = dict.fromkeys(range(self.tuning.partitions), everything)
            yield from self._flush(self.memory.rows, reasons)
            ahead_bytes = self._account.limit // 3
        most_runs = max(2, ahead_bytes // self.block_bytes - 2)
        resident = [table.oldest(table.by_partition) for table in self.memory.tables]
        for p in range(self.tuning.partitions):
            here = (resident[0][p], resident[1][p])
            if self.disk.empty(p):
                for side in Side:
                    table = self.memory.tables[side]
                    index = here[side].astype(np.int64)
                    yield from self._unmatched(side, table, index, table.stamps)
            else:
                yield from self._fewer_runs(p, most_runs, stamp)
                yield from self._clean_up(p, here, ahead_bytes)

    def _fewer_runs(self, p: int, most: int, stamp: int) -> Iterator[Matches]:
        """Merge a partition's runs until they can all be read together."""
        while sum(map(len, self.disk[p].runs)) > most:
            shorter = self._dd_task(p)
            while not shorter.done:
                yield from self._reported(shorter.step(stamp), Stage.CLEANUP)
            self.disk.changed(p)

    def _clean_up(
        self, p: int, resident: tuple[NDArray[np.int32], NDArray[np.int32]], ahead_bytes: int
    ) -> Iterator[Matches]:
        """Join everything still owed in one partition.

        The paper writes memory to disk first; here it takes part as a run that is read in place.
        """
        disk = self.disk[p]
        runs: tuple[list[Run], list[Run]] = ([], [])
        for side in Side:
            runs[side].extend(disk.runs[side])
            if len(resident[side]):
                rows = self.memory.block_rows(side, self.block_bytes)
                table = self.memory.tables[side]
                runs[side].append(ResidentRun(table, resident[side], block_rows=rows))
        owed = all(runs) or any(runs[side] and self.outcome.marked[side] for side in Side)
        if owed:
            left, right = (table.schema for table in self.memory.tables)
            each = ahead_bytes // sum(map(len, runs))
            merging = Merging(
                runs,
                (left, right),
                history=disk.history,
                pairs=self._pairs,
                ahead=min(self.memory.block_rows(side, each) for side in Side),
            )
            while not merging.done:
                yield from self._reported(merging.step(), Stage.CLEANUP, last=True)
        for run in chain(*disk.runs):
            run.remove()
        disk.runs[Side.LEFT].clear()
        disk.runs[Side.RIGHT].clear()
        self.disk.changed(p)

    # ---- state and statistics -------------------------------------------------------------------

    def save(self, area: SpillArea) -> state.Manifest:
        return state.save(self, area)

    @classmethod
    def restore(cls, area: SpillArea, manifest: state.Manifest, **settings: Any) -> Self:
        join = cls(**settings)
        state.load(join, area, manifest)
        return join

    def close(self) -> None:
        self.running = None
        self.spill.close()
        self._account.hold(0, "rows")
        self._account.hold(0, "marks")

    def distinct_per_partition(self) -> float:
        """s, the distinct keys of a partition (RPJ, Table 1)."""
        distinct = self.tuning.distinct or self.distinct.get()
        return max(distinct / self.tuning.partitions, 1.0)

    def statistics(self) -> dict[str, Any]:
        """p_i[j], and Er and Et of every task, by partition."""
        owed = self._owed()
        return {
            "arrival_probabilities": self.rates.probabilities(),
            "rows_in_memory": owed.resident,
            "rows_on_disk": self.expected.on_disk.copy(),
            "md_expected_results": owed.md_results,
            "md_expected_seconds": owed.md_seconds,
            "dd_expected_results": owed.dd_results,
            "dd_expected_seconds": owed.dd_seconds,
            "distinct_per_partition": self.distinct_per_partition(),
        }

    def _owed(self) -> Owed:
        if self._costs is None:
            self._costs = measure_costs(self.spill.path, self.block_bytes)
        s = self.distinct_per_partition()
        return Owed(
            md_results=self.expected.md / s,
            md_seconds=self.disk.scan_seconds(self._costs),
            dd_results=self.expected.dd / s,
            dd_seconds=self.disk.merge_seconds(self._costs),
            resident=self.memory.rows,
        )

    def _alone(self, side: Side, source: RowSource, index: Index) -> Iterator[Matches]:
        for chunk in _chunks(index, self._pairs.first.size):
            yield from self.outcome.alone(side, source, chunk)

    def _unmatched(
        self, side: Side, source: RowSource, index: Index, stamps: Stamps
    ) -> Iterator[Matches]:
        for chunk in _chunks(index, self._pairs.first.size):
            yield from self.outcome.unmatched(side, source, chunk, stamps[chunk])

    def _count(self, hashes: Hashes) -> NDArray[np.int64]:
        counts = np.zeros(self.tuning.partitions, np.int64)
        matching.count_partitions(hashes, counts)
        return counts

    def _draw(self) -> int:
        self.stamp += 1
        return self.stamp - 1

    def _tell_memory(self) -> None:
        self._account.hold(self.memory.nbytes, "rows")
        if any(self.outcome.marked):
            self._account.hold(self.outcome.marks.nbytes, "marks")
        self.metrics.memory_used = self._account.used
        self.metrics.memory_peak = self._account.peak


class Running:
    """A task that has begun: when, and what it was expected to report."""

    def __init__(self, choice: Task, task: MdTask | DdTask, began: int, owed: float) -> None:
        self.choice = choice
        self.task = task
        self.began = began
        self.owed = owed


def _in_order(side: Side, mine: _T, others: _U) -> tuple[_T | _U, _T | _U]:
    return (mine, others) if side is Side.LEFT else (others, mine)


def _partitions(hashes: Hashes, partitions: int) -> NDArray[np.int64]:
    return (((hashes >> 32) * partitions) >> 32).astype(np.int64)


def _chunks(index: Index, size: int) -> Iterator[Index]:
    for start in range(0, len(index), size):
        yield index[start : start + size]
