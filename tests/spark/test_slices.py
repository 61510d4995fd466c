"""Cached rows of few partitions come in waves: a slice by the hash of their keys, then the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import StorageLevel
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.sql_types import texts
from watersmeet.spark.jobs import nodes
from watersmeet.spark.tables import slices
from watersmeet.spark.tables.run import JoinRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_waves")]

ROWS = 4_000
SLICED = "a 40th of the rows by the hash of their keys, then all others, because"


def made(spark: SparkSession) -> DataFrame:
    """Keys of which some come often, one in ten is null, and some are NaN or a negative zero."""
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "id",
        "CASE WHEN id % 10 = 0 THEN NULL WHEN id % 97 = 1 THEN double('NaN') "
        "WHEN id % 89 = 1 THEN -0.0D WHEN id % 83 = 1 THEN 0.0D ELSE double(id % 300) END AS k",
    )


@pytest.fixture(scope="module")
def right(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    place = str(tmp_path_factory.mktemp("slices") / "right")
    rows = spark.range(0, 900, 1, 3).selectExpr("double(id) AS k", "id AS other")
    rows.unionAll(spark.sql("SELECT double('NaN'), 1L UNION ALL SELECT NULL, 2L")).write.parquet(
        place
    )
    return spark.read.parquet(place)


@contextmanager
def cached(
    frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER
) -> Iterator[DataFrame]:
    frame = frame.persist(level)
    frame.count()
    try:
        yield frame
    finally:
        frame.unpersist(blocking=True)


def told(run: JoinRun) -> str:
    return " ".join(run.explain().split())


@pytest.mark.parametrize(
    "how", ["full", *(pytest.param(how, marks=pytest.mark.slow) for how in ("inner", "anti"))]
)
def test_a_slice_comes_first_and_all_rows_once(
    spark: SparkSession, right: DataFrame, how: str
) -> None:
    with cached(made(spark)) as left, wm.join(left, right, "k", how, instances=2) as run:
        progress = [wave.progress for wave in run]
        assert len(progress) > 1
        assert 0 < progress[0].rows_read[0] < ROWS / 4
        assert progress[-1].rows_read == progress[-1].rows_total
        assert texts(run.to_df()) == texts(left.join(right, "k", how))
        assert SLICED in told(run)


def test_a_union_with_cached_rows_is_looked_through_in_slices(
    spark: SparkSession, right: DataFrame
) -> None:
    with cached(made(spark)) as left:
        both = left.where("id < 1500").union(left.where("id >= 1000"))
        with wm.join(both, right, "k", instances=2) as run:
            assert len(list(run)) > 1
            assert texts(run.to_df()) == texts(both.join(right, "k"))
            assert SLICED in told(run)


def test_rows_that_may_be_computed_again_are_not_sliced(
    spark: SparkSession, right: DataFrame
) -> None:
    with (
        cached(made(spark), StorageLevel.MEMORY_ONLY) as left,
        wm.join(left, right, "k", instances=2) as run,
    ):
        assert texts(run.to_df()) == texts(left.join(right, "k"))
        list(run)
        assert SLICED not in told(run)


@pytest.mark.parametrize(
    "column", ["rand()", pytest.param("length(uuid())", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("below", [True, False])
def test_rows_that_differ_each_time_are_not_sliced(
    spark: SparkSession, right: DataFrame, column: str, below: bool
) -> None:
    """Neither if they are cached: they would be computed again if they were let go of."""

    def with_column(frame: DataFrame) -> DataFrame:
        return frame.withColumn("r", sf.expr(column))

    with cached(with_column(made(spark)) if below else made(spark)) as left:
        frame = left if below else with_column(left)
        with wm.join(frame, right, "k", instances=2) as run:
            assert sum(wave.rows.count() for wave in run) == left.join(right, "k").count()
            assert SLICED not in told(run)


def test_a_row_that_is_in_no_slice_would_be_noticed(
    spark: SparkSession, right: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: the rest is what has the second hash."""
    computed = slices.SlicedRows._staged

    def staged(rows: slices.SlicedRows, chosen: object) -> object:
        return computed(rows, rows._slice == 0 if not rows._files else rows._slice == 1)

    monkeypatch.setattr(slices.SlicedRows, "_staged", staged)
    with cached(made(spark)) as left, wm.join(left, right, "k", instances=2) as run:
        list(run)
        assert texts(run.to_df()) != texts(left.join(right, "k"))


def test_rows_that_are_let_go_of_between_waves_are_all_there(
    spark: SparkSession, right: DataFrame
) -> None:
    with cached(made(spark)) as left, wm.join(left, right, "k", instances=2) as run:
        assert next(iter(run)).progress.rows_read[0] > 0
        left.unpersist(blocking=True)
        assert texts(run.to_df()) == texts(left.join(right, "k"))
        assert SLICED in told(run)


@pytest.mark.slow
def test_sums_that_are_cached_are_not_sliced(spark: SparkSession, right: DataFrame) -> None:
    sums = made(spark).groupBy("k").agg(sf.sum(sf.col("id") / 7).alias("s")).coalesce(2)
    with cached(sums) as left, wm.join(left, right, "k", instances=2) as run:
        assert sum(wave.rows.count() for wave in run) == left.join(right, "k").count()
        assert SLICED not in told(run)


def test_rows_that_are_cached_when_they_are_first_used_are_computed_once(
    spark: SparkSession, right: DataFrame
) -> None:
    calls = spark.sparkContext.accumulator(0)

    def counting(id):  # type: ignore[no-untyped-def]
        calls.add(1)
        return id

    left = made(spark).withColumn("c", sf.udf(counting, "bigint").asNondeterministic()("id"))
    left = left.cache()
    try:
        with wm.join(left, right, "k", instances=2) as run:
            assert sum(wave.rows.count() for wave in run) > 0
            assert calls.value == ROWS
    finally:
        left.unpersist(blocking=True)


def test_nodes_below_cached_rows_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    made(spark).write.parquet(str(tmp_path / "rows"))
    with cached(spark.read.parquet(str(tmp_path / "rows"))) as rows:
        both = rows.where("id % 2 = 0").union(rows.where("id % 2 = 1"))
        plan = both._jdf.queryExecution().optimizedPlan().toString()
        assert "FileScan" in plan
        assert set(nodes(plan)) == {"Union", "Filter", "InMemoryRelation"}
    with cached(made(spark).repartition(3)) as rows:
        plan = rows.select("k")._jdf.queryExecution().optimizedPlan().toString()
        assert "== Final Plan ==" in plan
        assert list(nodes(plan)) == ["Project", "InMemoryRelation"]
