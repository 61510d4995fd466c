"""Joins and aggregates over unions of Parquet files: on the file path, with Spark's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.aggregates.oracle import assert_same, by_group
from tests.spark.sql_types import texts
from watersmeet.errors import InputChanged
from watersmeet.spark.aggregates.aggregate import SparkAggregate
from watersmeet.spark.tables.run import JoinRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

YEARS = (2022, 2023, 2024)
ROWS = 1_200


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for each year, the last with a wider key; one that is clustered on its key; one
    whose days are in its paths."""
    made = tmp_path_factory.mktemp("years")
    for number, year in enumerate(YEARS):
        key = "bigint" if year == 2024 else "int"
        first = number * ROWS
        spark.range(first, first + ROWS, 1, 8).selectExpr(
            f"CAST(id * 7 % 400 AS {key}) AS k", "id", "id % 31 / 4 AS v", "id % 5 AS g"
        ).write.parquet(str(made / str(year)))
    spark.range(0, 900, 1, 6).selectExpr(
        "id % 450 AS k", "id AS other", "id / 8 AS w"
    ).write.parquet(str(made / "other"))
    spark.range(0, 60, 1, 1).selectExpr("id % 9 AS k", "id AS n").write.partitionBy("k").parquet(
        str(made / "paths")
    )
    return made


@pytest.fixture
def years(spark: SparkSession, folder: Path) -> DataFrame:
    """What came in all years: the year is a constant of each branch, and keys become as wide as
    the widest."""
    first, *others = (
        spark.read.parquet(str(folder / str(year))).withColumn("year", sf.lit(year))
        for year in YEARS
    )
    for other in others:
        first = first.unionByName(other)
    return first.where("id % 10 <> 3")


@pytest.fixture
def other(spark: SparkSession, folder: Path) -> DataFrame:
    """Keys that are in paths of one branch and in the files of another."""
    paths = spark.read.parquet(str(folder / "paths"))
    files = spark.read.parquet(str(folder / "other"))
    return files.union(paths.selectExpr("CAST(k AS bigint)", "n + 5000", "0.5D"))


def told(run: JoinRun) -> str:
    return " ".join(run.explain().split())


@pytest.mark.usefixtures("in_waves")
@pytest.mark.parametrize(
    "how",
    ["inner", *(pytest.param(how, marks=pytest.mark.slow) for how in ("left", "full", "anti"))],
)
def test_unions_are_joined_in_waves(years: DataFrame, other: DataFrame, how: str) -> None:
    with wm.join(years, other, "k", how, instances=2) as run:
        progress = [wave.progress for wave in run]
        assert len(progress) == 4
        assert progress[0].rows_read[0] < progress[-1].rows_read[0] == len(YEARS) * ROWS
        assert texts(run.to_df()) == texts(
            years.join(other, "k", f"left_{how}" if how == "anti" else how)
        )
        assert "left file path: a union of 3 branches, 24 Parquet files" in told(run)
        assert "right file path: a union of 2 branches, " in told(run)


@pytest.mark.usefixtures("small")
def test_small_unions_are_joined_by_the_driver(years: DataFrame, other: DataFrame) -> None:
    few = years.where("year = 2023 OR k % 50 = 1").select("k", "year", "id")
    with wm.join(few, other, "k", "full") as run:
        assert texts(run.to_df()) == texts(few.join(other, "k", "full"))
        assert "in the driver's process" in told(run)
        assert "row path" not in told(run)


@pytest.mark.usefixtures("in_waves")
def test_unions_that_are_clustered_are_read_in_the_order_of_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(2):
        rows = spark.range(number * 2_000, (number + 1) * 2_000, 1, 10)
        key = ["CAST(id AS int) AS k", "id AS k"][number]
        rows.selectExpr(key, "id + 1 AS v").write.parquet(str(tmp_path / str(number)))
    first, second = (spark.read.parquet(str(tmp_path / str(number))) for number in range(2))
    left, right = first.union(second), second.union(first).withColumnRenamed("v", "w")
    with wm.join(left, right, "k", instances=2) as run:
        early = next(iter(run)).progress
        assert early.rows_out > 4_000 // 80
        assert texts(run.to_df()) == texts(left.join(right, "k"))
        assert "by k, on which both tables are clustered" in told(run)


@pytest.mark.usefixtures("in_waves")
def test_unions_are_joined_within_a_band(years: DataFrame, other: DataFrame) -> None:
    left = years.where("v > 7").selectExpr("CAST(id AS bigint) AS at", "year")
    right = other.where("w > 100").selectExpr("other AS about", "k")
    band = wm.within(("at", "about"), 1)
    with wm.join(left, right, band, "left", instances=2) as run:
        own = left.join(right, sf.abs(left.at - right.about) <= 1, "left")
        assert texts(run.to_df()) == texts(own)
        assert "row path" not in told(run)


