"""What is owed: rows that are all there and may not have met, found out from runs alone.

A run knows when its rows left memory and when the last of them came; the history knows what was
joined from disk (operators/progressive/history.py). That is enough to say of two runs that all
their pairs have met. Where it is not enough they count as unmet, and a task over them settles it:
so a debt of nothing is certain, and a debt of something may turn out to be paid.

Memory takes part as a run that has not left yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.progressive.disk import DiskPartition
from watersmeet.operators.progressive.history import LAST_CODE, History
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.policies.react import Task, TaskKind
from watersmeet.store.runs import STILL_HERE, SpilledRun

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Debt:
    """Of one partition: which runs of the left and of the right side may not have met, and the
    same of memory, which is the last row and the last column where a side has any there."""

    unmet: Flags
    runs: tuple[int, int]

    @property
    def dd(self) -> bool:
        """Whether disk owes disk."""
        return bool(self.unmet[: self.runs[0], : self.runs[1]].any())

    def md(self, side: Side) -> bool:
        """Whether this side's memory owes the other's disk."""
        left, right = self.runs
        mine = self.unmet[left:, :right] if side is Side.LEFT else self.unmet[:left, right:]
        return bool(mine.any())

    def of(self, side: Side) -> Flags:
        """Which runs of a side owe something."""
        owing = np.asarray(self.unmet.any(axis=int(side.other)))
        return owing[: self.runs[side]]


def owed_rows(workspace: ProgressiveWorkspace) -> list[int]:
    """Rows on disk that may not have met all that is there of the other side, left and right."""
    rows = [0, 0]
    for p, disk in enumerate(workspace.disk.partitions):
        if (debt := find_debt(workspace, p)) is not None:
            for side in Side:
                owing = zip(disk.runs[side], debt.of(side), strict=True)
                rows[side] += sum(run.rows for run, owes in owing if owes)
    if memory_owes(workspace):
        rows = [rows[side] + len(workspace.memory.tables[side]) for side in Side]
    return rows


def memory_owes(workspace: ProgressiveWorkspace) -> bool:
    """Whether rows in memory have not met each other: they do on arrival, but for PMJ."""
    return not workspace.algorithm.joins_on_arrival and all(map(len, workspace.memory.tables))


def next_task(workspace: ProgressiveWorkspace) -> Task | None:
    """A task that settles something, or None if nothing is owed."""
    for p in range(workspace.tuning.partitions):
        debt = find_debt(workspace, p)
        if debt is None:
            continue
        if debt.dd:
            return Task(TaskKind.DD, p)
        for side in Side:
            if debt.md(side):
                return Task(TaskKind.MD, p, side)
    return None


def find_debt(workspace: ProgressiveWorkspace, p: int) -> Debt | None:
    """What a partition owes; None for nothing."""
    disk = workspace.disk[p]
    if not any(disk.runs):
        return None
    resident = [bool(table.by_partition[p]) for table in workspace.memory.tables]
    newest = [int(workspace.newest[side, p]) if resident[side] else None for side in Side]
    unmet = _unmet(disk, newest)
    return Debt(unmet, (len(disk.runs[0]), len(disk.runs[1]))) if unmet.any() else None


def _unmet(disk: DiskPartition, newest: list[int | None]) -> Flags:
    left, right = (_Stays(disk.runs[side], newest[side]) for side in Side)
    # Together in memory: the last to come of each came before the first of the other left.
    unmet: Flags = ~(
        (left.latest[:, None] < right.first[None, :])
        & (right.latest[None, :] < left.first[:, None])
    )
    for merge in disk.history.merges:
        if unmet.any():
            unmet &= ~(left.within(merge.left)[:, None] & right.within(merge.right)[None, :])
    for side, mine, others in ((Side.LEFT, left, right), (Side.RIGHT, right, left)):
        if unmet.any():
            view = unmet if side is Side.LEFT else unmet.T
            _strike_scanned(view, mine, others, _Scans(disk.history, side))
    return unmet


class _Stays:
    """When the rows of each run came and left, and those of memory as a run of their own."""

    def __init__(self, runs: list[SpilledRun], newest: int | None) -> None:
        stays = [(run.latest, *run.departed) for run in runs]
        if newest is not None:
            stays.append((newest, STILL_HERE, STILL_HERE))
        columns = np.array(stays, np.int64).reshape(-1, 3).T
        self.latest, self.first, self.last = columns

    def within(self, departed: tuple[int, int]) -> Flags:
        inside: Flags = (departed[0] <= self.first) & (self.last <= departed[1])
        return inside


class _Scans:
    def __init__(self, history: History, side: Side) -> None:
        stamps, self.codes = history.scans(side)
        self.stamp, self.first, self.last = stamps.T
        self.whole = (self.codes[:, 0] == 0) & (self.codes[:, 1] == LAST_CODE)


def _strike_scanned(unmet: Flags, mine: _Stays, others: _Stays, scans: _Scans) -> None:
    """Take out what md-tasks have joined while `mine` was in memory and `others` had left."""
    for n in np.flatnonzero(scans.whole):
        at_home = (mine.latest < scans.stamp[n]) & (scans.stamp[n] < mine.first)
        read = (scans.first[n] <= others.first) & (others.last <= scans.last[n])
        unmet &= ~(at_home[:, None] & read[None, :])
    if scans.whole.all():
        return
    for i, j in np.argwhere(unmet):  # of a task that was interrupted, all parts count together
        useful = (mine.latest[i] < scans.stamp) & (scans.stamp < mine.first[i])
        useful &= (scans.first <= others.first[j]) & (others.last[j] <= scans.last)
        unmet[i, j] = not _cover_all(scans.codes[useful].tolist())


def _cover_all(ranges: list[list[int]]) -> bool:
    reached = 0
    for low, high in sorted(ranges):
        if low > reached:
            return False
        reached = max(reached, high + 1)
    return reached > LAST_CODE
