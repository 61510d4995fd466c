"""Who has met whom: why no pair of rows is ever reported twice.

Every row has an arrival stamp (ATS) and, once it has left memory, a departure stamp (DTS), both
drawn from one counter, so two events never tie. A pair has met, and must not be reported again,
when one of these holds:

* their stays in memory [ATS, DTS) overlap: the later one found the other in the mm-stage;
* an **md-task** ran while one was in memory, and the other was among the disk rows it read: a
  *scan*, an entry (stamp, DTS range, code range);
* a **dd-task** merged the runs that hold them: a *merge*, an entry (DTS range left, DTS range
  right, code range).

Ranges of DTS name runs without naming files: runs of a partition are ordered by DTS and only
neighbours are merged, so the rows of a run are always a range of DTS, and "the two rows come from
matching runs" (RPJ 5.2) is the same as "their DTS are in the two ranges of one merge". This holds
for unequal numbers of runs on the two sides, and HMJ's rule of equal run numbers is the special
case of equal DTS. Ranges of codes say how far a task had come when it was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import matching
from watersmeet.model import Side
from watersmeet.operators.met import Presence
from watersmeet.rows.address import Index

LAST_CODE = 2**64 - 1

Past = tuple[
    NDArray[np.int64], NDArray[np.uint64],
    NDArray[np.int64], NDArray[np.uint64],
    NDArray[np.int64], NDArray[np.uint64],
]  # fmt: skip
"""The six arrays that `kernels.matching.drop_met` takes: scans left, scans right, merges."""


@dataclass(frozen=True, slots=True)
class MdRecord:
    """At `stamp` an md-task joined one side's memory with the other's disk rows in the ranges."""

    stamp: int
    departed: tuple[int, int]
    codes: tuple[int, int] = (0, LAST_CODE)

    def then(self, following: MdRecord) -> MdRecord | None:
        """One entry for both, if the following step went on where this one stopped."""
        if self.stamp != following.stamp:
            return None
        if self.departed == following.departed and self.codes[1] + 1 == following.codes[0]:
            return MdRecord(self.stamp, self.departed, (self.codes[0], following.codes[1]))
        whole_runs = self.codes == following.codes == (0, LAST_CODE)
        if whole_runs and self.departed[1] < following.departed[0]:
            return MdRecord(self.stamp, (self.departed[0], following.departed[1]))
        return None


@dataclass(frozen=True, slots=True)
class DdRecord:
    """A dd-task joined the left and the right disk rows in the ranges."""

    left: tuple[int, int]
    right: tuple[int, int]
    codes: tuple[int, int] = (0, LAST_CODE)

    def covers(self, other: DdRecord) -> bool:
        return (
            _within(other.left, self.left)
            and _within(other.right, self.right)
            and _within(other.codes, self.codes)
        )


def _within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


@dataclass(frozen=True, slots=True)
class Stays:
    """Where a side's rows of a partition are: when those of each run left, and when the oldest in
    memory came: later than any stamp if none is there."""

    departed: Sequence[tuple[int, int]]
    oldest: int


def _any_of(stays: Stays, departed: tuple[int, int]) -> bool:
    """Whether some of a side's rows on disk left memory in this time."""
    return any(d[0] <= departed[1] and departed[0] <= d[1] for d in stays.departed)


