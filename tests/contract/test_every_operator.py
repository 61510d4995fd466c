"""Every published join, on made-up arrivals: nothing lost, nothing twice, nothing left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings

from tests.crossing import crossed
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import ALGORITHMS
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.testing.contract import check_schedules, forced_cases
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Case, End, Push, Save, Stall, play
from watersmeet.testing.strategies import published_joins

COSTS = Costs(random=0.01, sequential=0.001)

# Settings that take every path with few rows: memory for six of them, merges of two runs a side.
FEW_ROWS = Tuning(
    partitions=2, fan_in=2, chunk_rows=2, flush_share=0.5, costs=COSTS, page_rows=1, memory_rows=6
)
MODES = list(forced_cases(JoinType.INNER))


def check_mode(name: str, mode: str) -> None:
    """One forced mode, with blocks of a row, with runs of a block, and with tasks that run on."""
    # A full join does all that inner, left and right joins do.
    for how in (JoinType.FULL, JoinType.SEMI, JoinType.ANTI):
        play(PublishedJoin(name, FEW_ROWS, block_bytes=1), forced_cases(how)[mode])
    one_block = PublishedJoin(name, replace(FEW_ROWS, partitions=1, fan_in=None))
    play(one_block, forced_cases(JoinType.FULL)[mode])
    # Memory in bytes, and no marks in it that leave no room for rows.
    whole_tasks = PublishedJoin(name, Tuning(partitions=3, costs=COSTS, whole_tasks=True))
    play(whole_tasks, forced_cases(JoinType.INNER)[mode])


def check_restored_with_other_tuning(name: str) -> None:
    """A join saved in the middle of a task goes on with another fan-in."""
    pushes = [Push(side, (7,) * 6) for _ in range(4) for side in Side]
    two, three = (replace(FEW_ROWS, fan_in=fan_in, partitions=1) for fan_in in (2, 3))
    for polls in (3, 10, 18, 27):
        case = Case((*pushes, Stall(polls), Save(), End(Side.LEFT), End(Side.RIGHT)))
        play(PublishedJoin(name, two, block_bytes=1, tuning_after_restore=three), case)
        play(PublishedJoin(name, three, block_bytes=1, tuning_after_restore=two), case)


def search() -> settings:
    """A fifth of the profile's examples: there are sixty tests that search."""
    return settings(max_examples=settings().max_examples // 5)


@pytest.mark.parametrize(("name", "how"), crossed(ALGORITHMS, JoinType, times=2))
def test_every_schedule_gives_the_join(name: str, how: JoinType) -> None:
    check_schedules(published_joins(name), how, search=search())


# These differ from another algorithm of their mechanism in what they decide, and in nothing else:
# random schedules are played with all, forced modes with the other one.
VARIANTS = (
    "rpj-md", "rpj-dd", "hmj-all", "hmj-smallest", "hmj-largest", "sms", "dbo", "diner-plain",
    "pmj-sorted",
)  # fmt: skip
# Forty saves take five seconds; one algorithm of each mechanism stands for the others.
LONG, STANDS_FOR_OTHERS = "saves that add up", ("rpj", "pr-join", "diner")


SHORT = [mode for mode in MODES if mode != LONG]
OTHERS = [name for name in ALGORITHMS if name not in VARIANTS]
SLOW = [(name, LONG) for name in OTHERS if name not in STANDS_FOR_OTHERS]
SLOW += [(name, mode) for name in VARIANTS for mode in MODES]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        # Each mode with three algorithms, each algorithm with a quarter of the modes or more.
        *crossed(OTHERS, SHORT, times=3),
        *((name, LONG) for name in STANDS_FOR_OTHERS),
        *(pytest.param(*cell, marks=pytest.mark.slow) for cell in SLOW),
    ],
)
def test_every_forced_mode_gives_the_join(name: str, mode: str) -> None:
    check_mode(name, mode)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in VARIANTS else ()) for n in ALGORITHMS],
)
def test_a_restored_join_may_be_tuned_differently(name: str) -> None:
    check_restored_with_other_tuning(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_many_more_schedules_give_the_join(name: str) -> None:
    for how in JoinType:
        check_schedules(published_joins(name), how, search=settings(max_examples=1000))
