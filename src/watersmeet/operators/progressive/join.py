"""The progressive hash join: one mechanism for SHJ, XJoin, HMJ, PMJ and RPJ.

mm-stage   an arrival meets the other side's memory, then is stored; a full memory flushes
reactive   while the inputs are silent: md-tasks and dd-tasks, as the react policy chooses
clean-up   after both inputs have ended: whatever has not met (RPJ, Figure 3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.compaction import compact
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.progressive import state
from watersmeet.operators.progressive.algorithm import ProgressiveAlgorithm
from watersmeet.operators.progressive.arrival import ArrivalStage
from watersmeet.operators.progressive.cleanup import CleanUp
from watersmeet.operators.progressive.debt import memory_owes, owed_rows
from watersmeet.operators.progressive.disk import DiskPartition
from watersmeet.operators.progressive.kept import kept_codes
from watersmeet.operators.progressive.purging import Purging
from watersmeet.operators.progressive.reactive import ReactiveStage
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.predicates import Predicate
from watersmeet.rows.promises import Promise, Ranges
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.merging import merged_by_code
from watersmeet.store.spill import SpillArea

# Runs of a partition that may gather while a task is under way there, and entries in its history.
_MOST_RUNS = 64
_LONG_HISTORY = 64


class ProgressiveJoin:
    """Three stages over hash partitions, each side with a memory part and a disk part.

    Each pair is reported exactly once: in memory when the later row arrives, or by the first task
    that brings the two together (operators/progressive/history.py says how that is known).
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: ProgressiveAlgorithm,
        *,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float],
        tuning: Tuning | None = None,
        watched: Sequence[Predicate] | None = None,
        one_partner: Sequence[Side] = (),
        coming: Sequence[int] | None = None,
    ) -> None:
        self.workspace = ProgressiveWorkspace(
            schema,
            algorithm,
            account=memory,
            spill=spill,
            tuning=tuning or Tuning(),
            watched=watched,
            one_partner=one_partner,
        )
        if coming is not None:
            self.workspace.memory.expect(coming)
        self.purging = Purging(self.workspace)
        self.arrivals = ArrivalStage(self.workspace, self.purging.sweep)
        self.reactive = ReactiveStage(self.workspace)
        self.metrics: Metrics = self.workspace.metrics
        self.metrics.statistics = self.statistics
        self._clock = clock
        self._saved = SavedRows(self.workspace, self.workspace.leaving)

    @property
    def limit(self) -> int:
        return self.workspace.account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        side, workspace = Side(input), self.workspace
        encoded = workspace.schema.encode(side, batch)
        if (nulls := workspace.arrived(side, encoded)) is not None:
            yield from workspace.emitter.alone(side, BatchRows(encoded.rows), nulls)
            encoded = encoded.with_keys()
        rows = workspace.watching.coded(side, encoded.codes, encoded.rows)
        if workspace.watching.is_promised(side):
            workspace.metrics.broken_promises += workspace.watching.broken_by(side, rows)
        for piece in workspace.memory.pieces(side, encoded.rows):
            part = rows.part(piece.place, piece.rows)
            yield from self.arrivals.arrive(side, part, piece, self._clock())

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        return self.purging.accept(Side(input), promise)

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        workspace, asked = self.workspace, _Asked(pause)
        if any(workspace.watching.unswept):
            yield from self.purging.sweep()
        yield from self.reactive.react(asked)
        if not asked.said_stop and self.purging.is_behind and workspace.algorithm.joins_on_arrival:
            yield from self._purge_disk(asked)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        """Join all that is there and has not met, while more may come; until `pause()`."""
        if memory_owes(self.workspace):
            yield from self._flush_all("what is in memory has not met")
        yield from self.reactive.settle(pause)
        yield from self.purging.sweep()

    def owed(self) -> list[int]:
        """Rows that may not have met all that is there of the other side, left and right."""
        return owed_rows(self.workspace)

    def tidy(self) -> Iterator[Matches]:
        """Keep what is remembered as small as the rows that are there allow, however often the join
        has flushed and however many have come and gone. Joins that end can do without."""
        workspace, running = self.workspace, self.reactive.running
        if running is not None and _crowded(workspace.disk[running.choice.partition]):
            yield from self.reactive.complete(None)
            running = None
        self._merge_runs(busy=None if running is None else running.choice.partition)
        self.arrivals.drop_decided_rows()
        yield from self._purge()
        oldest = workspace.oldest()
        workspace.expected.forget(oldest)
        for p, disk in enumerate(workspace.disk.partitions):
            disk.prune(oldest[:, p])
            if len(disk.history) > _LONG_HISTORY:
                yield from self.reactive.settle_partition(p)
                disk.prune(oldest[:, p])
        partitions = workspace.disk.partitions
        runs = [[run for disk in partitions for run in disk.runs[side]] for side in Side]
        workspace.forget_marks(workspace.stamp, runs)
        workspace.report_memory()

    def _purge(self) -> Iterator[Matches]:
        """Let go of rows that owe nothing. What is on disk is read for that when many rows have
        come since, or none at all."""
        is_quiet = self.purging.is_quiet()
        is_due = is_quiet or self.purging.is_due
        if is_due:
            yield from self._purge_disk()
        if self.purging.sweeps_when_tidied:
            yield from self.purging.sweep()
        if is_due or not self.workspace.expected.on_disk.any():
            self.purging.find_spent()
            self.purging.forget_keys()

    def _purge_disk(self, pause: _Asked | None = None) -> Iterator[Matches]:
        """Settle what is owed, so that rows can go, and let go of rows on disk; until `pause`."""
        workspace = self.workspace
        if workspace.watching.promises:
            if not workspace.algorithm.joins_on_arrival:
                yield from self._flush_all("what may go is found on disk")
            yield from self.settle(pause or (lambda: False))
        if pause is None or not pause.said_stop:
            yield from self.reactive.complete(None)
            yield from self.purging.purge_runs(pause)

    def _merge_runs(self, busy: int | None) -> None:
        workspace = self.workspace
        runs = [disk.runs for disk in workspace.disk.partitions]
        for p in compact(workspace, runs, merged_by_code, busy=busy):
            workspace.disk.changed(p)

    def end(self, input: int) -> Iterator[Matches]:
        side = Side(input)
        self.workspace.rates.ended[side] = True
        return self.arrivals.drop_complete_rows(side.other)

    def finish(self) -> Iterator[Matches]:
        yield from self.reactive.complete()
        cleaning = CleanUp(self.workspace, self.reactive.dd_task)
        if cleaning.memory_is_in_the_way:
            yield from self._flush_all("clean-up needs memory")
            cleaning.take_all_memory()
        elif not self.workspace.algorithm.joins_on_arrival:
            yield from self.arrivals.join_memory()
        yield from cleaning.run()

    def lend(self, nbytes: int) -> Iterator[Matches]:
        """An algorithm that cannot spill gives way as far as its rows let it, and says so when the
        next one finds no room."""
        if self.workspace.algorithm.flush is None:
            self.workspace.memory.lent = nbytes
            return
        yield from self._sweep_if_full(nbytes)
        yield from self.workspace.lend(nbytes, self.arrivals.make_room)

    def resize(self, limit: int) -> Iterator[Matches]:
        yield from self._sweep_if_full(max(self.limit - limit, 0))
        yield from self.workspace.resize(limit, self.arrivals.make_room)

    def _sweep_if_full(self, less: int) -> Iterator[Matches]:
        """Let go of rows before others are spilled to do with so many bytes less."""
        memory = self.workspace.memory
        if less and self.workspace.may_sweep and memory.used + less > memory.capacity:
            yield from self.purging.sweep()

    @property
    def rows_kept(self) -> int:
        """Rows of both sides in memory and on disk."""
        return int(self.workspace.memory.rows.sum() + self.workspace.expected.on_disk.sum())

    @property
    def times_purged(self) -> tuple[int, int]:
        """How often rows that may go were looked for, in memory and on disk, since the join was
        made or restored."""
        return self.workspace.watching.times_swept, self.purging.times_read

    def kept_codes(self, side: Side, number: int, among: Ranges, *, read: bool) -> Ranges:
        """Ranges that have all codes, of those `among`, that rows have which are kept of a side."""
        return kept_codes(self.workspace, side, number, among, read=read)

    def _flush_all(self, reason: str) -> Iterator[Matches]:
        every = product(Side, range(self.workspace.tuning.partitions))
        yield from self.arrivals.flush(self.workspace.memory.rows, dict.fromkeys(every, reason))

    def save(self, area: StateArea) -> Manifest:
        return state.save(self, self._saved, area)

    def load(self, area: StateArea, manifest: Manifest) -> None:
        state.load(self, self._saved, area, manifest)

    def close(self) -> None:
        self.reactive.abandon()
        self.workspace.spill.close()
        self.workspace.memory.free()
        for table in self.workspace.memory.tables:
            table.clear()
        self.workspace.memory.reserved = 0
        self.workspace.report_memory()

    def statistics(self) -> dict[str, Any]:
        """p_i[j], and Er and Et of every task, by partition."""
        owed = self.workspace.owed()
        return {
            "arrival_probabilities": self.workspace.rates.probabilities(),
            "rows_in_memory": owed.resident,
            "rows_on_disk": self.workspace.expected.on_disk.copy(),
            "md_expected_results": owed.md_results,
            "md_expected_seconds": owed.md_seconds,
            "dd_expected_results": owed.dd_results,
            "dd_expected_seconds": owed.dd_seconds,
            "distinct_per_partition": self.workspace.distinct_per_partition(),
        }


class _Asked:
    """A `pause` that remembers its answer, since it must not be asked again when it was yes."""

    def __init__(self, pause: Callable[[], bool]) -> None:
        self._pause = pause
        self.said_stop = False

    def __call__(self) -> bool:
        self.said_stop = self.said_stop or self._pause()
        return self.said_stop


def _crowded(disk: DiskPartition) -> bool:
    return max(map(len, disk.runs)) > _MOST_RUNS
