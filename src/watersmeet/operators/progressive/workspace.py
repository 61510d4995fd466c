"""What the stages of a progressive join share: its rows, its meters, its memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from watersmeet.meters.distinct import DistinctKeys
from watersmeet.meters.expected import ExpectedResults
from watersmeet.meters.rates import ArrivalRates
from watersmeet.model import Side
from watersmeet.operators.leaving import AnyOrder, Leaving, OldestFirst
from watersmeet.operators.memory import PartitionedMemory
from watersmeet.operators.progressive.algorithm import ProgressiveAlgorithm
from watersmeet.operators.progressive.disk import SpilledPartitions
from watersmeet.operators.progressive.watching import Watching
from watersmeet.operators.tuning import Tuning
from watersmeet.operators.workspace import Workspace
from watersmeet.policies.react import Owed
from watersmeet.rows.leaves import Mask
from watersmeet.rows.predicates import Predicate
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.device import measure_costs
from watersmeet.store.runs import Piece
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea

# A merge of eight runs of each side has a block of each loaded.
LOADED_BLOCKS = 16


class ProgressiveWorkspace(Workspace):
    """The memory part, the disk part, and what is known about both.

    Every row that may still find a partner is in exactly one place, its side's table or one run,
    and `SpilledPartitions` knows what has met from there.
    """

    memory: PartitionedMemory

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: ProgressiveAlgorithm,
        *,
        account: MemoryAccount,
        spill: SpillArea,
        tuning: Tuning,
        watched: Sequence[Predicate] | None = None,
        one_partner: Sequence[Side] = (),
    ) -> None:
        """`watched` are the predicates that promises may speak of, those of the join if None; the
        first is the join's first. Rows of the sides `one_partner` have one at most."""
        memory = PartitionedMemory(
            schema,
            nbytes=MemoryShares.split(account.limit).store,
            rows=tuning.memory_rows,
            partitions=tuning.partitions,
        )
        super().__init__(
            schema, memory, account=account, spill=spill, tuning=tuning, blocks=LOADED_BLOCKS
        )
        self.algorithm = algorithm
        self.emitter.expect_one_partner(one_partner)
        partitions, shares = tuning.partitions, self.shares
        self.disk = SpilledPartitions(
            partitions,
            page_rows=tuning.page_rows or max(1, self.block_bytes // max(memory.row_bytes)),
            fan_in=max(2, tuning.fan_in or shares.loaded // (2 * self.block_bytes)),
        )
        self.rates = ArrivalRates(partitions, decay=tuning.decay, time_unit=tuning.time_unit)
        self.expected = ExpectedResults(partitions)
        self.distinct = DistinctKeys()
        self.newest = np.zeros((2, partitions), np.int64)
        """When the last row came, by [side, partition]."""
        # Only a join to which somebody promises something has to remember keys.
        self.watching = (
            Watching(schema.predicates)
            if watched is None
            else Watching(watched, schema.exact_keys())
        )
        if self.watching.remembers_keys:
            memory.leaving = AnyOrder(len(Side))
        self.purged = np.zeros((2, partitions), np.int64)
        """By [side, partition] a stamp: no row is in memory that came before it and whose partners
        were promised not to come when memory was last swept."""
        self.stamp = 1
        self._costs = tuning.costs

    @property
    def leaving(self) -> Leaving:
        """How it is known which rows of saved segments are still in memory. Keys that were promised
        are forgotten some time, so where rows go because of them each row has a bit."""
        return self.memory.leaving or OldestFirst(self)

    def draw(self) -> int:
        """The next stamp; every event has its own."""
        self.stamp += 1
        return self.stamp - 1

    def oldest(self) -> NDArray[np.int64]:
        """The stamp of the oldest row in memory by [side, partition], STILL_HERE for none."""
        return self.memory.oldest()

    def pinned(self) -> list[int]:
        """No row stays in memory while younger ones of its partition leave."""
        return [0, 0]

    @property
    def may_sweep(self) -> bool:
        """Whether there may be rows in memory that can be dropped, for all that is known without
        looking."""
        return any(self.watching.unswept) or bool(self.emitter.one_partner)

    def was_dropped(self, side: Side, piece: Piece) -> Mask | None:
        """Rows that are decided count as dropped, whether they were or not: they are part of no
        result to come. Of rows whose partners were promised not to come, exactly those count that
        were dropped (operators/progressive/purging.py)."""
        keep = self.emitter.undecided(side, piece.ats)
        gone = np.zeros(len(piece), np.bool_) if keep is None else ~keep
        watching = self.watching
        if watching.swept.about(side.other):
            early = piece.ats < self.purged[side][self.memory.partition_of(piece.codes)]
            coded = watching.coded(side, piece.codes, piece.rows)
            gone |= early & watching.without_partners(side, coded, promises=watching.swept)
        return gone

    def distinct_per_partition(self) -> float:
        """s, the distinct keys of a partition (RPJ, Table 1)."""
        distinct = self.tuning.distinct or self.distinct.get()
        return max(distinct / self.tuning.partitions, 1.0)

    def owed(self) -> Owed:
        """Er and Et of every task. What the device costs is measured when first asked for."""
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
