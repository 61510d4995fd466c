"""Random joins of all types of Arrow: ours gives what DuckDB gives, whatever the pieces."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import watersmeet as wm
from tests.suites.answers import by_duckdb, by_operator
from tests.suites.drawn import draw
from watersmeet.operators.family import ALGORITHMS
from watersmeet.testing.oracle import assert_same, counted

FEW, MANY = range(100), range(100, 2_000)


def check(seed: int, directory: Path) -> None:
    drawn = draw(seed)
    example = drawn.example
    expected = by_duckdb(example, drawn.how)
    algorithm = random.Random(seed).choice(list(ALGORITHMS))
    run = wm.local.join(
        drawn.batches(0),
        drawn.batches(1),
        on=example.on,
        how=drawn.how,
        algorithm=algorithm,
        memory=drawn.memory,
        spill_dir=directory,
    )
    batches = list(run)
    for batch in batches:
        batch.validate(full=True)
    try:
        assert_same(counted(batches), expected)
        assert_same(by_operator(example, drawn.how, algorithm, directory), expected)
    except AssertionError as error:
        error.add_note(f"seed {seed}: {drawn.how} join by {algorithm}, {drawn.memory}")
        error.add_note(f"{example.left.schema}\n\n{example.right.schema}")
        raise


# Not a parameter each: so many names would fill the report.
@pytest.mark.parametrize(
    "tenth", [*range(5), *(pytest.param(n, marks=pytest.mark.slow) for n in range(5, 10))]
)
def test_some_joins(tenth: int, tmp_path: Path) -> None:
    for seed in FEW[tenth::10]:
        check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(19))
def test_many_joins(part: int, tmp_path: Path) -> None:
    for seed in MANY[part::19]:
        check(seed, tmp_path)
