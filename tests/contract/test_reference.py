"""The reference join under the contract: two inputs as all others, then bands and more inputs."""

from __future__ import annotations

import pytest
from hypothesis import settings

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType
from watersmeet.operators.family import ALGORITHMS, check_predicates
from watersmeet.operators.tuning import Tuning
from watersmeet.testing import contract
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import PREDICATES, Case, play
from watersmeet.testing.strategies import published_joins

NAME = "nested-loop"


def search() -> settings:
    return settings(max_examples=settings().max_examples // 2)


@pytest.mark.parametrize("how", JoinType)
def test_every_schedule_gives_the_join(how: JoinType) -> None:
    contract.check_schedules(published_joins(NAME), how, search=search())


@pytest.mark.parametrize("mode", contract.forced_cases(JoinType.INNER))
def test_every_forced_mode_gives_the_join(mode: str) -> None:
    for how in JoinType:
        play(PublishedJoin(NAME, Tuning(chunk_rows=3)), contract.forced_cases(how)[mode])


@pytest.mark.parametrize("predicates", [name for name in PREDICATES if name != "equal"])
def test_every_schedule_gives_the_join_on(predicates: str) -> None:
    contract.check_predicates(published_joins(NAME), predicates, search=search())


def test_it_is_not_offered_and_can_be_named() -> None:
    assert NAME not in ALGORITHMS
    check_predicates(NAME, Case((), predicates="star").schema())


@pytest.mark.parametrize(
    ("predicates", "words"), [("band", "a band of values"), ("star", "4 inputs")]
)
@pytest.mark.parametrize("name", ["rpj", "pr-join"])
def test_other_joins_refuse_what_they_cannot_do(name: str, predicates: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=f"not {words}"):
        check_predicates(name, Case((), predicates=predicates).schema())
