"""The progressive hash join: one mechanism for SHJ, XJoin, HMJ, PMJ and RPJ.

mm-stage   an arrival meets the other side's memory, then is stored; a full memory flushes
reactive   while the inputs are silent: md-tasks and dd-tasks, as the react policy chooses
clean-up   after both inputs have ended: whatever has not met (RPJ, Figure 3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Self

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators import state
from watersmeet.operators.algorithm import Algorithm
from watersmeet.operators.arrival import ArrivalStage
from watersmeet.operators.cleanup import CleanUp
from watersmeet.operators.compaction import compact, merged_by_hash
from watersmeet.operators.debt import memory_owes, owed_rows
from watersmeet.operators.disk import DiskPartition
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.parts import Parts
from watersmeet.operators.reactive import ReactiveStage
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import rows_where
from watersmeet.store.account import MemoryAccount, MemoryPlan
from watersmeet.store.spill import SpillArea

# Runs of a partition that may gather while a task is under way there, and entries in its history.
_MOST_RUNS = 64
_LONG_HISTORY = 64


class ProgressiveJoin:
    """Three stages over hash partitions, each side with a memory part and a disk part.

    Each pair is reported exactly once: in memory when the later row arrives, or by the first task
    that brings the two together (operators/history.py says how that is known).
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
        self.parts = Parts(
            schema, algorithm, account=memory, spill=spill, tuning=tuning or Tuning()
        )
        self.arrivals = ArrivalStage(self.parts)
        self.reactive = ReactiveStage(self.parts)
        self.metrics: Metrics = self.parts.metrics
        self.metrics.statistics = self.statistics
        self._clock = clock
        self._saved = SavedRows(self.parts)

    @property
    def limit(self) -> int:
        return self.parts.account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        side = Side(input)
        encoded = self.parts.schema.encode(side, batch)
        self.metrics.rows_in[side] += len(batch)
        hashes, rows = encoded.hashes, encoded.rows
        self.parts.outcome.portions.arrived(side, rows)
        if encoded.valid is not None and not encoded.valid.all():
            nulls = np.flatnonzero(~encoded.valid)
            self.metrics.null_keys[side] += len(nulls)
            yield from self.parts.outcome.alone(side, BatchRows(rows), nulls)
            hashes, rows = hashes[encoded.valid], rows_where(rows, encoded.valid)
        start = 0
        while start < len(rows):
            stop = start + self.parts.memory.piece_rows(rows, start)
            piece = rows.slice(start, stop - start)
            yield from self.arrivals.arrive(side, hashes[start:stop], piece, self._clock())
            start = stop

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        return self.reactive.react(pause)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        """Join all that is there and has not met, while more may come; until `pause()`."""
        if memory_owes(self.parts):
            yield from self._flush_all("what is in memory has not met")
        yield from self.reactive.settle(pause)

    def owed(self) -> list[int]:
        """Rows that may not have met all that is there of the other side, left and right."""
        return owed_rows(self.parts)

    def tidy(self) -> Iterator[Matches]:
        """Keep what is remembered about spilled rows as small as they allow, however often the
        join has flushed. Joins that end can do without."""
        parts, running = self.parts, self.reactive.running
        if running is not None and _crowded(parts.disk[running.choice.partition]):
            yield from self.reactive.complete(None)
            running = None
        self._merge_runs(busy=None if running is None else running.choice.partition)
        oldest = parts.oldest()
        parts.expected.forget(oldest)
        for p, disk in enumerate(parts.disk.partitions):
            disk.prune(oldest[:, p])
            if len(disk.history) > _LONG_HISTORY:
                yield from self.reactive.settle_partition(p)
                disk.prune(oldest[:, p])

    def _merge_runs(self, busy: int | None) -> None:
        parts = self.parts
        runs = [disk.runs for disk in parts.disk.partitions]
        for p in compact(parts, runs, merged_by_hash, busy=busy):
            parts.disk.changed(p)

    def end(self, input: int) -> Iterator[Matches]:
        side = Side(input)
        self.parts.rates.ended[side] = True
        return self.arrivals.let_go(side.other)

    def finish(self) -> Iterator[Matches]:
        yield from self.reactive.complete()
        cleaning = CleanUp(self.parts, self.reactive.dd_task)
        if cleaning.memory_is_in_the_way:
            yield from self._flush_all("clean-up needs memory")
            cleaning.take_all_memory()
        elif not self.parts.algorithm.joins_on_arrival:
            yield from self.arrivals.join_memory()
        yield from cleaning.run()

    def lend(self, nbytes: int) -> Iterator[Matches]:
        """Do with so many bytes less for rows, because input that waits needs them; 0: no more.

        What was borrowed before is part of it. An algorithm that cannot spill gives way as far as
        its rows let it, and says so when the next one finds no room.
        """
        memory = self.parts.memory
        memory.lent = nbytes
        if self.parts.algorithm.flush is not None:
            while memory.used > memory.capacity and memory.rows.any():
                yield from self.arrivals.make_room(memory.used - memory.capacity)

    def _flush_all(self, reason: str) -> Iterator[Matches]:
        every = product(Side, range(self.parts.tuning.partitions))
        yield from self.arrivals.flush(self.parts.memory.rows, dict.fromkeys(every, reason))

    def resize(self, limit: int) -> Iterator[Matches]:
        """Go on within another memory limit, flushing what no longer fits."""
        parts, plan = self.parts, MemoryPlan.split(limit)
        memory, capacity = parts.memory, parts.tuning.memory_rows or plan.store
        memory.capacity = capacity
        # What marks need cannot be flushed, and may be more than all there is.
        while memory.used > capacity and memory.rows.any():
            yield from self.arrivals.make_room(memory.used - capacity)
        parts.account.limit, parts.plan = limit, plan
        parts.outcome.portions.room = plan.work // 2
        memory.resize(capacity)
        parts.tell_memory()

    def save(self, area: StateArea) -> Manifest:
        return state.save(self, self._saved, area)

    @classmethod
    def restore(cls, area: StateArea, manifest: Manifest, **settings: Any) -> Self:
        join = cls(**settings)
        try:
            state.load(join, join._saved, area, manifest)
        except BaseException:
            join.close()
            raise
        return join

    def close(self) -> None:
        self.reactive.abandon()
        self.parts.spill.close()
        self.parts.memory.free()
        for table in self.parts.memory.tables:
            table.clear()
        self.parts.memory.reserved = 0
        self.parts.tell_memory()

    def statistics(self) -> dict[str, Any]:
        """p_i[j], and Er and Et of every task, by partition."""
        owed = self.parts.owed()
        return {
            "arrival_probabilities": self.parts.rates.probabilities(),
            "rows_in_memory": owed.resident,
            "rows_on_disk": self.parts.expected.on_disk.copy(),
            "md_expected_results": owed.md_results,
            "md_expected_seconds": owed.md_seconds,
            "dd_expected_results": owed.dd_results,
            "dd_expected_seconds": owed.dd_seconds,
            "distinct_per_partition": self.parts.distinct_per_partition(),
        }


def _crowded(disk: DiskPartition) -> bool:
    return max(map(len, disk.runs)) > _MOST_RUNS
