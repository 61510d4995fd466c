"""Which pairs have met, told by obvious Python; and the smaller kernels beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.kernels import matching
from watersmeet.kernels.hashing import hash_codes, partition_of
from watersmeet.model import Side
from watersmeet.operators.progressive.history import LAST_CODE, DdRecord, History, MdRecord

STILL_HERE = 2**63 - 1
LAST_STAMP = 30


@dataclass(frozen=True)
class Row:
    hash: int
    arrived: int
    departed: int


def were_in_memory_together(left: Row, right: Row) -> bool:
    return max(left.arrived, right.arrived) < min(left.departed, right.departed)


def scan_met(scan: MdRecord, in_memory: Row, on_disk: Row) -> bool:
    """An md-task ran while one was in memory, and read the other from disk."""
    return (
        in_memory.arrived < scan.stamp < in_memory.departed
        and scan.departed[0] <= on_disk.departed <= scan.departed[1]
        and scan.codes[0] <= on_disk.hash <= scan.codes[1]
    )


def merge_met(merge: DdRecord, left: Row, right: Row) -> bool:
    """A dd-task merged the runs that hold them."""
    return (
        merge.left[0] <= left.departed <= merge.left[1]
        and merge.right[0] <= right.departed <= merge.right[1]
        and merge.codes[0] <= left.hash <= merge.codes[1]
    )


@dataclass(frozen=True)
class Past:
    scans: tuple[list[MdRecord], list[MdRecord]]
    merges: list[DdRecord]

    def met(self, left: Row, right: Row) -> bool:
        return (
            were_in_memory_together(left, right)
            or any(scan_met(scan, left, right) for scan in self.scans[Side.LEFT])
            or any(scan_met(scan, right, left) for scan in self.scans[Side.RIGHT])
            or any(merge_met(merge, left, right) for merge in self.merges)
        )

    def history(self) -> History:
        history = History()
        for side in Side:
            for scan in self.scans[side]:
                history.scanned(side, scan)
        for merge in self.merges:
            history.merged(merge)
        return history


STAMPS = st.integers(0, LAST_STAMP)
# Rows have a hash of their own kind of number; ranges may begin and end between them.
HASHES = st.sampled_from([0, 1, 5, 2**63, LAST_CODE])


def ranges(ends: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair)))


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Scans in order of their stamps; a scan reads only what had left before it."""
    scans: tuple[list[MdRecord], list[MdRecord]] = ([], [])
    for side in Side:
        for stamp in sorted(draw(st.lists(st.integers(1, LAST_STAMP), max_size=5))):
            departed = draw(ranges(st.integers(0, stamp - 1)))
            scans[side].append(MdRecord(stamp, departed, draw(ranges(HASHES))))
    merges = st.builds(DdRecord, ranges(STAMPS), ranges(STAMPS), ranges(HASHES))
    return Past(scans, draw(st.lists(merges, max_size=3)))


@st.composite
def rows(draw: st.DrawFn, *, resident: bool) -> list[Row]:
    def row() -> Row:
        arrived = draw(STAMPS)
        departed = draw(st.integers(arrived + 1, LAST_STAMP + 5))
        return Row(draw(HASHES), arrived, STILL_HERE if resident else departed)

    return [row() for _ in range(draw(st.integers(1, 6)))]


