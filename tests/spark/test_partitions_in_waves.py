"""A DataFrame that only Spark can compute comes in waves too: some of its partitions at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.sql_types import texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_waves")]

ROWS, FILES = 1_200, 12
_SETTINGS = (
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
)


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("partitions")
    rows = spark.range(0, ROWS, 1, FILES).selectExpr("id", "CAST(id % 100 AS int) AS k")
    for form in ("parquet", "csv", "json", "orc"):
        rows.write.format(form).save(str(made / form))
    others = spark.range(0, 400, 1, 4).selectExpr("CAST(id * 7 % 100 AS int) AS k", "id AS other")
    others.write.parquet(str(made / "right"))
    return made


@pytest.fixture
def right(spark: SparkSession, places: Path) -> DataFrame:
    return spark.read.parquet(str(places / "right"))


@pytest.fixture
def left(spark: SparkSession, places: Path) -> DataFrame:
    return spark.read.parquet(str(places / "parquet"))


def of_format(form: str) -> Callable[[DataFrame, Path], DataFrame]:
    def read(left: DataFrame, places: Path) -> DataFrame:
        # An option of text files that our tasks do not know, so that Spark reads them.
        reader = left.sparkSession.read.schema(left.schema).option("maxColumns", 20480).format(form)
        return reader.load(str(places / form))

    return read


def with_udf(left: DataFrame, places: Path) -> DataFrame:
    # Our tasks call only functions that Spark gives their rows by Arrow.
    return left.withColumn("odd", sf.udf(lambda id: id % 2 == 1, "boolean", useArrow=False)("id"))


def in_memory(left: DataFrame) -> DataFrame:
    """The same rows in partitions that nobody changes: where a row is decides its random number."""
    rows = left.sparkSession.range(0, ROWS, 1, FILES)
    return rows.withColumn("k", (rows.id % 100).cast("int"))


# Plans without a shuffle, and one with it.
PLANS: dict[str, Callable[[DataFrame, Path], DataFrame]] = {
    "csv": of_format("csv"),
    "json": of_format("json"),
    "orc": of_format("orc"),
    "udf": with_udf,
    "union": lambda left, _: left.union(left.where("cbrt(id) >= 0").selectExpr("id + 10000", "k")),
    "sample": lambda left, _: in_memory(left).sample(fraction=0.5, seed=7),
    "seeded": lambda left, _: in_memory(left).withColumn("r", sf.rand(seed=3)).where("r > 0.2"),
    "numbered": lambda left, _: in_memory(left).withColumn("n", sf.monotonically_increasing_id()),
    "grouped": lambda left, _: left.groupBy("id", "k").count(),
    "exploded": lambda left, _: left.withColumn("e", sf.explode(sf.array("id", "k"))),
}
OF_MANY_FORMATS = ["json", "orc", "union", "exploded", "numbered", "sample"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in OF_MANY_FORMATS else [])
        for name in PLANS
    ],
)
def test_every_plan_comes_in_waves_and_is_sparks_own_join(
    left: DataFrame, right: DataFrame, places: Path, name: str
) -> None:
    frame = PLANS[name](left, places)
    if name == "grouped":
        left.sparkSession.conf.set("spark.sql.shuffle.partitions", "12")
    before = [left.sparkSession.conf.get(each, None) for each in _SETTINGS]
    try:
        with wm.join(frame, right, "k", instances=2) as run:
            progress = [wave.progress for wave in run]
            assert len(progress) == 4
            assert 0 < progress[0].rows_out < progress[-1].rows_out
            assert 0 < progress[0].rows_read[0] < progress[-1].rows_read[0]
            assert progress[-1].rows_read == progress[-1].rows_total
            assert texts(run.to_df()) == texts(frame.join(right, "k"))
            told = " ".join(run.explain().split())
            assert "partitions computed some at a time in random order, because" in told
        assert [left.sparkSession.conf.get(each, None) for each in _SETTINGS] == before
    finally:
        left.sparkSession.conf.set("spark.sql.shuffle.partitions", "2")


def test_rows_cached_by_spark_come_in_waves(left: DataFrame, right: DataFrame) -> None:
    cached = left.repartition(9).cache()
    try:
        with wm.join(right, cached, "k", "full", instances=2) as run:
            assert len(list(run)) == 4
            assert texts(run.to_df()) == texts(right.join(cached, "k", "full"))
            told = " ".join(run.explain().split())
            assert "9 partitions computed some at a time in random order, because it is" in told
    finally:
        cached.unpersist(blocking=True)


def counted(left: DataFrame) -> tuple[DataFrame, Any]:
    """With a column of a function that counts how often it is called."""
    calls = left.sparkSession.sparkContext.accumulator(0)

    # Without annotations, by which Spark would choose how it is called.
    def called(id):  # type: ignore[no-untyped-def]
        calls.add(1)
        return id / 7

    counting = sf.udf(called, "double").asNondeterministic()
    return left.withColumn("u", counting("id")), calls


def test_every_partition_is_computed_once(left: DataFrame, right: DataFrame) -> None:
    frame, calls = counted(left.repartition(FILES).cache())
    with wm.join(frame, right, "k", instances=2) as run:
        rows = Counter(row.id for wave in run for row in wave.rows.collect())
        assert run.to_df().count() == 4 * ROWS
    assert calls.value == ROWS
    assert rows == Counter(dict.fromkeys(range(ROWS), 4))


def test_who_stops_early_does_not_wait_for_all_partitions(
    left: DataFrame, right: DataFrame
) -> None:
    many = left.sparkSession.range(0, ROWS, 1, 40).withColumn("k", sf.expr("INT(id)"))
    frame, calls = counted(many)
    with wm.join(frame, right, "k", instances=2) as run:
        first = next(iter(run))
        assert 0 < first.progress.rows_read[0] < ROWS / 10
    assert calls.value < ROWS


def test_shuffled_rows_that_may_differ_are_computed_at_once(
    left: DataFrame, right: DataFrame
) -> None:
    frame = left.withColumn("r", sf.rand()).repartition(8, "r")
    with wm.join(frame, right, "k", instances=2) as run:
        assert sum(wave.rows.count() for wave in run) == 4 * ROWS
        told = " ".join(run.explain().split())
    assert "staged once before the first wave: it has a shuffle of rows that may differ" in told


def test_few_partitions_are_computed_at_once(left: DataFrame, right: DataFrame) -> None:
    with wm.join(left.limit(700), right, "k", instances=2) as run:
        assert sum(wave.rows.count() for wave in run) == 4 * 700
        told = " ".join(run.explain().split())
    assert "it has 1 partition; more of them would come in waves" in told


def test_a_partition_that_fails_ends_the_join(left: DataFrame, right: DataFrame) -> None:
    frame = left.withColumn("u", sf.udf(lambda id: 1 // (id - 700), "bigint", useArrow=False)("id"))
    with (
        wm.join(right, frame, "k", instances=2) as run,
        pytest.raises(wm.errors.SourceFailed, match=r"right side.*ZeroDivision"),
    ):
        list(run)


def test_partitions_without_rows_are_passed_over(left: DataFrame, right: DataFrame) -> None:
    frame = left.where(sf.udf(lambda id: id >= ROWS - 100, "boolean", useArrow=False)("id"))
    with wm.join(frame, right, "k", instances=2) as run:
        progress = [wave.progress for wave in run]
        assert progress[0].rows_read[0] > 0
        assert progress[-1].rows_out == 4 * 100
