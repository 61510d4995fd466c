"""Streams over Parquet files of which only names travel through Spark: rows are Spark's own."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.streams.faults import Fault
from tests.spark.streams.running import LEFT, Streams
from tests.spark.test_join_types import COLUMNS, texts
from watersmeet.errors import SchemaError
from watersmeet.spark.microbatches.failure import stream_error
from watersmeet.spark.microbatches.state import StateDirectory

pytestmark = pytest.mark.spark

_EARLY = 1_700_000_000
OTHER_KEYS = ["price", "huge", "day", "instant", "bytes", "flag"]
TYPES = {name: value for name, value in COLUMNS.items() if name != "span"}


def by_spark(frame: DataFrame) -> DataFrame:
    """The same rows, by a filter that only Spark computes."""
    return frame.where(f"coalesce(sign({frame.columns[0]}), 0) >= -1")


def paths(state: Path) -> list[str]:
    """The path of each stream, as it is explained."""
    return re.findall(r"^(?:left|right) +((?:file|row) path)", wm.explain_stream(state), re.M)


def in_order(streams: Streams) -> None:
    """Spark takes files in the order of their times, and those of one moment in any order."""
    for file in streams.path.glob("*/*.parquet"):
        os.utime(file, (_EARLY + int(file.stem), _EARLY + int(file.stem)))


class Typed(Streams):
    """Tables that Spark wrote, with a column of each type, and nulls."""

    def lay_out(self, *, partitioned: bool = False) -> Typed:
        columns = [f"if(n % 7 = 0, null, {value}) as `{name}`" for name, value in TYPES.items()]
        rows = self.spark.range(1, 60).withColumnRenamed("id", "n").selectExpr("n", *columns)
        rows = rows.withColumn("part", rows.n % 3).withColumn("when", rows.day)
        for side in ("left", "right"):
            writer = rows.repartition(3).write
            if partitioned:
                writer = writer.partitionBy("part", "when")
            writer.parquet(str(self.path / side))
        return self

    def compare(self, left: Any, right: Any, on: Any) -> None:
        """What the streams give that these functions make, beside Spark's join of tables."""
        folders = [str(self.path / side) for side in ("left", "right")]
        tables = [self.spark.read.parquet(folder) for folder in folders]
        streams = [
            self.spark.readStream.schema(table.schema).parquet(folder)
            for table, folder in zip(tables, folders, strict=True)
        ]
        state = self.path / "state"
        joined = wm.join_streams(left(streams[0]), right(streams[1]), on, state=state, ticks=None)
        assert paths(state) == ["file path", "file path"], wm.explain_stream(state)
        own = left(tables[0]).join(right(tables[1]), on)
        assert [(f.name, f.dataType) for f in joined.schema] == [
            (f.name, f.dataType) for f in own.schema
        ]
        self.start(joined).awaitTermination()
        ours = self.spark.read.schema(own.schema).parquet(str(self.path / "out"))
        assert texts(ours) == texts(own)
        assert own.count()


@pytest.fixture
def typed(spark: SparkSession, tmp_path: Path) -> Typed:
    return Typed(spark, tmp_path)


def test_values_of_all_types_are_sparks_own(typed: Typed) -> None:
    typed.lay_out().compare(
        lambda frame: frame,
        lambda frame: frame.selectExpr("n", *(f"`{name}` AS `{name}_2`" for name in TYPES)),
        "n",
    )


def test_columns_in_paths_filters_and_computed_columns(typed: Typed) -> None:
    typed.lay_out(partitioned=True).compare(
        lambda frame: frame.where("part > 0 AND (`when` IS NULL OR small < 40)").selectExpr(
            "n + 1 AS key", "part", "`when`", "concat(text, '!') AS text"
        ),
        lambda frame: frame.where("n > 5").selectExpr(
            "n AS key",
            "part * 2 AS twice",
            "timestamp_seconds(n) AS at",
            "timestamp_millis(n) AS m",
        ),
        "key",
    )


