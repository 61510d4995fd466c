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

    The numbers kept here are pairs of rows of one partition. A row is expected to match 1/s of the
    other side's rows in its partition, where s is the number of distinct keys of a partition;
    whoever reads Er divides by s, because the count of distinct keys keeps growing.

    For R_mem1[j] x R_disk2[j], a row that arrives adds the number of the other side's rows that
    are on disk (case 1), and a row that leaves memory before an md-task has used it subtracts the
    number that it added (case 2). The paper subtracts the rows that are on disk when it leaves.
    But those that were flushed during its stay have met it in memory and were never added, so Er
    would become negative. A flush on the other side changes nothing (case 3). What a leaving row
    subtracts from the md-task is added to the dd-task (|S_bfr|).
    """

    def __init__(self, partitions: int) -> None:
        self.on_disk = np.zeros((2, partitions), np.int64)
        self.md = np.zeros((2, partitions))
        self.dd = np.zeros(partitions)
        self.last_md = np.zeros((2, partitions), np.int64)
        # For each side and partition: the stamps of its flushes (T_flush), and the rows that had
        # been flushed by then (n_flush, summed up).
        self._flush_stamps: list[list[list[int]]] = [[[] for _ in range(partitions)] for _ in Side]
        self._flushed_rows: list[list[list[int]]] = [[[0] for _ in range(partitions)] for _ in Side]

    def arrived(self, side: Side, counts: NDArray[np.int64]) -> None:
        """Rows have arrived, `counts` of them in each partition (case 1)."""
        self.md[side] += counts * self.on_disk[side.other]

    def flushed(self, side: Side, partition: int, ats: NDArray[np.int64], stamp: int) -> None:
        """Rows with the arrival stamps `ats`, the oldest first, have left memory (case 2)."""
        owed = self._owed(side, partition, ats)
        self.md[side, partition] = max(self.md[side, partition] - owed, 0.0)
        self.dd[partition] += owed
        self.on_disk[side, partition] += ats.size
        self._flush_stamps[side][partition].append(stamp)
        rows = self._flushed_rows[side][partition]
        rows.append(rows[-1] + ats.size)

    def _owed(self, side: Side, partition: int, ats: NDArray[np.int64]) -> float:
        """How many rows of the other side had been flushed before each of these came, added up."""
        # Lemma 2: rows that came before the last md-task began have met all that was on disk.
        unused = ats[int(ats.searchsorted(self.last_md[side, partition], side="right")) :]
        if not unused.size:
            return 0.0
        stamps = self._flush_stamps[side.other][partition]
        rows = self._flushed_rows[side.other][partition]
        # Few flushes fall into the time in which these rows came. To look for those among 1,500
        # rows takes half of the time that it takes to look for each row among 40 flushes.
        first, last = bisect_left(stamps, int(unused[0])), bisect_left(stamps, int(unused[-1]))
        since = unused.size - unused.searchsorted(stamps[first:last], side="right")
        more = np.diff(rows[first : last + 1])
        return float(rows[first] * unused.size + int(more @ since))

    def md_done(self, side: Side, partition: int, *, began: int, reported: float) -> None:
        """An md-task has ended; it began at stamp `began`, when its Er was `reported`."""
        self.md[side, partition] = max(self.md[side, partition] - reported, 0.0)
        self.last_md[side, partition] = began

    def dd_done(self, partition: int, *, reported: float) -> None:
        self.dd[partition] = max(self.dd[partition] - reported, 0.0)

    def purged(self, side: Side, partition: int, rows: int) -> None:
        """Rows on disk were purged, and `rows` are left. It is not known when those were flushed,
        so they count as flushed before any row that is in memory came."""
        self.on_disk[side, partition] = rows
        self._flush_stamps[side][partition] = []
        self._flushed_rows[side][partition] = [rows]

    def forget(self, oldest: NDArray[np.int64]) -> None:
        """Drop the stamps of flushes that are not needed any more; `oldest` is the arrival stamp
        of the oldest row in memory by [side, partition].

        When a row leaves, `flushed` asks how many rows of the other side had been flushed before
        it came. Flushes before the oldest row in memory are therefore needed only as one sum. If
        there are still too many, every other one of the older half is dropped: Er is an estimate.
        """
        for side in Side:
            for p, stamps in enumerate(self._flush_stamps[side]):
                if not stamps:
                    continue
                rows = self._flushed_rows[side][p]
                old = bisect_left(stamps, oldest[side.other, p])
                del stamps[:old], rows[:old]
                while len(stamps) > _MOST_FLUSHES:
                    # Not of the newer half: the next flush is added to the last sum.
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
