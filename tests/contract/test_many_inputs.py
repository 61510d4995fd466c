"""The joins of many inputs, on made-up arrivals: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings

from tests.contract.test_every_operator import COSTS, FEW_ROWS
from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType
from watersmeet.operators.family import MANY_INPUTS
from watersmeet.operators.family import check_predicates as check_algorithm
from watersmeet.operators.tuning import Tuning
from watersmeet.testing.contract import check_predicates
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import (
    PREDICATES,
    Case,
    End,
    Push,
    Resize,
    Save,
    Settle,
    Stall,
    Step,
    Tidy,
    inputs_of,
    play,
)
from watersmeet.testing.strategies import published_joins

TREES = ["chain", "star", "snowflake", "chain of bands", "one attribute"]
STARS = ["one attribute"]


def trees_of(name: str) -> list[str]:
    return STARS if name == "mjoin" else TREES


def search() -> settings:
    return settings(max_examples=settings().max_examples // 3)


def turns(predicates: str, *between: Step, rounds: int = 4, rows: int = 5) -> list[Step]:
    """Pushes to all inputs in turns, with steps between the pushes."""
    steps = list[Step]()
    for turn in range(rounds):
        for input in range(inputs_of(predicates)):
            keys = tuple((turn * rows + n + input) % 6 for n in range(rows - input % 2))
            steps += [Push(input, keys), *between]
    return steps


def ended(predicates: str, steps: list[Step]) -> tuple[Step, ...]:
    return (*steps, *(End(input) for input in reversed(range(inputs_of(predicates)))))


SMALL = 16 * 2**10
MODES: dict[str, tuple[list[Step], int]] = {
    "all in memory": ([], 64 * 2**20),
    "flush on every push": ([], 0),
    "small memory": ([], SMALL),
    "short stalls": ([Stall(1)], 0),
    "longer stalls": ([Stall(7)], 0),
    "saved after every step": ([Stall(2), Save()], 0),
    "saves that add up": ([Save(restores=False)], SMALL),
    "settled now and then": ([Settle(3), Tidy(), Settle(10_000), Tidy(), Save()], 0),
    "memory shrinks and grows": (
        [Stall(2), Resize(2500), Stall(1), Resize(SMALL), Stall(1)],
        SMALL,
    ),
}

CELLS = [(name, tree) for name in MANY_INPUTS for tree in trees_of(name)]


def check_mode(name: str, tree: str, mode: str, *, rounds: int = 3) -> None:
    between, memory = MODES[mode]
    case = Case(ended(tree, turns(tree, *between, rounds=rounds)), memory=memory, predicates=tree)
    play(PublishedJoin(name, FEW_ROWS, block_bytes=1), case)
    play(PublishedJoin(name, Tuning(costs=COSTS), block_bytes=150), case)


def test_these_joins_take_many_inputs() -> None:
    assert list(MANY_INPUTS) == ["miner", "miner-plain", "mjoin"]
    assert all(tree in PREDICATES for tree in TREES)


# The others take as long, and have less that is their own.
FAST = [("miner", "snowflake"), ("miner-plain", "chain"), ("mjoin", STARS[0])]
SLOW = [pytest.param(*cell, marks=() if cell in FAST else pytest.mark.slow) for cell in CELLS]


@pytest.mark.parametrize("name", MANY_INPUTS)
def test_other_joins_than_inner_ones_are_refused(name: str) -> None:
    case = Case((), JoinType.LEFT, predicates="equal")
    with pytest.raises(InvalidArgument, match="has inner joins only"):
        check_algorithm(name, case.schema())


@pytest.mark.parametrize(("name", "tree"), SLOW)
def test_every_schedule_gives_the_join(name: str, tree: str) -> None:
    check_predicates(published_joins(name), tree, search=search())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name",
    [
        name if name == "miner" else pytest.param(name, marks=pytest.mark.slow)
        for name in MANY_INPUTS
    ],
)
def test_every_forced_mode_gives_the_join(name: str, mode: str) -> None:
    """With another tree in every mode; the slow test has all of them in each."""
    trees = trees_of(name)
    check_mode(name, trees[list(MODES).index(mode) % len(trees)], mode, rounds=2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "tree"), CELLS)
def test_every_forced_mode_gives_the_join_of_any_tree(name: str, tree: str, mode: str) -> None:
    check_mode(name, tree, mode)


@pytest.mark.parametrize(("name", "tree"), CELLS)
def test_one_input_after_the_other(name: str, tree: str) -> None:
    """Each input ends before the next begins, the smallest memory."""
    steps = list[Step]()
    for input in range(inputs_of(tree)):
        steps += [Push(input, (0, 1, 2, 3)), Stall(1), Push(input, (3, 4, 0)), End(input)]
    play(PublishedJoin(name, FEW_ROWS, block_bytes=1), Case(tuple(steps), predicates=tree))
    play(
        PublishedJoin(name, FEW_ROWS, block_bytes=1), Case(tuple(steps), predicates=tree, memory=0)
    )


@pytest.mark.parametrize("name", ["miner", "miner-plain"])
def test_a_loop_that_was_saved_goes_on_with_other_settings(name: str) -> None:
    """Saved after any number of inner blocks, and then again."""
    other = replace(FEW_ROWS, flush_share=1.0)
    for polls in (1, 3, 8, 20):
        once = [*turns("chain", rounds=2), Stall(polls), Save()]
        case = Case(ended("chain", [*once, *once, Stall(2)]), predicates="chain")
        play(PublishedJoin(name, FEW_ROWS, block_bytes=1, tuning_after_restore=other), case)