def test_unions_are_joined_with_many(years: DataFrame, other: DataFrame) -> None:
    a = years.where("id % 4 = 0").select("k", "id")
    b = other.select("k", "other").where("other < 400 OR other > 5000")
    c = other.selectExpr("k", "w").where("w < 30")
    with wm.join_many({"a": a, "b": b, "c": c}, on=["a.k = b.k", "b.k = c.k"]) as run:
        found = run.to_df()
        own = a.join(b, "k").join(c, "k")
        assert found.count() == own.count()
        columns = ["id", "other", "w"]
        assert texts(found.select(*columns)) == texts(own.select(*columns))
        assert "row path" not in told(run)


@pytest.fixture(scope="module")
def measures(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Two branches of many row groups, which differ in what they hold: a year is in the paths of
    one and a constant of the other."""
    folder = tmp_path_factory.mktemp("measures")
    random = np.random.default_rng(5)
    for place, rows in ((folder / "paths" / "y=2023", 6_000), (folder / "files", 5_000)):
        values = pa.table({"k": random.integers(0, 500, rows), "v": random.gamma(2.0, 10.0, rows)})
        place.mkdir(parents=True)
        pq.write_table(values, place / "data.parquet", row_group_size=100)
    paths, files = (spark.read.parquet(str(folder / name)) for name in ("paths", "files"))
    return paths.union(files.selectExpr("k", "v", "2024"))


def looks_at(measures: DataFrame, other: DataFrame, seed: int) -> SparkAggregate:
    return wm.aggregate(
        measures,
        other,
        "k",
        group_by="y",
        where="w < 90",
        seed=seed,
        n=wm.count(),
        s=wm.sum("v * w"),
        m=wm.avg("v"),
    )


def test_aggregates_over_unions_look_before_they_are_exact(
    measures: DataFrame, other: DataFrame
) -> None:
    with looks_at(measures, other, seed=1) as run:
        looks = list(run)
        text = " ".join(run.explain().split())
    assert len(looks) > 1
    assert 0 < looks[0].fraction < 0.7
    assert any(inside for _, _, inside in looks[0].contains(looks[-1]))
    assert "file path: a union of 2 branches, 2 Parquet files, 110 row groups" in text
    assert "row path" not in text
    wanted = (
        measures.join(other, "k")
        .where("w < 90")
        .groupBy("y")
        .agg(sf.count("*").alias("n"), sf.sum(sf.expr("v * w")).alias("s"), sf.avg("v").alias("m"))
    )
    expected = by_group(wanted.toArrow().to_pylist(), ["y"])
    assert_same(by_group(looks[-1].answer.to_pylist(), ["y"]), expected)


@pytest.mark.slow
def test_intervals_over_unions_hold_as_often_as_they_say(
    measures: DataFrame, other: DataFrame
) -> None:
    verdicts = []
    for seed in range(60):
        with looks_at(measures, other, seed) as run:
            first = next(iter(run))
            verdicts += first.contains(run.exact())
    held = sum(inside for _, _, inside in verdicts)
    assert len(verdicts) > 100
    assert held > 0.9 * len(verdicts)


def test_an_aggregate_over_a_table_united_with_itself_counts_rows_twice(
    spark: SparkSession, folder: Path, other: DataFrame
) -> None:
    rows = spark.read.parquet(str(folder / "2022")).select("k", "v")
    twice = rows.union(rows.selectExpr("k", "v * 2"))
    with wm.aggregate(twice, other, "k", n=wm.count(), s=wm.sum("v")) as run:
        found = run.exact().answer.to_pylist()
        assert "file path: a union of 2 branches, 16 Parquet files" in " ".join(
            run.explain().split()
        )
    own = twice.join(other, "k").agg(sf.count("*").alias("n"), sf.sum("v").alias("s"))
    assert found == own.toArrow().to_pylist()


def test_a_branch_that_only_spark_can_read_is_named(years: DataFrame, other: DataFrame) -> None:
    left = years.select("k", "id").union(other.selectExpr("k", "hash(other) + 0L"))
    with wm.join(left, other.select("k", "w"), "k", instances=2) as run:
        assert texts(run.to_df()) == texts(left.join(other.select("k", "w"), "k"))
        assert "because branch 4 of 5 in its union is not read from its files: column" in told(run)
        assert "write the DataFrame to Parquet files before it" in told(run)


@pytest.mark.parametrize("waves", [True, False])
def test_a_file_that_changes_between_waves_ends_the_join(
    spark: SparkSession,
    years: DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    waves: bool,
) -> None:
    if waves:
        monkeypatch.setattr("watersmeet.spark.tables.opening.SMALL_BYTES", 0)
    data = pa.table({"k": range(100), "id": range(100)})
    pq.write_table(data, tmp_path / "new.parquet", row_group_size=20)
    left = years.select("k", "id").union(spark.read.parquet(str(tmp_path)))
    with wm.join(left, years.selectExpr("k", "id AS again"), "k", instances=2) as run:
        pq.write_table(data.slice(1), tmp_path / "new.parquet", row_group_size=20)
        with pytest.raises(InputChanged, match=r"new\.parquet has changed"):
            list(run)
