"""Random streams with promises, true and false ones, in random schedules, against a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operators.promised_model import KINDS, Player
from watersmeet.model import JoinType

HOWS = [str(how) for how in JoinType]


@pytest.mark.parametrize("kind", KINDS)
def test_results_state_and_punctuations_are_those_of_the_model(kind: str, tmp_path: Path) -> None:
    for seed, how in enumerate(HOWS):
        Player(seed, kind, how, tmp_path / how).play(turns=12)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_those_of_many_more(kind: str, how: str, tmp_path: Path) -> None:
    for seed in range(1000, 1012):
        Player(seed, kind, how, tmp_path / str(seed)).play()
