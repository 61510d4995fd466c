"""What to join from disk while the inputs are silent, on small arrays."""

from __future__ import annotations

import numpy as np

from watersmeet.model import Side
from watersmeet.policies import react
from watersmeet.policies.react import Owed, Task, TaskKind

L, R = Side
NOTHING = [[0.0, 0.0], [0.0, 0.0]]


def owed(
    md: list[list[float]] | None = None,
    dd: list[float] | None = None,
    *,
    md_seconds: list[list[float]] | None = None,
    dd_seconds: list[float] | None = None,
    resident: list[list[int]] | None = None,
) -> Owed:
    return Owed(
        md_results=np.array(md or NOTHING),
        md_seconds=np.array(md_seconds or [[1.0, 1.0], [1.0, 1.0]]),
        dd_results=np.array(dd or [0.0, 0.0]),
        dd_seconds=np.array(dd_seconds or [1.0, 1.0]),
        resident=np.array(resident or [[1, 1], [1, 1]]),
    )


def test_rpj_takes_the_task_with_the_best_rate_and_not_the_most_results() -> None:
    many_but_slow = owed([[3.0, 9.0], [0, 0]], [100.0, 0], dd_seconds=[50.0, 1.0])
    assert react.best_rate(many_but_slow) == Task(TaskKind.MD, 1, L)
    quick = owed([[3.0, 9.0], [0, 0]], [100.0, 0], dd_seconds=[5.0, 1.0])
    assert react.best_rate(quick) == Task(TaskKind.DD, 0)


def test_rpj_md_and_rpj_dd_look_at_their_own_tasks_only() -> None:
    both = owed([[0, 0], [0, 2.0]], [100.0, 300.0])
    assert react.best_md(both) == Task(TaskKind.MD, 1, R)
    assert react.best_dd(both) == Task(TaskKind.DD, 1)
    assert react.best_md(owed(dd=[5.0, 5.0])) is None
    assert react.best_dd(owed([[5.0, 5.0], [5.0, 5.0]])) is None


def test_rpj_takes_what_there_is_when_only_one_kind_of_task_is_owed() -> None:
    assert react.best_rate(owed([[0, 1.0], [0, 0]])) == Task(TaskKind.MD, 1, L)
    assert react.best_rate(owed(dd=[0, 1.0])) == Task(TaskKind.DD, 1)
    assert react.best_rate(owed()) is None


def test_xjoin_takes_the_largest_memory_partition_that_has_something_to_report() -> None:
    work = owed([[0.0, 1.0], [1.0, 1.0]], resident=[[99, 3], [7, 5]])
    assert react.largest_resident(work) == Task(TaskKind.MD, 0, R)
    assert react.largest_resident(owed(dd=[9.0, 9.0])) is None


def test_hmj_goes_over_the_partitions_in_turn() -> None:
    assert react.every_partition(owed(dd=[0.0, 0.5])) == Task(TaskKind.DD, 1)
    assert react.every_partition(owed(dd=[0.1, 99.0])) == Task(TaskKind.DD, 0)
    assert react.every_partition(owed([[9.0, 9.0], [9.0, 9.0]])) is None


def test_a_task_that_takes_no_time_has_a_rate_all_the_same() -> None:
    free = owed([[1.0, 2.0], [0, 0]], md_seconds=[[0.0, 0.0], [0.0, 0.0]])
    assert react.best_md(free) == Task(TaskKind.MD, 1, L)
