"""What to join from disk while the inputs are silent.

A policy sees how many results every possible task is expected to report (Er) and how many seconds
it is expected to take (Et), and names one task, or None if no task has anything to report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side

Numbers = NDArray[np.float64]


class TaskKind(StrEnum):
    MD = "md"
    """Memory partition x opposite disk partition (RPJ 5.1)."""
    DD = "dd"
    """Disk partition x disk partition, by progressive sort-merge (RPJ 5.2)."""


class Task(NamedTuple):
    """`side` is the side whose rows in memory an md-task uses; it means nothing for a dd-task."""

    kind: TaskKind
    partition: int
    side: Side = Side.LEFT


@dataclass(frozen=True)
class Owed:
    """Er and Et of every task: md by [memory side, partition], dd by [partition]. `resident` are
    the rows in memory by [side, partition]."""

    md_results: Numbers
    md_seconds: Numbers
    dd_results: Numbers
    dd_seconds: Numbers
    resident: NDArray[np.int64]

    def md_rates(self) -> Numbers:
        return _rates(self.md_results, self.md_seconds)

    def dd_rates(self) -> Numbers:
        return _rates(self.dd_results, self.dd_seconds)


ReactPolicy = Callable[[Owed], Task | None]


def _rates(results: Numbers, seconds: Numbers) -> Numbers:
    """Er/Et, the expected output rate (RPJ 5.3); 0 for a task that has nothing to report."""
    return np.where(results > 0, results / np.maximum(seconds, 1e-12), 0.0)


def best_rate(owed: Owed) -> Task | None:
    """The md- or dd-task with the best expected output rate (RPJ, Figure 3)."""
    md, dd = best_md(owed), best_dd(owed)
    if md is None or dd is None:
        return md or dd
    md_rate = owed.md_rates()[md.side, md.partition]
    return md if md_rate >= owed.dd_rates()[dd.partition] else dd


def best_md(owed: Owed) -> Task | None:
    """The best md-task (RPJ-md)."""
    rates = owed.md_rates()
    side, p = divmod(int(np.argmax(rates)), rates.shape[1])
    return Task(TaskKind.MD, p, Side(side)) if rates[side, p] > 0 else None


def best_dd(owed: Owed) -> Task | None:
    """The best dd-task (RPJ-dd)."""
    rates = owed.dd_rates()
    p = int(np.argmax(rates))
    return Task(TaskKind.DD, p) if rates[p] > 0 else None


def largest_resident(owed: Owed) -> Task | None:
    """An md-task for the largest memory partition that has something to report (XJoin)."""
    rows = np.where(owed.md_results > 0, owed.resident, 0)
    side, p = divmod(int(np.argmax(rows)), rows.shape[1])
    return Task(TaskKind.MD, p, Side(side)) if rows[side, p] > 0 else None


def every_partition(owed: Owed) -> Task | None:
    """The dd-task of the first partition that has something to report (HMJ goes through all)."""
    waiting = np.flatnonzero(owed.dd_results > 0)
    return Task(TaskKind.DD, int(waiting[0])) if waiting.size else None