@pytest.mark.slow
@pytest.mark.parametrize("key", ["text", *OTHER_KEYS])
def test_rows_go_where_spark_would_send_them(typed: Typed, key: str) -> None:
    """A query that begins on the row path goes on with files: partners have to meet."""
    typed.lay_out()
    schema = typed.spark.read.parquet(str(typed.path / "left")).schema
    left, right = (
        typed.spark.readStream.schema(schema).parquet(str(typed.path / side))
        for side in ("left", "right")
    )
    left, right = (
        left.selectExpr(f"`{key}` AS key", "n"),
        right.selectExpr(f"`{key}` AS key", "int"),
    )
    state = typed.path / "state"
    later = typed.path / "later"
    shutil.move(typed.path / "right", later)
    (typed.path / "right").mkdir()
    first = left.where("coalesce(sign(n), 0) >= -1")
    typed.start(
        wm.join_streams(first, right, "key", state=state, ticks=None, instances=3)
    ).awaitTermination()
    assert paths(state) == ["row path", "file path"]
    for file in later.glob("part-*"):
        file.rename(typed.path / "right" / file.name)
    typed.start(
        wm.join_streams(left, right, "key", state=state, ticks=None, instances=3)
    ).awaitTermination()
    assert paths(state) == ["file path", "file path"]
    tables = [typed.spark.read.parquet(str(typed.path / side)) for side in ("left", "right")]
    own = (
        tables[0]
        .selectExpr(f"`{key}` AS key", "n")
        .join(tables[1].selectExpr(f"`{key}` AS key", "int"), "key")
    )
    assert texts(typed.spark.read.parquet(str(typed.path / "out"))) == texts(own)


def contents(state: Path) -> list[Any]:
    """What each instance says of its latest batches, whichever way these came."""
    directory = StateDirectory(str(state))
    found = []
    for number in directory.instances():
        instance = directory.instance(number)
        for version in instance.versions():
            manifest = instance.read(version)
            assert manifest is not None
            found.append((number, version, manifest["contents"]))
    return found


def test_a_batch_is_known_again_whichever_way_it_came(brief: Streams) -> None:
    """A batch that one run has committed in part may be made again by a run on the other path."""
    in_order(brief)
    noted = []
    for name, made in (("files", lambda frame: frame), ("rows", by_spark)):
        state = brief.path / name
        joined = wm.join_streams(
            made(brief.stream("left")),
            made(brief.stream("right")),
            "k",
            how="full",
            ends=("a = 2999", "b = 2499"),
            promises=[wm.punctuated("left", when="a % 500 = 3", pattern={"k": "equal"})],
            on_broken="drop",
            state=state,
            ticks=None,
        )
        checkpoint = str(brief.path / f"checkpoint-{name}")
        writer = joined.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        assert paths(state) == [f"{name[:-1]} path"] * 2, wm.explain_stream(state)
        noted.append(contents(state))
    assert noted[0] == noted[1]
    assert any(each[2]["ends"] for each in noted[0])


