"""Every join with a master table, on made-up arrivals and versions: nothing lost, nothing twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.contract.enriching import HOWS, Enrichment, play
from tests.contract.enriching_schedules import enrichments, mixture
from watersmeet.model import JoinType
from watersmeet.operators.family import ENRICHING


def check(name: str, how: JoinType, examples: int) -> None:
    @settings(max_examples=examples)
    @given(case=enrichments((name,), (how,)))
    def every_schedule_gives_the_join(case: Enrichment) -> None:
        play(case)

    every_schedule_gives_the_join()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ENRICHING)
def test_every_schedule_gives_the_join(name: str, how: JoinType) -> None:
    check(name, how, settings().max_examples // 10)


def is_slow(name: str, seed: int) -> bool:
    return seed > (name == "skipping")


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=pytest.mark.slow if is_slow(name, seed) else ())
        for name in ENRICHING
        for seed in range(40)
    ],
)
def test_a_long_schedule_gives_the_join(name: str, seed: int) -> None:
    play(mixture(name, HOWS[seed % 4], seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ENRICHING)
def test_many_more_schedules_give_the_join(name: str) -> None:
    for how in HOWS:
        check(name, how, 300)
