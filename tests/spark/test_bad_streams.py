"""A catalogue of what cannot be joined as streams, and of states that cannot be looked into."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.refusals import Bad, Inputs, Make, check_refused

pytestmark = pytest.mark.spark

_numbers = itertools.count()


def _place(inputs: Inputs) -> str:
    return inputs.folder(f"state-{next(_numbers)}")


def of(left: Make, right: Make, **options: Any) -> Make:
    def call(inputs: Inputs) -> Any:
        given: dict[str, Any] = {"on": "k", "state": _place(inputs)} | options
        return wm.join_streams(left(inputs), right(inputs), **given)

    return call


def left(inputs: Inputs) -> Any:
    return inputs.left_stream


def right(inputs: Inputs) -> Any:
    return inputs.right_stream


def with_options(**options: Any) -> Make:
    return of(left, right, **options)


STREAMS = [
    Bad("left is None", of(lambda i: None, right), "left"),
    Bad("left is a path", of(lambda i: i.folder("left"), right), "left is a str"),
    Bad("right is a list", of(left, lambda i: [1]), "right is a list"),
    Bad("right is an Arrow table", of(left, lambda i: pa.table({"k": [1]})), "right"),
    Bad("right is a reader", of(left, lambda i: i.spark.readStream), "right"),
    Bad("left is a table", of(lambda i: i.left, right), "left.*wm.join"),
    Bad("right is a table", of(left, lambda i: i.right), "right.*wm.join"),
    Bad("both are tables", of(lambda i: i.left, lambda i: i.right), "left.*wm.join"),
    Bad("a stream without columns", of(left, lambda i: i.right_stream.select()), "column"),
    Bad(
        "two columns of one name",
        of(left, lambda i: i.right_stream.select("k", "b", sf.col("a").alias("b"))),
        "'b'",
    ),
    Bad(
        "two columns that differ in case only",
        of(left, lambda i: i.right_stream.select("k", "b", sf.col("a").alias("B"))),
        "'B'",
    ),
    Bad(
        "an interval beside the key",
        of(left, lambda i: i.right_stream.selectExpr("k", "make_interval(1) AS v")),
        "'v'",
    ),
    Bad("no such column", with_options(on="nope"), "'nope'"),
    Bad("no key", with_options(on=[]), "no key"),
    Bad("on None", with_options(on=None), "on=None"),
    Bad("on a number", with_options(on=3), "on=3"),
    Bad("on a map", with_options(on="m"), "'m'"),
    Bad("on text and number", with_options(on={"k": "t"}), "cannot be compared"),
    Bad("on times of two kinds", with_options(on="moment"), "time zone"),
    Bad("how of no kind", with_options(how="sideways"), "sideways"),
    Bad("how None", with_options(how=None), "how=None"),
    Bad("how left without ends", with_options(how="left"), "ends"),
    Bad("how full with one end", with_options(how="full", ends=("a < 0", None)), "ends"),
    Bad("algorithm unknown", with_options(algorithm="magic"), "magic"),
    Bad("memory in words", with_options(memory="lots"), "lots"),
    Bad("memory of nothing", with_options(memory=0), "memory=0"),
    Bad("memory None", with_options(memory=None), "memory=None"),
    Bad("memory for one instance only", with_options(memory="1MB"), "memory='1MB'"),
    Bad("wait_threshold negative", with_options(wait_threshold=-1), "wait_threshold=-1"),
    Bad("wait_threshold a text", with_options(wait_threshold="1 s"), "wait_threshold='1 s'"),
    Bad("wait_threshold NaN", with_options(wait_threshold=float("nan")), "wait_threshold=nan"),
    Bad("wait_threshold None", with_options(wait_threshold=None), "wait_threshold=None"),
    Bad("ticks in words", with_options(ticks="often"), "ticks='often'"),
    Bad("ticks of nothing", with_options(ticks=0), "ticks=0"),
    Bad("ticks negative", with_options(ticks=-1), "ticks=-1"),
    Bad("ticks True", with_options(ticks=True), "ticks=True"),
    Bad("ticks a list", with_options(ticks=[1]), "ticks="),
    Bad("ticks infinite", with_options(ticks=float("inf")), "ticks=inf"),
    Bad("instances none", with_options(instances=0), "instances=0"),
    Bad("instances a text", with_options(instances="2"), "instances='2'"),
    Bad("instances True", with_options(instances=True), "instances=True"),
    Bad("instances without end", with_options(instances=10**9), "instances=1000000000"),
    Bad("suffixes of one", with_options(suffixes=("_x",)), "suffixes"),
    Bad("suffixes that do not tell names apart", with_options(suffixes=("", "")), "suffixes"),
    Bad("ends a text", with_options(ends="a < 0"), "ends='a < 0'"),
    Bad("ends of three", with_options(ends=("a < 0",) * 3), "ends"),
    Bad("ends with a number", with_options(ends=(1, 2)), "ends"),
    Bad("ends of nothing there", with_options(ends=("nope < 0", "b < 0")), "nope"),
    Bad("ends that do not parse", with_options(ends=("a <", "b < 0")), "ends"),
    Bad("ends that are no condition", with_options(ends=("a + 1", "b < 0")), "ends"),
    Bad("ends that are empty", with_options(ends=("", "b < 0")), "ends"),
    Bad(
        "an end that is a column of no one",
        lambda i: with_options(ends=(sf.col("nope") < 0, None))(i),
        "nope",
    ),
    Bad("a condition of nothing there", with_options(condition=pc.field("nope") > 1), "nope"),
    Bad("a condition that is a number", with_options(condition=3), "condition"),
    Bad("SQL that is no condition", with_options(condition="a + b"), "condition"),
    Bad("SQL of nothing there", with_options(condition="nope > b"), "nope"),
]  # fmt: skip


def _a_file(inputs: Inputs) -> str:
    (inputs.path / "file").write_text("in the way")
    return str(inputs.path / "file")


def _inside(name: str) -> Make:
    def call(inputs: Inputs) -> Any:
        return with_options(state=f"{inputs.folder(name)}/state")(inputs)

    return call


STATES = [
    Bad("state None", with_options(state=None), "state=None"),
    Bad("state a number", with_options(state=3), "state=3"),
    Bad("state empty", with_options(state=""), "state=''"),
    Bad("state below a file", lambda i: with_options(state=i.in_the_way())(i), "below"),
    Bad("state a file", lambda i: with_options(state=_a_file(i))(i), "file"),
    Bad("state of the system's own", with_options(state="/proc/nowhere"), "/proc/nowhere"),
    Bad("state of no known kind", with_options(state="nowhere://x/y"), "nowhere"),
    Bad("state without a bucket", with_options(state="s3://"), "s3"),
    Bad("state that is no URI", with_options(state="://"), "state="),
    Bad("state inside the left source", _inside("left"), "left"),
    Bad("state inside the right source", _inside("right"), "right"),
    Bad("metrics of None", lambda i: wm.stream_metrics(None), "state=None"),  # type: ignore[arg-type]
    Bad("metrics of a number", lambda i: wm.stream_metrics(3), "state=3"),  # type: ignore[arg-type]
    Bad("metrics of nothing", lambda i: wm.stream_metrics(""), "state=''"),
    Bad("metrics of a place that is not", lambda i: wm.stream_metrics(i.folder("no")), "no"),
    Bad("metrics of a table", lambda i: wm.stream_metrics(i.folder("left")), "left"),
    Bad("words for a place that is not", lambda i: wm.explain_stream(i.folder("no")), "no"),
    Bad("words for a table", lambda i: wm.explain_stream(i.folder("left")), "left"),
    Bad("metrics of a file", lambda i: wm.stream_metrics(_a_file(i)), "file"),
    Bad("metrics of no known kind", lambda i: wm.stream_metrics("nowhere://x"), "nowhere"),
    Bad("a log of None", lambda i: wm.StreamLog(None, state=_place(i)), "None"),  # type: ignore[arg-type]
    Bad("a log of a number", lambda i: wm.StreamLog(3, state=_place(i)), "3"),  # type: ignore[arg-type]
    Bad("a log of nothing", lambda i: wm.StreamLog("", state=_place(i)), "log"),
    Bad("a log that is a folder", lambda i: wm.StreamLog(i.path, state=_place(i)), "log"),
    Bad("a log below a file", lambda i: wm.StreamLog(i.in_the_way(), state=_place(i)), "log"),
    Bad("a log on S3", lambda i: wm.StreamLog("s3://b/x", state=_place(i)), "log"),
    Bad("a log of no state", lambda i: wm.StreamLog(i.folder("x"), state=None), "state=None"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(spark, Path(tmp_path_factory.mktemp("bad"))).write()


@pytest.mark.parametrize("bad", [*STREAMS, *STATES], ids=str)
def test_what_cannot_be_joined_as_streams(inputs: Inputs, bad: Bad) -> None:
    check_refused(bad, inputs)
