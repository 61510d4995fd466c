"""Other projects' join tests: ours gives what DuckDB gives, in memory and by way of disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import watersmeet as wm
from tests.suites.answers import by_duckdb, by_operator
from tests.suites.examples import EXAMPLES, Example
from watersmeet.model import JoinType
from watersmeet.operators.family import ALGORITHMS
from watersmeet.testing.oracle import assert_same, counted

# One of each mechanism; with all the others it takes several times as long.
FIRST = ("rpj", "pr-join")


HOWS = list(JoinType)


@pytest.mark.parametrize(
    ("example", "hows"),
    [
        *(pytest.param(each, HOWS[n % 3 :: 3], id=str(each)) for n, each in enumerate(EXAMPLES)),
        *(
            pytest.param(each, HOWS, id=f"{each}, all types", marks=pytest.mark.slow)
            for each in EXAMPLES
        ),
    ],
)
def test_as_a_user_asks_it(example: Example, hows: list[JoinType]) -> None:
    for how in hows:
        run = wm.local.join(
            example.left, example.right, on=example.on, how=how, condition=example.condition
        )
        assert_same(counted(run), by_duckdb(example, how))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_in_next_to_no_memory(example: Example, tmp_path: Path) -> None:
    _check(example, FIRST, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_with_every_algorithm(example: Example, tmp_path: Path) -> None:
    _check(example, tuple(name for name in ALGORITHMS if name not in FIRST), tmp_path)


def _check(example: Example, algorithms: tuple[str, ...], directory: Path) -> None:
    for how in JoinType:
        expected = by_duckdb(example, how)
        for algorithm in algorithms:
            assert_same(by_operator(example, how, algorithm, directory), expected)