@pytest.mark.parametrize("first", ["rows", pytest.param("files", marks=pytest.mark.slow)])
def test_a_query_goes_on_on_the_other_path(
    brief: Streams, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run ends when one instance has committed a batch and Spark has not."""
    made = [by_spark, lambda frame: frame]
    if first == "files":
        made.reverse()

    def joined(path: Any) -> DataFrame:
        left, right = path(brief.stream("left")), path(brief.stream("right"))
        return wm.join_streams(
            left, right, "k", state=brief.path / "state", ticks=None, instances=2
        )

    with monkeypatch.context() as patched:
        fault = Always("emit", "raise", brief.path / "struck")
        patched.setattr("watersmeet.spark.streams.join.run_batch", fault)
        with pytest.raises(StreamingQueryException, match="the fault that the test asked for"):
            brief.start(joined(made[0])).awaitTermination()
    assert 1 in brief.versions()[0]
    assert not (brief.path / "checkpoint" / "commits" / "1").exists()
    brief.start(joined(made[1])).awaitTermination()
    assert brief.output() == brief.expected()


class Always(Fault):
    """Every attempt fails."""

    def strike(self) -> None:
        self.marker.unlink(missing_ok=True)
        super().strike()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda frame: frame.where("a > rand()"), "rand"),
        (lambda frame: frame.where("current_timestamp() > '2020-01-01'"), "the time"),
        (lambda frame: frame.where("sign(a) >= -1"), "sign"),
        (lambda frame: frame.union(frame), "Union"),
        (lambda frame: frame.select("k", "a", "_metadata.file_name"), "_metadata"),
        (lambda frame: frame.dropDuplicates(["a"]), "Deduplicate"),
    ],
)
def test_what_only_spark_can_compute_takes_the_row_path(
    streams: Streams, change: Any, reason: str
) -> None:
    state = streams.path / "state"
    wm.join_streams(change(streams.stream("left")), streams.stream("right"), "k", state=state)
    words = " ".join(wm.explain_stream(state).split())
    assert paths(state) == ["row path", "file path"]
    assert reason in words


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mergeSchema": "true", "datetimeRebaseMode": "LEGACY"}, "datetimeRebaseMode"),
        ({"path": "*"}, "wildcards"),
        ({"format": "orc"}, "orc"),
    ],
)
def test_what_is_not_certain_to_mean_the_same_takes_the_row_path(
    streams: Streams, options: dict[str, str], reason: str
) -> None:
    state, given = streams.path / "state", dict(options)
    schema = streams.stream("left").schema
    reader = streams.spark.readStream.schema(schema).format(given.pop("format", "parquet"))
    folder = streams.path / ("left/*" if given.pop("path", None) else "left")
    left = reader.options(**given).load(str(folder))
    wm.join_streams(left, streams.stream("right"), "k", state=state)
    assert paths(state) == ["row path", "file path"]
    assert reason in wm.explain_stream(state)


def test_many_instances_leave_the_rows_to_spark(streams: Streams) -> None:
    state = streams.path / "state"
    streams.joined(instances=9)
    assert paths(state) == ["row path", "row path"]


def test_files_that_lack_columns_or_have_narrower_ones(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
    narrow = pa.table({"K": pa.array([1, 2, None], pa.int32())})
    wide = pa.table({"x": pa.array([1.5, 2.5]), "k": pa.array([1, 2], pa.int64())})
    pq.write_table(narrow, tmp_path / "left" / "a.parquet")
    pq.write_table(wide, tmp_path / "left" / "b.parquet")
    pq.write_table(pa.table({"k": pa.array([1, 2], pa.int64())}), tmp_path / "right" / "c.parquet")
    schema = "k BIGINT, x DOUBLE"
    left = spark.readStream.schema(schema).parquet(str(tmp_path / "left"))
    right = spark.readStream.schema("k BIGINT").parquet(str(tmp_path / "right"))
    joined = wm.join_streams(left, right, "k", state=tmp_path / "state", ticks=None)
    assert paths(tmp_path / "state") == ["file path", "file path"]
    streams.start(joined).awaitTermination()
    assert streams.output() == Counter([(1, None), (2, None), (1, 1.5), (2, 2.5)])


def test_a_file_that_only_spark_can_read_is_left_to_spark_by_the_next_run(
    streams: Streams,
) -> None:
    """It comes after the call, so that it is too late for the path that was chosen."""
    joined = streams.joined()
    numbers = LEFT.slice(0, 20)
    # Spark reads nothing but microseconds of a timestamp; here a text is a list of bytes.
    odd = numbers.set_column(0, "k", numbers["k"].cast(pa.decimal128(20, 0)))
    streams.add("left", odd, "odd")
    with pytest.raises(StreamingQueryException) as raised:
        streams.start(joined).awaitTermination()
    error = stream_error(raised.value)
    assert isinstance(error, SchemaError)
    assert "odd.parquet" in str(error)
    assert "noted in the state" in str(error)
    (streams.path / "left" / "odd.parquet").unlink()
    assert streams.run() == streams.expected()
    assert paths(streams.path / "state") == ["row path", "file path"]


@pytest.mark.slow
def test_sparks_watermark_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """What follows the join goes by the watermark of a stream whose rows Spark has not seen."""
    found = {}
    for name in ("files", "rows"):
        streams = Streams(spark, tmp_path / name)
        seconds = range(0, 4000, 40)
        times, behind = (
            pa.array([n * step for n in seconds], pa.timestamp("us", "UTC"))
            for step in (1_000_000, 999_000)
        )
        keys = pa.array(seconds, pa.int64())
        left, right = pa.table({"k": keys, "at": times}), pa.table({"k": keys, "behind": behind})
        streams.write(left, right, batches=3)
        in_order(streams)
        one, other = streams.stream("left"), streams.stream("right")
        if name == "rows":
            one, other = by_spark(one), by_spark(other)
        state = streams.path / "state"
        timed = one.withWatermark("at", "10 seconds")
        other = other.withWatermark("behind", "20 seconds")
        joined = wm.join_streams(timed, other, "k", state=state, ticks=None)
        assert paths(state) == [f"{name[:-1]} path"] * 2, wm.explain_stream(state)
        counts = joined.groupBy("at").count()
        query = streams.start(counts.selectExpr("at", "count"))
        query.awaitTermination()
        watermarks = [each.eventTime.get("watermark") for each in query.recentProgress]
        found[name] = streams.output(), [each for each in watermarks if each]
    assert found["files"][0] == found["rows"][0]
    assert found["files"][0].total() > 60
    assert found["files"][1] == found["rows"][1]
