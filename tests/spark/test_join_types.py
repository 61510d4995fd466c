"""Every type of Spark goes through a join and comes back as Spark's own join returns it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm

pytestmark = pytest.mark.spark

COLUMNS = {
    "flag": "n % 2 = 0",
    "tiny": "cast(n % 100 as tinyint)",
    "small": "cast(n as smallint)",
    "int": "cast(n as int)",
    "float": "cast(n / 3 as float)",
    "double": "case n when 1 then double('NaN') when 2 then -0.0D else n / 7.0D end",
    "price": "cast(n / 8 as decimal(9, 2))",
    "huge": "cast(n as decimal(38, 10)) * 1000000000000.5",
    "text": "concat('Ω', n)",
    "bytes": "cast(concat('b', n) as binary)",
    "day": "date_add(date'1999-12-31', cast(n as int))",
    "instant": "timestamp'1999-12-31 23:59:59.123456' + make_dt_interval(0, 0, 0, n)",
    "clock": "timestamp_ntz'1850-01-01 00:00:00' + make_dt_interval(0, 0, 0, n)",
    "list": "array(n, null, n + 1)",
    "table": "map(concat('k', n), n)",
    "struct": "named_struct('a', n, 'b', named_struct('c', cast(n as string)))",
    "span": "make_dt_interval(0, 0, 0, n)",
}


@pytest.fixture(scope="module")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """One column of each type, every seventh row all null but its key."""
    columns = [f"if(n % 7 = 0, null, {value}) as `{name}`" for name, value in COLUMNS.items()]
    path = str(tmp_path_factory.mktemp("typed") / "typed")
    spark.range(1, 60).withColumnRenamed("id", "n").selectExpr("n", *columns).write.parquet(path)
    return spark.read.parquet(path)


def texts(dataframe: DataFrame) -> list[Any]:
    """Rows as comparable texts: NaN is itself and -0.0 is not 0.0 there."""
    return sorted(str(row) for row in dataframe.collect())


@pytest.mark.parametrize("path", ["file path", "row path"])
@pytest.mark.parametrize("how", ["inner", "full"])
def test_values_and_types_are_sparks_own(typed: DataFrame, path: str, how: str) -> None:
    # Spans of time have no type of their own in Parquet, and take the row path.
    left = typed.drop("span") if path == "file path" else typed
    right = typed.select("n").where("n > 5").withColumn("other", typed.n)
    with wm.join(left, right, on="n", how=how) as run:
        joined, own = run.to_df(), left.join(right, on="n", how=how)
        assert [(f.name, f.dataType) for f in joined.schema] == [
            (f.name, f.dataType) for f in own.schema
        ]
        assert texts(joined) == texts(own)
        assert f"left       {path}" in run.explain()


@pytest.mark.parametrize("key", [name for name in COLUMNS if name not in ("list", "table")])
def test_keys_of_every_type(typed: DataFrame, key: str) -> None:
    other = typed.select(key).withColumnRenamed(key, "partner")
    with wm.join(typed.select("n", key), other, on={key: "partner"}, instances=3) as run:
        own = typed.select("n", key).join(other, typed[key] == other.partner)
        assert texts(run.to_df().select("n")) == texts(own.select("n"))
