"""Progressive sort-merge join: RPJ's Figures 2 and 6, and keys too frequent for one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operators.spilled import ROWS, Row, numbers, pairs, spilled
from watersmeet.model import Side
from watersmeet.operators.progressive.disk import DiskPartition
from watersmeet.operators.progressive.history import History
from watersmeet.operators.progressive.merging import Merging
from watersmeet.operators.progressive.tasks import DdTask
from watersmeet.store.index import PairBuffer
from watersmeet.store.runs import SpilledRun
from watersmeet.store.spill import SpillArea

L, R = Side


@pytest.fixture
def area(tmp_path: Path) -> Iterator[SpillArea]:
    area = SpillArea(tmp_path)
    yield area
    area.close()


def merging(
    runs: tuple[list[SpilledRun], list[SpilledRun]],
    area: SpillArea,
    *,
    history: History | None = None,
    position: int = 0,
    substeps: int = 0,
) -> Merging:
    return Merging(
        runs,
        (ROWS, ROWS),
        history=history or History(),
        pairs=PairBuffer(3),
        ahead=2,
        position=position,
        substeps=substeps,
        output=(area, 2),
    )


def finished(merge: Merging) -> Iterator[tuple[int, int]]:
    while not merge.done:
        yield from pairs(merge.step())


# ---- Figure 2 -----------------------------------------------------------------------------------

# What the text says of the figure. Pages d1, d3 and d5, d6 begin the first two runs of R1 and R2.
# The smallest A_join is 1, of tuples 1 and 12, which are reported; then 3, of tuples 2 and 10,
# which are of first runs both and are not; then tuple 13 alone, with which d6 is used up. In the
# end {(1, 12), (6, 11)} have been reported. (It prints (1, 10), which it has just ruled out.)
FIRST_RUNS: tuple[list[Row], list[Row]] = ([(1, 1), (2, 3), (3, 9)], [(10, 3), (11, 6)])
SECOND_RUNS: tuple[list[Row], list[Row]] = ([(5, 5), (6, 6), (7, 8)], [(12, 1), (13, 4), (14, 8)])
THIRD_RUNS: tuple[list[Row], list[Row]] = ([(8, 3), (9, 7)], [(15, 7), (16, 9)])


def figure_2(area: SpillArea) -> DiskPartition:
    """Three runs a side, the k-th of either side flushed together at 10 * k."""
    disk = DiskPartition()
    for k, runs in enumerate((FIRST_RUNS, SECOND_RUNS, THIRD_RUNS), start=1):
        for side in Side:
            stay = (10 * k - 9 + side, 10 * k)
            disk.runs[side].append(spilled(area, runs[side], stay=stay))
    return disk


def test_the_first_merge_of_figure_2_reports_two_pairs(area: SpillArea) -> None:
    disk = figure_2(area)
    merge = merging((disk.runs[L][:2], disk.runs[R][:2]), area)
    assert list(finished(merge)) == [(1, 12), (6, 11)]
    left, right = merge.finish()
    assert left is not None
    assert right is not None
    assert numbers(left) == [1, 2, 5, 6, 7, 3]
    assert numbers(right) == [12, 10, 13, 11, 14]
    assert left.departed == right.departed == (10, 20)


def test_the_second_pass_of_figure_2_reports_what_is_left_and_nothing_twice(
    area: SpillArea,
) -> None:
    disk = figure_2(area)
    task = dd_task(disk, area)
    found = list(all_steps(task))
    # Third runs meet the others now: 8 equals 10, 3 equals 16. Tuples 9 and 15 of third runs
    # and 7 and 14 of second runs met in memory.
    assert found[:2] == [(1, 12), (6, 11)]
    assert sorted(found[2:]) == [(3, 16), (8, 10)]
    assert [len(runs) for runs in disk.runs] == [1, 1]
    assert list(all_steps(dd_task(disk, area))) == []


# ---- Figure 6: runs of unequal number -----------------------------------------------------------


def dd_task(disk: DiskPartition, area: SpillArea, *, fan_in: int = 2) -> DdTask:
    return DdTask(disk, (ROWS, ROWS), fan_in=fan_in, pairs=PairBuffer(5), area=area, block_rows=2)


def all_steps(task: DdTask) -> Iterator[tuple[int, int]]:
    while not task.done:
        yield from pairs(task.step(1000))


def one_row_runs(disk: DiskPartition, area: SpillArea, side: Side, names: list[int]) -> None:
    """Runs of a row each, all of one key, that were never in memory together with another."""
    for name in names:
        stay = (10 * name + side, 10 * name + side + 2)
        disk.runs[side].append(spilled(area, [(name, 7)], stay=stay))


def test_figure_6_runs_match_by_the_operation_that_made_them(area: SpillArea) -> None:
    """Four runs and three, two of a side at a time; r1 of R1 is row 1, r1 of R2 is row 11 ..."""
    disk = DiskPartition()
    one_row_runs(disk, area, L, [1, 2, 3, 4])
    one_row_runs(disk, area, R, [11, 12, 13])
    task = dd_task(disk, area)
    found = list(all_steps(task))
    # First pass: r1, r2 with r1, r2, and then r3, r4 with r3. Second pass: what is left.
    assert set(found[:4]) == {(1, 11), (1, 12), (2, 11), (2, 12)}
    assert set(found[4:6]) == {(3, 13), (4, 13)}
    assert set(found[6:]) == {(1, 13), (2, 13), (3, 11), (3, 12), (4, 11), (4, 12)}
    assert len(found) == 12
    assert [len(runs) for runs in disk.runs] == [1, 1]


def test_figure_6d_a_second_dd_task_reports_what_its_new_runs_bring(area: SpillArea) -> None:
    disk = DiskPartition()
    one_row_runs(disk, area, L, [1, 2, 3, 4])
    one_row_runs(disk, area, R, [11, 12, 13])
    list(all_steps(dd_task(disk, area)))
    one_row_runs(disk, area, L, [21])
    one_row_runs(disk, area, R, [31, 32])
    found = Counter(all_steps(dd_task(disk, area)))
    every = Counter((i, j) for i in (1, 2, 3, 4, 21) for j in (11, 12, 13, 31, 32))
    old = Counter((i, j) for i in (1, 2, 3, 4) for j in (11, 12, 13))
    assert found == every - old


@pytest.mark.parametrize("fan_in", [2, 3, 4])
@pytest.mark.parametrize(("lefts", "rights"), [(1, 1), (1, 7), (6, 1), (5, 2), (7, 7), (0, 4)])
def test_any_numbers_of_runs_are_joined_once(
    lefts: int, rights: int, fan_in: int, area: SpillArea
) -> None:
    disk = DiskPartition()
    left, right = list(range(1, lefts + 1)), list(range(51, 51 + rights))
    one_row_runs(disk, area, L, left)
    one_row_runs(disk, area, R, right)
    found = Counter(all_steps(dd_task(disk, area, fan_in=fan_in)))
    assert found == Counter((i, j) for i in left for j in right)
    assert [len(runs) for runs in disk.runs] == [min(lefts, 1), 1]


def test_runs_flushed_while_a_dd_task_is_interrupted_are_left_for_the_next(
    area: SpillArea,
) -> None:
    disk = DiskPartition()
    one_row_runs(disk, area, L, [1, 2])
    one_row_runs(disk, area, R, [11])
    task = dd_task(disk, area)
    found = Counter(pairs(task.step(1000)))
    one_row_runs(disk, area, L, [21])
    found.update(all_steps(task))
    assert found == Counter([(1, 11), (2, 11)])
    assert [len(runs) for runs in disk.runs] == [2, 1]
    assert Counter(all_steps(dd_task(disk, area))) == Counter([(21, 11)])


# ---- a key too frequent for one step ------------------------------------------------------------


def frequent(area: SpillArea) -> tuple[list[SpilledRun], list[SpilledRun]]:
    """Two frequent keys one after the other, the first of them the smallest hash there is."""
    left = [(n, 0) for n in range(7)] + [(n, 5) for n in range(7, 12)]
    right = [(n, 0) for n in range(20, 25)] + [(n, 5) for n in range(25, 32)]
    return (
        [spilled(area, left, stay=(1, 2))],
        [spilled(area, right[:6], stay=(3, 4)), spilled(area, right[6:], stay=(5, 6))],
    )


EXPECTED = Counter((i, j) for i in range(7) for j in range(20, 25)) + Counter(
    (i, j) for i in range(7, 12) for j in range(25, 32)
)


def test_a_frequent_key_is_joined_block_by_block(area: SpillArea) -> None:
    merge = merging(frequent(area), area)
    most, found = 0, Counter[tuple[int, int]]()
    while not merge.done:
        step = list(pairs(merge.step()))
        most = max(most, len(step))
        found.update(step)
    merge.abandon()
    assert found == EXPECTED
    assert most <= 4  # blocks of two rows


@pytest.mark.parametrize("stop", range(0, 60, 3))
def test_a_merge_that_is_dropped_goes_on_from_its_two_numbers(stop: int, area: SpillArea) -> None:
    """Found as a bug: the first frequent key was begun anew, and so was one after another."""
    runs = frequent(area)
    first = merging(runs, area)
    found = Counter[tuple[int, int]]()
    for _ in range(stop):
        if not first.done:
            found.update(pairs(first.step()))
    first.abandon()
    # Twice, for a merge that was restored is saved again before it has caught up.
    second = merging(runs, area, position=first.position, substeps=first.substeps)
    found.update(pairs(second.step()))
    second.abandon()
    third = merging(runs, area, position=second.position, substeps=second.substeps)
    found.update(finished(third))
    assert found == EXPECTED
    merged = third.finish()[R]
    assert merged is not None
    assert sorted(numbers(merged)) == list(range(20, 32))
