"""Random questions over tables of every type: the exact answer against Spark's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.aggregate_questions import COLUMNS, SAME, Question, Tables, compared

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Tables]:
    folder = tmp_path_factory.mktemp("written")
    return [Tables.written(spark, folder, seed=seed) for seed in range(3)]


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 24))]
)
def test_a_random_question(tables: list[Tables], seed: int) -> None:
    compared(Question.random(tables[seed % len(tables)], seed=seed), tables[seed % len(tables)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_random_questions(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    tables = Tables.written(spark, tmp_path, seed=1_000 + seed)
    fates = Counter(
        compared(Question.random(tables, seed=10_000 * seed + number), tables)
        for number in range(25)
    )
    assert fates[SAME] >= 8, fates


@pytest.mark.slow
def test_every_type_is_grouped_by(spark: SparkSession, tmp_path: Path) -> None:
    seen: set[str] = set()
    for seed in range(10):
        tables = Tables.written(spark, tmp_path, seed=seed)
        for column in tables.columns[seed % 2]:
            question = Question.random(tables, seed=seed)
            how = "left" if seed % 3 else "inner"
            asked = Question(how, (column,), None, {"n": question.aggregates["n"]})
            assert compared(asked, tables) == SAME
            seen.add(column[2:])
    assert seen == set(COLUMNS)
