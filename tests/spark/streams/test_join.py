"""A join of streams against Spark's batch join of all that they brought."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests.spark.streams.running import LEFT, RIGHT, Streams, counted
from watersmeet.operators.family import ALGORITHMS
from watersmeet.spark.microbatches.metrics import stream_metrics

pytestmark = pytest.mark.spark


def test_every_row_comes_once(ran: Streams) -> None:
    expected = ran.expected()
    assert len(expected) > 5000
    assert ran.output() == expected
    assert ran.versions() == {0: [2, 3], 1: [2, 3]}


@pytest.mark.slow  # tests/spark/streams/test_owed.py has what is spilled come with availableNow
@pytest.mark.parametrize(
    "name",
    [name for name in ALGORITHMS if name not in ("shj", "pmj", "pmj-sorted")],
)
def test_what_is_spilled_comes_while_the_streams_stall(streams: Streams, name: str) -> None:
    """With the least memory there is, and batches without rows in which all work can be done."""
    streams.options |= {"algorithm": name, "memory": "2MB", "wait_threshold": 0, "instances": 2}
    wide = pa.array(["x" * 1000] * len(LEFT))
    inputs = Streams(streams.spark, streams.path / "wide", streams.options)
    inputs.write(LEFT.append_column("wide", wide), RIGHT, batches=2)
    inputs.run()
    spilled = sum(record["rows_spilled"] for record in stream_metrics(inputs.path / "state"))
    assert spilled > 0
    nothing = LEFT.append_column("wide", wide).slice(0, 0)
    while True:
        before = sum(inputs.output().values())
        inputs.add("left", nothing, f"empty-{before}")
        if sum(inputs.run().values()) == before:
            break
    assert inputs.output() == inputs.expected()


KEYS: dict[str, list[Any]] = {
    "int": [1, 2, 2, None, -5],
    "string": ["a", "b", "", None, "é"],
    "double": [0.0, -0.0, float("nan"), None, 1.5],
    "date": [datetime(2020, 1, d) for d in (1, 2, 2, 3, 4)],
    "timestamp": [datetime(2020, 1, d, tzinfo=UTC) for d in (1, 2, 2, 3, 4)],
    "timestamp_ntz": [datetime(2020, 1, d) for d in (1, 2, 2, 3, 4)],
    "decimal(20,3)": [Decimal("1.5"), Decimal(2), Decimal(2), None, Decimal("-0.001")],
    "boolean": [True, False, True, None, True],
    "binary": [b"a", b"", b"a", None, b"\xff"],
}


def test_keys_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """One join on nine keys at once, each of which must be compared as Spark compares it."""
    keys = list(KEYS)
    columns = {f"k{n}": KEYS[kind] for n, kind in enumerate(keys)}
    rows = [
        tuple(columns[name][(number + (name == shifted) * 1) % 5] for name in columns)
        for number in range(5)
        for shifted in ("", *columns)
    ]
    casts = [sf.col(f"k{n}").cast(kind).alias(f"k{n}") for n, kind in enumerate(keys)]
    table = spark.createDataFrame(rows, ", ".join(_plain(n, k) for n, k in enumerate(keys)))
    table = table.select(*casts).coalesce(1)
    streams = Streams(spark, tmp_path, {"on": list(columns)})
    for side in ("left", "right"):
        numbered = table.withColumn(side, sf.monotonically_increasing_id())
        numbered.write.parquet(str(tmp_path / side))
    assert streams.run() == streams.expected()
    assert streams.output().total() >= 5


def _plain(number: int, kind: str) -> str:
    return f"k{number} {'timestamp' if kind == 'date' else kind}"


def test_columns_of_every_shape_pass_through(spark: SparkSession, tmp_path: Path) -> None:
    """Also those that share a slot on the wire, and types that Arrow does not tell apart."""
    table = spark.sql(
        "select id % 10 as k, array(id, null) as list, map('a', id) as map, "
        "named_struct('x', id, 'y', array(timestamp_micros(id))) as struct, "
        "cast(id as varchar(9)) as text, interval '1' day * id as days, cast(id as float) as f, "
        "cast(id as byte) as b, cast(id as short) as s, timestamp_micros(id) as moment, "
        "cast(null as string) as nothing, id > 5 as flag from range(40)"
    ).coalesce(1)
    table.write.parquet(str(tmp_path / "left"))
    table.select("s", "k", "list", "moment").write.parquet(str(tmp_path / "right"))
    streams = Streams(spark, tmp_path)
    joined = streams.joined()
    plain = [spark.read.parquet(str(tmp_path / side)) for side in ("left", "right")]
    theirs = plain[0].join(plain[1], "k").schema
    assert [(f.dataType, f.nullable) for f in joined.schema] == [
        (f.dataType, f.nullable) for f in theirs
    ]
    streams.start(joined).awaitTermination()
    # Maps cannot be put into a set.
    ours = [repr(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(ours) == sorted(repr(row) for row in _renamed(plain, joined).collect())
    assert len(ours) == 160


def _renamed(plain: list[DataFrame], joined: DataFrame) -> DataFrame:
    return plain[0].join(plain[1], "k").toDF(*joined.columns)


def test_names_that_need_care(spark: SparkSession, tmp_path: Path) -> None:
    left = pa.table({"a.b": [1, 2], "x`y": [3, 4], "tag": [5, 6]})
    right = pa.table({"c d": [2, 2], "tag": [7, 8], "c0": [9, 10]})
    streams = Streams(spark, tmp_path, {"on": {"a.b": "c d"}}).write(left, right, batches=1)
    assert streams.run() == {(2, 4, 6, 2, 7, 9): 1, (2, 4, 6, 2, 8, 10): 1}
    assert spark.read.parquet(str(tmp_path / "out")).columns == [
        "a.b", "x`y", "tag", "c d", "tag_right", "c0",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("instances", [1, 5])
def test_any_number_of_instances_gives_the_same(streams: Streams, instances: int) -> None:
    assert streams.run(instances=instances) == streams.expected()
    assert list(streams.versions()) == list(range(instances))


@pytest.mark.slow  # the next test has a condition, too
def test_a_condition_on_the_pair(brief: Streams) -> None:
    expected = brief.expected()
    found = brief.run(condition=pc.field("a") < pc.field("b"))
    assert found == {row: count for row, count in expected.items() if row[1] < row[3]}


def test_what_the_user_put_on_the_streams_holds(brief: Streams) -> None:
    from watersmeet.spark.streams.join import join_streams

    left = brief.stream("left").where("a % 2 = 0").withColumn("twice", sf.col("a") * 2)
    right = brief.stream("right").drop("b_text")
    joined = join_streams(
        left,
        right,
        on="k",
        condition=pc.field("a") < pc.field("b"),
        state=brief.path / "state",
        ticks=None,
    )
    brief.start(joined.where("twice > 100").select("twice", "b")).awaitTermination()
    plain = [brief.spark.read.parquet(str(brief.path / side)) for side in ("left", "right")]
    plain[0] = plain[0].where("a % 2 = 0").withColumn("twice", sf.col("a") * 2)
    expected = plain[0].join(plain[1], "k").where("twice > 100 AND a < b").select("twice", "b")
    assert brief.output() == counted(expected)


@pytest.mark.slow
def test_batches_that_bring_nothing_to_some_instances(spark: SparkSession, tmp_path: Path) -> None:
    left = pa.table({"k": [1, 2, 3, 4], "a": [1, 2, 3, 4]})
    right = pa.table({"k": [4, 3, 2, 1], "b": [1, 2, 3, 4]})
    streams = Streams(spark, tmp_path).write(left, right, batches=4)
    streams.add("left", left.slice(0, 0), "empty")
    streams.add("right", right.slice(0, 0), "empty")
    assert streams.run(instances=4) == streams.expected()
    assert {versions[-1] for versions in streams.versions().values()} == {4}


def test_partitions_that_spark_has_moved_are_noticed(brief: Streams) -> None:
    joined = brief.joined()
    with pytest.raises(StreamingQueryException, match=r"(?s)moved the join's.*repartition\(\)"):
        brief.start(joined.coalesce(1)).awaitTermination()
    assert not brief.outputs()


@pytest.mark.slow
def test_moved_partitions_without_rows_are_noticed_too(spark: SparkSession, tmp_path: Path) -> None:
    left, right = pa.table({"k": [1], "a": [1]}), pa.table({"k": [1], "b": [1]})
    streams = Streams(spark, tmp_path, {"on": "k", "instances": 3}).write(left, right, batches=1)
    with pytest.raises(StreamingQueryException, match=r"(?s)moved the join's.*repartition\(\)"):
        streams.start(streams.joined().coalesce(1)).awaitTermination()
    assert not streams.outputs()


@pytest.mark.slow
def test_a_union_that_moves_partitions_is_noticed(brief: Streams) -> None:
    joined = brief.joined()
    others = brief.stream("left").selectExpr("k", "a", "a_text", "a", "a_text")
    with pytest.raises(StreamingQueryException, match=r"(?s)moved the join's.*repartition\(\)"):
        brief.start(others.union(joined)).awaitTermination()
    assert not brief.outputs()


@pytest.mark.slow
def test_what_follows_the_join_may_be_repartitioned(brief: Streams) -> None:
    brief.start(brief.joined().repartition(1)).awaitTermination()
    assert brief.output() == brief.expected()


@pytest.mark.slow
def test_a_join_of_a_join(streams: Streams) -> None:
    """Three streams in one query, each join with a state of its own."""
    from watersmeet.spark.streams.join import join_streams

    third = streams.stream("right").selectExpr("k", "b as c").where("c % 3 = 0")
    first = streams.joined(state=streams.path / "first")
    joined = join_streams(first, third, on="k", state=streams.path / "second", ticks=None)
    streams.start(joined).awaitTermination()
    plain = [streams.spark.read.parquet(str(streams.path / side)) for side in ("left", "right")]
    others = plain[1].selectExpr("k", "b as c").where("c % 3 = 0")
    assert streams.output() == counted(plain[0].join(plain[1], "k").join(others, "k"))