class History:
    """What has been joined from disk in one partition."""

    def __init__(self) -> None:
        self._scans = (_Log(3), _Log(3))
        self._merges: list[DdRecord] = []
        self._merge_log = _Log(4)

    def scanned(self, side: Side, scan: MdRecord) -> None:
        """`side` is the side that was in memory. Steps of one task grow into one entry."""
        log = self._scans[side]
        if (last := log.last()) is not None:
            stamp, *departed, low, high = last
            before = MdRecord(stamp, (departed[0], departed[1]), (low, high))
            if (grown := before.then(scan)) is not None:
                log.replace_last((grown.stamp, *grown.departed), grown.codes)
                return
        log.append((scan.stamp, *scan.departed), scan.codes)

    def merged(self, merge: DdRecord) -> None:
        """A merge covers the smaller ones that made its runs, so the list stays short."""
        self._merges = [old for old in self._merges if not merge.covers(old)] + [merge]
        self._log_merges()

    def _log_merges(self) -> None:
        self._merge_log = _Log(4)
        for each in self._merges:
            self._merge_log.append((*each.left, *each.right), each.codes)

    @property
    def merges(self) -> Sequence[DdRecord]:
        return self._merges

    def scans(self, side: Side) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Stamps and codes of what was read while `side` was in memory, oldest first."""
        return self._scans[side].arrays()

    def keep_new(self, left: Presence, right: Presence, pairs: tuple[Index, Index]) -> int:
        resident, codes = matching.NEITHER, left.codes
        if left.departed is None:
            resident, codes = matching.LEFT, right.codes
        elif right.departed is None:
            resident = matching.RIGHT
        kept: int = matching.drop_met(
            codes,
            left.arrived,
            left.arrived if left.departed is None else left.departed,
            right.arrived,
            right.arrived if right.departed is None else right.departed,
            resident,
            *self.arrays(),
            *pairs,
            len(pairs[0]),
        )
        return kept

    def __len__(self) -> int:
        return len(self._merges) + len(self._scans[0]) + len(self._scans[1])

    def prune(self, stays: Sequence[Stays]) -> None:
        """Forget scans that tell nothing that is not known without them.

        A scan at stamp s tells about rows of its side that were in memory at s: those that are
        there still, and those that left after s. It may go if a later scan s2 read the same, and
        whoever left between the two has been merged with what was read; or, without such a scan,
        if everyone who left after s has been merged and nobody who came before s is there still.

        What was joined with runs that are gone tells nothing either.
        """
        merges = [
            merge
            for merge in self._merges
            if _any_of(stays[Side.LEFT], merge.left) and _any_of(stays[Side.RIGHT], merge.right)
        ]
        if len(merges) < len(self._merges):
            self._merges = merges
            self._log_merges()
        for side in Side:
            keep = np.ones(len(self.scans(side)[0]), np.bool_)
            for n in range(len(keep)):
                read = (int(self.scans(side)[0][n, 1]), int(self.scans(side)[0][n, 2]))
                keep[n] = _any_of(stays[side.other], read) and self._tells(
                    side, n, stays[side], keep
                )
            if not keep.all():
                self._scans[side].keep(keep)

    def _tells(self, side: Side, n: int, stays: Stays, keep: NDArray[np.bool_]) -> bool:
        stamps, codes = self.scans(side)
        stamp, first, last = stamps[n].tolist()
        unmerged = [
            departed
            for departed in stays.departed
            if departed[1] > stamp and not self._have_merged(side, departed, (first, last))
        ]
        if not unmerged and stays.oldest > stamp:
            return False
        again = (stamps[:, 0] > stamp) & (stamps[:, 1] <= first) & (last <= stamps[:, 2])
        again &= (codes[:, 0] <= codes[n, 0]) & (codes[n, 1] <= codes[:, 1])
        later = stamps[again & keep, 0]
        before = min((departed[0] for departed in unmerged), default=np.iinfo(np.int64).max)
        return not (later < before).any()

    def _have_merged(self, side: Side, mine: tuple[int, int], others: tuple[int, int]) -> bool:
        """Whether one merge has joined all of a side's rows in a range with the other's."""
        wanted = DdRecord(mine, others) if side is Side.LEFT else DdRecord(others, mine)
        return any(merge.covers(wanted) for merge in self._merges)

    def arrays(self) -> Past:
        left, right = self._scans
        return (*left.arrays(), *right.arrays(), *self._merge_log.arrays())

    def save(self) -> dict[str, Any]:
        return {
            "scans": [log.save() for log in self._scans],
            "merges": [[merge.left, merge.right, merge.codes] for merge in self._merges],
        }

    @classmethod
    def load(cls, saved: dict[str, Any]) -> History:
        history = cls()
        for side, entries in zip(Side, saved["scans"], strict=True):
            for stamp, *departed, low, high in entries:
                history.scanned(side, MdRecord(stamp, (departed[0], departed[1]), (low, high)))
        for left, right, codes in saved["merges"]:
            history.merged(DdRecord(tuple(left), tuple(right), tuple(codes)))
        return history


class _Log:
    """Entries as two growing arrays, one of stamps and one of codes, ready for a kernel."""

    def __init__(self, width: int) -> None:
        self._count = 0
        self._stamps = np.empty((4, width), np.int64)
        self._codes = np.empty((4, 2), np.uint64)

    def __len__(self) -> int:
        return self._count

    def append(self, stamps: tuple[int, ...], codes: tuple[int, int]) -> None:
        if self._count == len(self._stamps):
            more = max(self._count, 4)
            self._stamps = np.resize(self._stamps, (self._count + more, self._stamps.shape[1]))
            self._codes = np.resize(self._codes, (self._count + more, 2))
        self._stamps[self._count] = stamps
        self._codes[self._count] = codes
        self._count += 1

    def keep(self, kept: NDArray[np.bool_]) -> None:
        stamps, codes = self.arrays()
        self._stamps, self._codes = stamps[kept], codes[kept]
        self._count = len(self._stamps)

    def last(self) -> list[int] | None:
        if not self._count:
            return None
        end = self._count - 1
        return [*self._stamps[end].tolist(), *self._codes[end].tolist()]

    def replace_last(self, stamps: tuple[int, ...], codes: tuple[int, int]) -> None:
        self._count -= 1
        self.append(stamps, codes)

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        return self._stamps[: self._count], self._codes[: self._count]

    def save(self) -> list[list[int]]:
        if not self._count:
            return []
        stamps, codes = self.arrays()
        return [a + b for a, b in zip(stamps.tolist(), codes.tolist(), strict=True)]
