"""Every published join, on made-up arrivals: nothing lost, nothing twice, nothing left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings

from watersmeet.model import JoinType
from watersmeet.operators.family import ALGORITHMS
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.testing.contract import check_schedules, forced_cases
from watersmeet.testing.family import FamilyMember
from watersmeet.testing.schedule import play
from watersmeet.testing.strategies import family_members

COSTS = Costs(random=0.01, sequential=0.001)

# Settings that take every path with few rows: a block is a row, a merge takes two runs a side.
IN_STEPS = Tuning(partitions=3, fan_in=2, chunk_rows=2, costs=COSTS, page_rows=1)
WHOLE_TASKS = Tuning(partitions=1, costs=COSTS, whole_tasks=True, memory_rows=4)

MODES = list(forced_cases(JoinType.INNER))


def search() -> settings:
    """A fifth of the profile's examples: there are sixty tests that search."""
    return settings(max_examples=settings().max_examples // 5)


@pytest.mark.parametrize("how", JoinType)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_schedule_gives_the_join(name: str, how: JoinType) -> None:
    check_schedules(family_members(name), how, search=search())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_forced_mode_gives_the_join(name: str, mode: str) -> None:
    # A full join does all that inner, left and right joins do.
    for how in (JoinType.FULL, JoinType.SEMI, JoinType.ANTI):
        play(FamilyMember(name, IN_STEPS, block_bytes=1), forced_cases(how)[mode])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_tasks_may_run_to_their_end(name: str, mode: str) -> None:
    play(FamilyMember(name, WHOLE_TASKS, block_bytes=200), forced_cases(JoinType.FULL)[mode])


def test_a_restored_join_may_be_tuned_differently() -> None:
    before = Tuning(partitions=2, fan_in=2, costs=COSTS, memory_rows=4)
    after = replace(before, fan_in=3)
    maker = FamilyMember("hmj", before, block_bytes=1, tuning_after_restore=after)
    play(maker, forced_cases(JoinType.FULL)["save after every step, one key"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_many_more_schedules_give_the_join(name: str) -> None:
    for how in JoinType:
        check_schedules(family_members(name), how, search=settings(max_examples=1000))
