"""How a join on Spark is asked: names, Columns, SQL text, as `df.join` takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.sql_types import settings, texts

pytestmark = pytest.mark.spark

BIDS = """
SELECT * FROM VALUES
  (1, 5, 2.5D, 'mo', DATE'2024-01-01', TIMESTAMP'2024-01-01 10:00:00', 1.25BD),
  (1, 9, DOUBLE('NaN'), 'tu', DATE'2024-01-05', TIMESTAMP'2024-01-05 10:00:00', -3.00BD),
  (2, 4, NULL, NULL, DATE'2024-01-02', TIMESTAMP'2024-01-02 10:00:00', 9.99BD),
  (3, NULL, 0.5D, 'we', NULL, NULL, NULL)
AS t(ad, bid, weight, day, date, moment, fee)
"""
ASKS = """
SELECT * FROM VALUES
  (1, 6L, 2.0D, 'tu', DATE'2024-01-03', TIMESTAMP'2024-01-01 09:30:00'),
  (2, 6L, 1.0D, 'mo', DATE'2024-01-02', TIMESTAMP'2024-01-02 10:00:00'),
  (3, 1L, 0.5D, 'we', DATE'2024-01-04', TIMESTAMP'2024-01-04 00:00:00')
AS t(Item, ask, least, day, until, since)
"""


@pytest.fixture(scope="module")
def bids(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("bids") / "t")
    spark.sql(BIDS).write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def asks(spark: SparkSession) -> DataFrame:
    return spark.sql(ASKS)


def test_on_and_how_by_position_and_in_any_case(bids: DataFrame, asks: DataFrame) -> None:
    items = asks.withColumnRenamed("Item", "AD").drop("day")
    own = bids.join(items, "Ad", "full")
    with wm.join(bids, items, "Ad", "full", instances=1) as run:
        assert run.to_df().columns == own.columns
        assert texts(run.to_df()) == texts(own)
    with wm.join(bids, items, "aD", "right", instances=1) as run:
        assert run.to_df().columns == bids.join(items, "aD", "right").columns
    with wm.aggregate(bids, items, "AD", "left", group_by="ad", n=wm.count()) as counted:
        assert sum(row["n"] for row in counted.exact().answer.to_pylist()) == 4


def test_case_where_it_is_told_apart_or_ambiguous(
    spark: SparkSession, bids: DataFrame, asks: DataFrame
) -> None:
    with settings(spark, caseSensitive="true"):
        with pytest.raises(wm.errors.SchemaError, match="no column 'item', but 'Item'"):
            wm.join(bids, asks, {"ad": "item"})
        both = asks.withColumn("item", asks.Item + 1)
        for call in (wm.join, wm.aggregate):
            asked: dict[str, Any] = {"n": wm.count()} if call is wm.aggregate else {}
            call(bids, both, {"ad": "item"}, **asked).close()
    with pytest.raises(wm.errors.SchemaError, match="could be 'Item' or 'item'"):
        wm.join(bids, both, {"ad": "ITEM"})


Asked = Callable[[DataFrame, DataFrame], Any]
EQUALITIES: dict[str, tuple[Asked, str]] = {
    "one": (lambda a, b: a.ad == b.Item, "inner"),
    "turned round": (lambda a, b: b.Item == a.ad, "left"),
    "of one name": (lambda a, b: (a.ad == b.Item) & (a.day == b.day), "full"),
    "in a list": (lambda a, b: [a.ad == b.Item, b.day == a.day], "semi"),
    "of two types": (lambda a, b: a.bid == b.ask, "inner"),
    "and more": (lambda a, b: (a.ad == b.Item) & (a.bid > b.ask), "left"),
}


@pytest.mark.parametrize(("asked", "how"), EQUALITIES.values(), ids=EQUALITIES.keys())
def test_on_as_a_column(bids: DataFrame, asks: DataFrame, asked: Asked, how: str) -> None:
    asks = asks.withColumn("ask", asks.ask + 3)
    on = asked(bids, asks)
    own = bids.join(asks, on, {"semi": "left_semi"}.get(how, how))
    with wm.join(bids, asks, on, how, instances=1) as run:
        ours = run.to_df()
        assert [name.removesuffix("_right") for name in ours.columns] == own.columns
        assert texts(ours.toDF(*map(str, range(len(ours.columns))))) == texts(
            own.toDF(*map(str, range(len(own.columns))))
        )


def test_an_aggregate_with_on_as_a_column(bids: DataFrame, asks: DataFrame) -> None:
    with wm.aggregate(bids, asks, bids.ad == asks.Item, n=wm.count()) as run:
        assert run.exact().answer.to_pylist() == [{"n": 4}]
    on = (bids.ad == asks.Item) & (bids.bid > asks.ask)
    with pytest.raises(wm.errors.InvalidArgument, match="no equality"):
        wm.aggregate(bids, asks, on, n=wm.count())


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda a, b: a.bid > b.ask, "sets a column of the left DataFrame equal"),
        (lambda a, b: a.ad.cast("string") == b.Item.cast("string"), "sets a column of the left"),
        (lambda a, b: a.ad == a.bid, "sets a column of the left DataFrame equal"),
        (lambda a, b: sf.col("nope") == b.Item, "does not understand"),
        (lambda a, b: (a.ad == b.Item) & (sf.lower(a.day) == b.day), "is not computed outside"),
        (lambda a, b: [a.ad, "day"], "does not name key columns"),
    ],
)
def test_on_that_cannot_be_followed_is_refused_at_the_call(
    bids: DataFrame, asks: DataFrame, asked: Asked, told: str
) -> None:
    with pytest.raises(wm.errors.InvalidArgument, match=told) as caught:
        wm.join(bids, asks, asked(bids, asks))
    assert "\n" not in str(caught.value)


# Over the names of the result: `day` is the left side's, `day_right` the right side's.
CONDITIONS = [
    "bid >= ask",
    "bid >= ask OR weight > least AND NOT day <=> day_right",
    "bid IS NULL OR bid BETWEEN 4 AND ask",
    "abs(bid - ask) <= 2",
    "bid / ask > 1 AND year(until) = 2024",
    "-bid * 2 + 1 < ask - 15",
    "weight - least > 0.25",
    "day IN ('mo', 'we') OR day_right LIKE 't%'",
    "day LIKE '%u' OR day LIKE '%e%'",
    "datediff(until, date) BETWEEN 0 AND 2",
    "date < until",
    "date < DATE'2024-01-03' AND since <= moment",
    "moment - since <= INTERVAL '30' MINUTE",
    "unix_micros(moment) - unix_micros(since) > 60 * 1000000",
    "fee > -1 AND fee < ask",
    "fee * 2 > 2.5",
    "moment >= '2024-01-02'",
    "1 = 1 AND AD > 1",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_in_sql(bids: DataFrame, asks: DataFrame, text: str) -> None:
    asks = asks.withColumnRenamed("day", "day_right")
    own = bids.join(asks, sf.expr(f"ad = Item AND ({text})"), "left")
    with wm.join(
        bids,
        asks.withColumnRenamed("day_right", "day"),
        {"ad": "Item"},
        "left",
        instances=1,
        condition=text,
    ) as run:
        assert texts(run.to_df()) == texts(own)


COLUMNS: dict[str, Callable[[DataFrame, DataFrame], Column]] = {
    "bids above": lambda a, b: a.bid > b.ask,
    "days alike": lambda a, b: a.day == b.day,
    "near": lambda a, b: sf.abs(a.weight - b.least) < 1,
    "key of the other side": lambda a, b: b.Item > 1,
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("how", ["inner", "anti"])
def test_a_condition_as_a_column(bids: DataFrame, asks: DataFrame, name: str, how: str) -> None:
    condition = COLUMNS[name](bids, asks)
    on = (bids.ad == asks.Item) & condition
    own = bids.join(asks, on, "left_anti" if how == "anti" else how)
    with wm.join(bids, asks, {"ad": "Item"}, how, instances=1, condition=condition) as run:
        ours = run.to_df()
        assert texts(ours.toDF(*map(str, range(len(ours.columns))))) == texts(
            own.toDF(*map(str, range(len(own.columns))))
        )


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("lower(day) = 'mo'", "the filter lower"),
        ("bid > cost", "does not understand condition"),
        ("bid >", "does not understand condition"),
        ("exp(bid) > ask", "does not translate exactly"),
        ("bid + ask", "."),
        (7, "is no filter"),
    ],
)
def test_a_condition_that_cannot_be_computed_is_refused_at_the_call(
    bids: DataFrame, asks: DataFrame, condition: Any, told: str
) -> None:
    with pytest.raises(wm.errors.WatersmeetError, match=told) as caught:
        wm.join(bids, asks, {"ad": "Item"}, condition=condition)
    assert "\n" not in str(caught.value)


def broken(batch: pa.RecordBatch) -> pa.Array:
    raise LookupError("no such luck")


FAILING: dict[str, tuple[Any, str]] = {
    "function": (broken, "LookupError: no such luck"),
    "expression": (pc.divide(pc.field("bid"), 0) > 0, "divide by zero"),
    "SQL": ("(bid + 2147483640) > ask", "does not fit its type int32"),
}


@pytest.mark.parametrize(("condition", "told"), FAILING.values(), ids=FAILING.keys())
def test_a_condition_that_raises_ends_the_run_with_its_error(
    bids: DataFrame, asks: DataFrame, condition: Any, told: str
) -> None:
    with (
        wm.join(bids, asks, {"ad": "Item"}, instances=1, condition=condition) as run,
        pytest.raises(wm.errors.ConditionFailed, match=told) as caught,
    ):
        run.to_df()
    assert "java" not in str(caught.value).lower()
    assert "\n" not in str(caught.value)


def test_a_table_joined_with_itself(bids: DataFrame) -> None:
    with wm.join(bids, bids, "ad", instances=1, condition="bid < bid_right") as run:
        assert [(row.bid, row.bid_right) for row in run.to_df().collect()] == [(5, 9)]


def test_a_seed_that_is_no_number_is_refused_at_the_call(bids: DataFrame, asks: DataFrame) -> None:
    seed: Any = "x"
    with pytest.raises(wm.errors.InvalidArgument, match="seed='x' is no whole number"):
        wm.join(bids, asks, {"ad": "Item"}, seed=seed)
    with pytest.raises(wm.errors.InvalidArgument, match="seed='x' is no whole number"):
        wm.aggregate(bids, asks, {"ad": "Item"}, n=wm.count(), seed=seed)


@pytest.mark.slow
def test_streams_of_char_columns_with_a_condition(spark: SparkSession, tmp_path: Path) -> None:
    for name, kind in (("short", "char(3)"), ("long", "char(5)")):
        spark.sql(f"CREATE TABLE {name} (c {kind}, {name}_n int) USING parquet")
        spark.sql(f"INSERT INTO {name} VALUES ('a', 1), ('abc', 2), (NULL, 3), ('a', 4)")
    try:
        tables = spark.table("short"), spark.table("long")
        streams = spark.readStream.table("short"), spark.readStream.table("long")
        joined = wm.join_streams(
            *streams,
            "C",
            state=tmp_path / "state",
            ticks=None,
            instances=2,
            condition=streams[0].short_n <= streams[1].long_n,
        )
        query = (
            joined.writeStream.format("memory")
            .queryName("char_stream")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        own = tables[0].join(tables[1], "c").where("short_n <= long_n")
        assert texts(spark.table("char_stream")) == texts(own)
        assert [f.metadata for f in joined.schema] == [f.metadata for f in own.schema]
    finally:
        spark.sql("DROP TABLE short")
        spark.sql("DROP TABLE long")
