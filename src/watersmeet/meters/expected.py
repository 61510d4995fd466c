"""How many new results each md- and dd-task would report: Er of RPJ 5.3."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side

_MOST_FLUSHES = 64


class ExpectedResults:
    """Er of every task, kept up as rows arrive and leave.

    Counted in candidate pairs: a row is expected to equal 1/s of the rows of its partition on
    the other side, s being the distinct keys of a partition, and `s` is applied when Er is read
    because the count of distinct keys keeps growing.

    For R_mem1[j] x R_disk2[j] a row adds, when it arrives, all that lies on the other disk (case
    1) and takes the same away when it leaves before an md-task has used it (case 2). The paper
    takes away what lies there at that time; the rows flushed in between met it in memory and
    were never added, so that would make Er negative. A flush on the other side changes nothing
    (case 3). What a leaving row takes from the md-task, the dd-task gains (|S_bfr|).
    """

    def __init__(self, partitions: int) -> None:
        self.on_disk = np.zeros((2, partitions), np.int64)
        self.md = np.zeros((2, partitions))
        self.dd = np.zeros(partitions)
        self.last_md = np.zeros((2, partitions), np.int64)
        # T_flush, and n_flush summed up, per side and partition.
        self._flush_stamps: list[list[list[int]]] = [[[] for _ in range(partitions)] for _ in Side]
        self._flushed_rows: list[list[list[int]]] = [[[0] for _ in range(partitions)] for _ in Side]

    def arrived(self, side: Side, counts: NDArray[np.int64]) -> None:
        """Case 1."""
        self.md[side] += counts * self.on_disk[side.other]

    def flushed(self, side: Side, partition: int, ats: NDArray[np.int64], stamp: int) -> None:
        """Case 2, and the dd-task's gain; `ats` are the leaving rows' arrival stamps."""
        unused = ats[ats > self.last_md[side, partition]]  # Lemma 2: the others owe nothing
        before = np.searchsorted(self._flush_stamps[side.other][partition], unused)
        owed = float(np.asarray(self._flushed_rows[side.other][partition])[before].sum())
        self.md[side, partition] = max(self.md[side, partition] - owed, 0.0)
        self.dd[partition] += owed
        self.on_disk[side, partition] += ats.size
        self._flush_stamps[side][partition].append(stamp)
        rows = self._flushed_rows[side][partition]
        rows.append(rows[-1] + ats.size)

    def md_done(self, side: Side, partition: int, *, began: int, reported: float) -> None:
        """An md-task that began at stamp `began`, when `reported` was owed, has ended."""
        self.md[side, partition] = max(self.md[side, partition] - reported, 0.0)
        self.last_md[side, partition] = began

    def dd_done(self, partition: int, *, reported: float) -> None:
        self.dd[partition] = max(self.dd[partition] - reported, 0.0)

    def forget(self, oldest: NDArray[np.int64]) -> None:
        """Forget when rows were flushed, as far as nobody will ask; `oldest` is the stamp of the
        oldest row in memory by [side, partition].

        What a row owes when it leaves is what lay on the other disk when it came, so flushes
        before the oldest row are one number. Of the rest every other one goes when there are many:
        it is an estimate that policies are given.
        """
        for side in Side:
            for p, stamps in enumerate(self._flush_stamps[side]):
                if not stamps:
                    continue
                rows = self._flushed_rows[side][p]
                old = bisect_left(stamps, oldest[side.other, p])
                del stamps[:old], rows[:old]
                while len(stamps) > _MOST_FLUSHES:
                    # Of the older half: the last sum is what the next one is added to.
                    del stamps[: _MOST_FLUSHES // 2 : 2], rows[1 : _MOST_FLUSHES // 2 + 1 : 2]

    def save(self) -> dict[str, Any]:
        return {
            "on_disk": self.on_disk.tolist(),
            "md": self.md.tolist(),
            "dd": self.dd.tolist(),
            "last_md": self.last_md.tolist(),
            "flush_stamps": _copy(self._flush_stamps),
            "flushed_rows": _copy(self._flushed_rows),
        }

    def load(self, saved: dict[str, Any]) -> None:
        self.on_disk[:] = saved["on_disk"]
        self.md[:] = saved["md"]
        self.dd[:] = saved["dd"]
        self.last_md[:] = saved["last_md"]
        self._flush_stamps = _copy(saved["flush_stamps"])
        self._flushed_rows = _copy(saved["flushed_rows"])


def _copy(listed: list[list[list[int]]]) -> list[list[list[int]]]:
    return [[list(each) for each in side] for side in listed]
