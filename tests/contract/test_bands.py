"""The joins that take bands, on made-up arrivals: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings

from tests.contract.test_every_operator import COSTS, FEW_ROWS
from tests.crossing import crossed
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import MECHANISMS
from watersmeet.operators.tuning import Tuning
from watersmeet.testing.contract import check_predicates, forced_cases
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Case, End, Push, Save, Stall, play
from watersmeet.testing.strategies import published_joins

NAMES = [
    name
    for mechanism in MECHANISMS
    if mechanism.takes_bands and mechanism.takes_pairs and mechanism.for_users
    for name in mechanism.algorithms
]
BANDED = ["band", "open band", "equal and band"]
# Promises say nothing in a band.
PROMISES = {"keys come, are promised away and go", "keys go, flush on every push"}
MODES = [mode for mode in forced_cases(JoinType.INNER) if mode not in PROMISES]
# Forty saves take five seconds.
LONG = "saves that add up"


def at_the_borders(value: int) -> int:
    """Values whose differences are those at which the bands of the contract end, and one more."""
    return (0, -1, 2, -3, 3, 4, 1)[value % 7]


VALUES: dict[str, Callable[[int], int]] = {
    "many in the band": lambda value: value % 4,
    "few in the band": lambda value: 5 * value,
    "all equal": lambda value: 7,
    "at the borders": at_the_borders,
    "rising, with both signs": lambda value: 2**62 * (-1) ** (value % 2) + value,
}


def with_values(case: Case, values: str, predicates: str) -> Case:
    """The same schedule with other values, and with a band."""
    steps, count = [], 0
    for step in case.steps:
        if isinstance(step, Push):
            keys = []
            for key in step.keys:
                keys.append(None if key is None else VALUES[values](key + count % 3))
                count += 1
            step = Push(step.side, tuple(keys))
        steps.append(step)
    return replace(case, steps=tuple(steps), predicates=predicates)


def check_band_mode(name: str, mode: str, predicates: str, values: str) -> None:
    """One forced mode, with blocks of a row and with memory in bytes."""
    # A full join does all that inner, left and right joins do.
    how = (JoinType.FULL, JoinType.SEMI, JoinType.ANTI)[list(VALUES).index(values) % 3]
    case = with_values(forced_cases(how)[mode], values, predicates)
    play(PublishedJoin(name, FEW_ROWS, block_bytes=1), case)
    # No marks then, which leave no room for rows.
    case = with_values(forced_cases(JoinType.INNER)[mode], values, predicates)
    play(PublishedJoin(name, Tuning(costs=COSTS), block_bytes=150), case)


def search() -> settings:
    return settings(max_examples=settings().max_examples // 3)


def test_these_joins_take_bands() -> None:
    assert NAMES == ["diner", "diner-plain", "pmj-sorted"]


@pytest.mark.parametrize("predicates", BANDED)
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_gives_the_join(name: str, predicates: str) -> None:
    check_predicates(published_joins(name), predicates, search=search())


@pytest.mark.parametrize("predicates", BANDED)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != LONG])
@pytest.mark.parametrize(
    "name",
    [name if name == "diner" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_every_forced_mode_gives_the_join(name: str, mode: str, predicates: str) -> None:
    """With other values in every mode; the slow test has all of them in each."""
    number = MODES.index(mode) + BANDED.index(predicates) + NAMES.index(name)
    check_band_mode(name, mode, predicates, list(VALUES)[number % len(VALUES)])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_every_forced_mode_gives_the_join_of_any_values(name: str, mode: str) -> None:
    for predicates in BANDED:
        for values in VALUES:
            check_band_mode(name, mode, predicates, values)


@pytest.mark.parametrize(("name", "predicates"), crossed(NAMES, BANDED))
def test_a_loop_that_was_saved_goes_on_with_other_settings(name: str, predicates: str) -> None:
    """Saved after any number of inner blocks, and then again."""
    pushes = [Push(side, tuple(range(start, start + 6))) for start in (0, 3, 6) for side in Side]
    other = replace(FEW_ROWS, flush_share=1.0)
    for polls in (1, 3, 8, 20):
        case = Case(
            (*pushes, Stall(polls), Save(), *pushes, Stall(polls), Save(), Stall(2),
             End(Side.LEFT), End(Side.RIGHT)),
            JoinType.FULL,
            predicates=predicates,
        )  # fmt: skip
        play(PublishedJoin(name, FEW_ROWS, block_bytes=1, tuning_after_restore=other), case)


@pytest.mark.slow
@pytest.mark.parametrize("predicates", BANDED)
@pytest.mark.parametrize("name", NAMES)
def test_many_more_schedules_give_the_join(name: str, predicates: str) -> None:
    check_predicates(published_joins(name), predicates, search=settings(max_examples=1000))