@settings(max_examples=150)
@given(data=st.data())
@pytest.mark.parametrize("resident", [None, Side.LEFT, Side.RIGHT], ids=str)
def test_pairs_that_have_met_are_dropped_and_no_others(
    resident: Side | None, data: st.DataObject
) -> None:
    left = data.draw(rows(resident=resident is Side.LEFT))
    right = data.draw(rows(resident=resident is Side.RIGHT))
    past = data.draw(pasts())
    pairs = [
        (i, j) for i in range(len(left)) for j in range(len(right)) if left[i].hash == right[j].hash
    ]
    chosen = np.array([i for i, _ in pairs], np.int64), np.array([j for _, j in pairs], np.int64)

    ats = [np.array([row.arrived for row in side]) for side in (left, right)]
    dts = [np.array([row.departed for row in side]) for side in (left, right)]
    if resident is not None:
        dts[resident] = ats[resident]  # as the md-task does: they must not be looked at
    hashed = right if resident is Side.LEFT else left
    kept = matching.drop_met(
        np.array([row.hash for row in hashed], np.uint64), ats[0], dts[0], ats[1], dts[1],
        matching.NEITHER if resident is None else 1 + resident,
        *past.history().arrays(), *chosen, len(pairs),
    )  # fmt: skip
    assert list(zip(chosen[0][:kept].tolist(), chosen[1][:kept].tolist(), strict=True)) == [
        (i, j) for i, j in pairs if not past.met(left[i], right[j])
    ]


@given(past=pasts())
def test_a_history_is_the_same_after_it_was_saved(past: Past) -> None:
    history = past.history()
    again = History.load(history.save())
    for one, other in zip(history.arrays(), again.arrays(), strict=True):
        assert one.tolist() == other.tolist()


def test_pairs_beyond_the_count_are_not_looked_at() -> None:
    one, rows_l, rows_r = np.array([1]), np.array([0, 99]), np.array([0, 99])
    stamps = one, np.array([2]), np.array([3]), np.array([4])
    kept = matching.drop_met(
        np.array([5], np.uint64), *stamps, matching.NEITHER, *History().arrays(), rows_l, rows_r, 1
    )
    assert kept == 1
    assert rows_l.tolist() == rows_r.tolist() == [0, 99]


@pytest.mark.parametrize("partitions", [1, 3, 32, 1000])
def test_partitions_are_counted_as_they_are_named(partitions: int) -> None:
    codes = hash_codes(np.arange(5000, dtype=np.uint64))
    codes[:2] = 0, LAST_CODE
    counts = np.ones(partitions, np.int64)
    matching.count_partitions(codes, counts)
    named = np.bincount(partition_of(codes, partitions), minlength=partitions)
    assert (counts - 1).tolist() == named.tolist()


@given(
    codes=st.lists(st.integers(0, LAST_CODE), max_size=40),
    wanted=st.lists(st.integers(0, 6), min_size=4, max_size=4),
)
def test_rows_are_grouped_by_partition_oldest_first(codes: list[int], wanted: list[int]) -> None:
    nodes = np.zeros((len(codes) + 3, 2), np.uint64)  # rows after `count` are not there
    nodes[: len(codes), 0] = codes
    partitions = partition_of(np.array(codes, np.uint64), len(wanted)).tolist()
    own = [[row for row, p in enumerate(partitions) if p == q] for q in range(len(wanted))]
    taken = [rows[:most] for rows, most in zip(own, wanted, strict=True)]
    places = np.cumsum([len(rows) for rows in taken])
    cursor = places - [len(rows) for rows in taken]
    grouped = np.full(int(places[-1]), -1, np.int32)
    matching.group_rows(nodes, len(codes), places, cursor, grouped)
    assert grouped.tolist() == [row for rows in taken for row in rows]
    assert cursor.tolist() == places.tolist()


@given(stamps=st.lists(st.integers(0, 63), max_size=30), more=st.lists(st.integers(0, 63)))
def test_bits_are_set_once_and_told_once(stamps: list[int], more: list[int]) -> None:
    bits = np.zeros(8, np.uint8)
    matching.mark(bits, 0, np.array(stamps, np.int64))
    assert {n for n in range(64) if bits[n // 8] >> (n % 8) & 1} == set(stamps)
    fresh = np.empty(len(more), np.bool_)
    matching.unmarked(bits, 0, np.array(more, np.int64), fresh)
    assert fresh.tolist() == [stamp not in stamps for stamp in more]
    matching.mark_new(bits, 0, np.array(more, np.int64), fresh)
    assert fresh.tolist() == [s not in stamps and s not in more[:n] for n, s in enumerate(more)]
    assert {n for n in range(64) if bits[n // 8] >> (n % 8) & 1} == set(stamps) | set(more)
