"""The disk part of a join: per partition, the runs of both sides and what they have met."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.progressive.history import History, Stays
from watersmeet.store.device import Costs
from watersmeet.store.runs import SpilledRun


@dataclass
class DiskPartition:
    """R_disk1[j] and R_disk2[j]: runs in order of departure, oldest first."""

    runs: tuple[list[SpilledRun], list[SpilledRun]] = field(default_factory=lambda: ([], []))
    history: History = field(default_factory=History)

    def prune(self, oldest: NDArray[np.int64]) -> None:
        """Forget what was joined as far as it tells nothing. `oldest` is when the oldest row in
        memory came, left and right."""
        if not len(self.history):
            return
        self.history.prune(
            [Stays([run.departed for run in self.runs[side]], int(oldest[side])) for side in Side]
        )


class SpilledPartitions:
    """All partitions, with counts of their runs and pages, from which the expected time of a task
    (Et, RPJ 5.3) is computed."""

    def __init__(self, partitions: int, *, page_rows: int, fan_in: int) -> None:
        self.partitions = [DiskPartition() for _ in range(partitions)]
        self.fan_in = fan_in
        self._page_rows = page_rows
        self._runs = np.zeros((2, partitions), np.int64)
        self._pages = np.zeros((2, partitions), np.int64)

    def __getitem__(self, partition: int) -> DiskPartition:
        return self.partitions[partition]

    def add(self, side: Side, partition: int, run: SpilledRun) -> None:
        """Take in a run that has just been flushed."""
        self.partitions[partition].runs[side].append(run)
        self._runs[side, partition] += 1
        self._pages[side, partition] += -(-run.rows // self._page_rows)

    def changed(self, partition: int) -> None:
        """Count a partition's runs and pages again."""
        for side in Side:
            runs = self.partitions[partition].runs[side]
            self._runs[side, partition] = len(runs)
            self._pages[side, partition] = sum(-(-run.rows // self._page_rows) for run in runs)

    def empty(self, partition: int) -> bool:
        return not self._runs[:, partition].any()

    def most_runs(self) -> int:
        """The largest number of runs in one partition, of both sides."""
        return int(self._runs.sum(axis=0).max())

    def scan_seconds(self, costs: Costs) -> NDArray[np.float64]:
        """Et of md-tasks by [memory side, partition]: x*c_ran + (y-x)*c_seq (RPJ 5.3).

        An md-task reads the other side's disk part, of x runs and y pages.
        """
        read = self._runs * costs.random + (self._pages - self._runs) * costs.sequential
        return np.asarray(read[::-1])

    def merge_seconds(self, costs: Costs) -> NDArray[np.float64]:
        """Et of dd-tasks: 2*c_ran*(y1+y2)*passes (RPJ 5.3).

        The paper derives the passes from pages; runs are sorted already, so it is the number of
        runs that decides how often they must be merged.
        """
        passes = np.ceil(np.log(np.maximum(self._runs.max(axis=0), 2)) / np.log(self.fan_in))
        return np.asarray(2 * costs.random * self._pages.sum(axis=0) * passes)
