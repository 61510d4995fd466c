"""Clean-up: after both inputs have ended, everything that has not met (RPJ, Figure 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.progressive.merging import Merging
from watersmeet.operators.progressive.reporting import report
from watersmeet.operators.progressive.tasks import DdTask
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Matches
from watersmeet.store.runs import ResidentRun, Run

Resident = tuple[NDArray[np.int32], NDArray[np.int32]]


class CleanUp:
    """Joins what is owed, partition by partition.

    The paper writes memory to disk first. Here it takes part as runs that are read in place,
    unless the partitions have more runs than can then be read together.
    """

    def __init__(self, workspace: ProgressiveWorkspace, dd_task: Callable[..., DdTask]) -> None:
        self._workspace = workspace
        self._dd_task = dd_task
        # No more input comes, so the share of its buffers may be used too.
        self._ahead_bytes = workspace.shares.without_input().loaded

    @property
    def memory_is_in_the_way(self) -> bool:
        return self._workspace.disk.most_runs() > max(self._most_runs(), 0)

    def take_all_memory(self) -> None:
        """Use the memory that rows no longer need."""
        self._ahead_bytes = self._workspace.shares.without_rows().loaded

    def run(self) -> Iterator[Matches]:
        workspace = self._workspace
        left, right = (table.oldest(table.by_partition) for table in workspace.memory.tables)
        for p in range(workspace.tuning.partitions):
            resident = (left[p], right[p])
            if workspace.disk.empty(p):
                for side, table in zip(Side, workspace.memory.tables, strict=True):
                    index = resident[side].astype(np.int64)
                    yield from workspace.emitter.unmatched(side, table, index, table.stamps)
            else:
                yield from self._fewer_runs(p)
                yield from self._partition(p, resident)

    def _most_runs(self) -> int:
        """How many runs can be read together, with those that stand for memory."""
        return self._ahead_bytes // self._workspace.block_bytes - len(Side)

    def _fewer_runs(self, p: int) -> Iterator[Matches]:
        """Merge a partition's runs, the oldest first, until the rest can be read together."""
        workspace, runs = self._workspace, self._workspace.disk[p].runs
        most = max(self._most_runs(), len(Side))
        merging: DdTask | None = None
        while sum(map(len, runs)) > most:
            if merging is None or merging.done:
                merging = self._dd_task(p, fan_in=most // len(Side))
            yield from report(workspace.emitter, merging.step(workspace.stamp), Stage.CLEANUP)
        workspace.disk.changed(p)

    def _partition(self, p: int, resident: Resident) -> Iterator[Matches]:
        workspace = self._workspace
        disk, memory = workspace.disk[p], workspace.memory
        runs: tuple[list[Run], list[Run]] = ([], [])
        for side in Side:
            runs[side].extend(disk.runs[side])
            if len(resident[side]):
                rows = memory.block_rows(side, workspace.block_bytes)
                runs[side].append(ResidentRun(memory.tables[side], resident[side], block_rows=rows))
        if all(runs) or any(runs[side] and workspace.emitter.marked[side] for side in Side):
            left, right = (table.schema for table in memory.tables)
            each = self._ahead_bytes // sum(map(len, runs))
            merging = Merging(
                runs,
                (left, right),
                history=disk.history,
                pairs=workspace.pairs,
                ahead=min(memory.block_rows(side, each) for side in Side),
            )
            while not merging.done:
                yield from report(workspace.emitter, merging.step(), Stage.CLEANUP, last=True)
        for run in chain(*disk.runs):
            run.remove()
        for side in Side:
            disk.runs[side].clear()
        workspace.disk.changed(p)
