"""Spark is not to ask for the bytes of batches that cannot be too large, and for others as set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from watersmeet.spark.crossing import crossing, row_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
SMALL = str(4 * 2**20)
NO_LIMIT = str(2**31 - 1)


def asked(frame: DataFrame) -> str | None:
    """The limit of a plan that is made for this DataFrame; afterwards it is as before."""
    conf = frame.sparkSession.conf
    before = conf.get(BYTES, None)
    with crossing(frame):
        during = conf.get(BYTES, None)
    assert conf.get(BYTES, None) == before
    return during


def test_rows_of_a_fixed_width_have_no_limit_but_their_number(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr(
        "id", "id / 2 AS d", "decimal(id) AS m", "date '2020-01-01' AS day", "named_struct('x', id)"
    )
    assert asked(frame) == NO_LIMIT


@pytest.mark.parametrize("column", ["'text'", "binary('x')", "array(1)", "map(1, 2)"])
def test_rows_of_any_width_come_in_small_batches(spark: SparkSession, column: str) -> None:
    assert asked(spark.range(3).selectExpr("id", f"{column} AS c")) == SMALL


def test_what_a_function_is_given_counts_too(spark: SparkSession) -> None:
    length = sf.udf(len, "int")
    texts = spark.range(3).selectExpr("id", "string(id) AS t").cache()
    try:
        assert asked(texts.select("id", length("t").alias("n"))) is None
        assert asked(texts.select("id", sf.length("t").alias("n"))) == NO_LIMIT
    finally:
        texts.unpersist(blocking=True)


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [(ROWS, "0", SMALL), (ROWS, "10000000", SMALL), (BYTES, "1000", "1000")],
)
def test_under_settings_with_which_batches_could_be_larger_too(
    spark: SparkSession, name: str, value: str, limit: str
) -> None:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        assert asked(spark.range(3).toDF("id")) == limit
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def test_a_struct_is_as_wide_as_its_fields() -> None:
    inner = StructType().add("a", "integer").add("b", "date")
    assert row_bytes(StructType().add("s", inner)) == 4 * 17
    assert row_bytes(StructType().add("s", inner.add("t", "string"))) is None
