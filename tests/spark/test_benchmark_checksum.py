"""The checksum that benchmarks on Spark trust: added up by Spark, foretold from the files alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.relations import (
    Relations,
    Table,
    beginning,
    close,
    expected,
    expected_close,
    expected_overlaps,
    stretched,
    uniform,
)
from benchmarks.spark_checksum import added_up

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def relations(tmp_path_factory: pytest.TempPathFactory) -> Relations:
    """Columns of TPC-H's types; keys that have other names, several partners, or none."""
    folder = tmp_path_factory.mktemp("relations")
    tables = []
    for name, keys in (("l", 40), ("r", 60)):
        (folder / name).mkdir()
        numbers = range(300)
        table = pa.table(
            {
                f"{name}_key": [number * 7 % keys for number in numbers],
                f"{name}_price": pa.array(
                    [Decimal(number * 1_234_567) / 100 for number in numbers], pa.decimal128(15, 2)
                ),
                f"{name}_date": [date(1992, 1, 1) + timedelta(number) for number in numbers],
            }
        )
        # Row groups that do not end where a batch of the reader does.
        pq.write_table(table, folder / name / "0.parquet", row_group_size=70)
        tables.append(Table(folder=str(folder / name), columns=tuple(table.column_names)))
    return Relations(left=tables[0], right=tables[1])


@pytest.fixture
def joined(spark: SparkSession, relations: Relations) -> DataFrame:
    left, right = (spark.read.parquet(table.folder) for table in (relations.left, relations.right))
    return left.join(right, left["l_key"] == right["r_key"])


def test_a_true_join_adds_up(joined: DataFrame, relations: Relations) -> None:
    assert added_up(joined, relations) == expected(relations)
    assert added_up(joined.drop("r_key"), relations) == expected(relations)


def test_a_true_join_of_whole_numbers_and_doubles_adds_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    relations = uniform(tmp_path, rows=1_000, files=4)
    part = beginning(relations, tmp_path / "part", files=2)
    for given in (relations, part):
        left, right = (spark.read.parquet(table.folder) for table in (given.left, given.right))
        assert added_up(left.join(right, "key"), given) == expected(given)
    assert expected(relations)[0] == 1_000
    assert 0 < expected(part)[0] < 500


_FIRST = "l_date = date'1992-01-01' and r_date = date'1992-01-01'"
WRONG: dict[str, Callable[[DataFrame], DataFrame]] = {
    "lost": lambda rows: rows.where(f"not ({_FIRST})"),
    "doubled": lambda rows: rows.unionByName(rows.where(_FIRST)),
    "altered price": lambda rows: rows.withColumn(
        "r_price", sf.expr(f"if({_FIRST}, cast(0.01 as decimal(15, 2)), r_price)")
    ),
    "altered date": lambda rows: rows.withColumn(
        "l_date", sf.expr(f"if({_FIRST}, date'1991-12-31', l_date)")
    ),
    "altered key": lambda rows: rows.withColumn("l_key", sf.expr(f"if({_FIRST}, 1, l_key)")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_one_wrong_row_is_noticed(joined: DataFrame, relations: Relations, wrong: str) -> None:
    assert joined.where(_FIRST).count() == 1
    assert added_up(WRONG[wrong](joined), relations) != expected(relations)


@pytest.mark.parametrize("keys", [0, 20])
def test_a_true_join_of_close_values_adds_up(
    keys: int, spark: SparkSession, tmp_path: Path
) -> None:
    relations = close(tmp_path, rows=400, files=2, width=3, keys=keys)
    left, right = (spark.read.parquet(table.folder) for table in (relations.left, relations.right))
    near = (left["left_time"] - right["right_time"]).between(-3, 3)
    joined = left.join(right, (left["key"] == right["key"]) & near if keys else near)
    if keys:
        joined = joined.drop(right["key"])
    assert added_up(joined, relations) == expected_close(relations, width=3)
    assert expected_close(relations, width=2) != expected_close(relations, width=3)


@pytest.mark.parametrize("points", [True, False])
def test_a_true_join_of_intervals_adds_up(
    points: bool, spark: SparkSession, tmp_path: Path
) -> None:
    relations = stretched(tmp_path, rows=300, files=2, decades=3)
    left, right = (spark.read.parquet(table.folder) for table in (relations.left, relations.right))
    last = left["left_start" if points else "left_end"]
    joined = left.join(
        right, (left["left_start"] <= right["right_end"]) & (right["right_start"] <= last)
    )
    assert added_up(joined, relations) == expected_overlaps(relations, points=points)
    assert expected_overlaps(relations, points=points)[0] > 300
