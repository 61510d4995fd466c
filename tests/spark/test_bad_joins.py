"""A catalogue of what cannot be joined: every refusal names cause and remedy, in our own words."""

from __future__ import annotations

from collections.abc import Callable
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


def with_options(**options: Any) -> Make:
    """A join that is good but for these."""

    def call(inputs: Inputs) -> Any:
        with wm.join(inputs.left, inputs.right, **({"on": "k"} | options)) as run:
            return run.to_df()

    return call


def of(left: Make, right: Make, **options: Any) -> Make:
    def call(inputs: Inputs) -> Any:
        with wm.join(left(inputs), right(inputs), **({"on": "k"} | options)) as run:
            return run.to_df().count()

    return call


def left(inputs: Inputs) -> Any:
    return inputs.left


def right(inputs: Inputs) -> Any:
    return inputs.right


def _raises(batch: pa.RecordBatch) -> Any:
    raise KeyError("no such thing")


def _variant(inputs: Inputs) -> Any:
    return inputs.right.selectExpr("k", "parse_json('1') AS v")


def _void(inputs: Inputs) -> Any:
    return inputs.right.selectExpr("k", "NULL AS v")


def _fails(value):  # type: ignore[no-untyped-def]  # Spark takes hints for a wish.
    raise KeyError("no such thing")


# ---- what is joined -----------------------------------------------------------------------------
FRAMES = [
    Bad("left is None", of(lambda i: None, right), "left"),
    Bad("left is a path", of(lambda i: i.folder("left"), right), "left is a str"),
    Bad("right is a list of rows", of(left, lambda i: [(1, 2)]), "right is a list"),
    Bad("right is a pandas frame", of(left, lambda i: i.right.select("k").toPandas()), "right"),
    Bad("right is an Arrow table", of(left, lambda i: pa.table({"k": [1]})), "right is a Table"),
    Bad("left is an RDD", of(lambda i: i.left.select("k").rdd, right), "left"),
    Bad("right is a grouped frame", of(left, lambda i: i.right.groupBy("k")), "right"),
    Bad("right is a class", of(left, lambda i: type(i.right)), "right"),
    Bad("left streams", of(lambda i: i.left_stream, right), "left.*stream"),
    Bad("right streams", of(left, lambda i: i.right_stream), "right.*stream"),
    Bad("a frame without columns", of(left, lambda i: i.right.select()), "column"),
    Bad(
        "two columns of one name",
        of(left, lambda i: i.right.select("k", "b", sf.col("a").alias("b"))),
        "'b'",
    ),
    Bad(
        "two columns that differ in case only",
        of(left, lambda i: i.right.select("k", "b", sf.col("a").alias("B"))),
        "'B'",
    ),
    Bad("a variant beside the key", of(left, _variant), "'v'.*variant"),
    Bad("a void beside the key", of(left, _void), "'v'.*void"),
    Bad("files that are gone on the left", of(lambda i: i.vanishing("gone"), right), "gone"),
    Bad("files that are gone on the right", of(left, lambda i: i.vanishing("gone")), "gone"),
    Bad(
        "files that are gone behind a computed column",
        of(left, lambda i: i.vanishing("gone").selectExpr("k + 1 AS k", "b")),
        "gone|right",
    ),
    Bad(
        "arithmetic that fails while the rows are made",
        of(left, lambda i: i.right.selectExpr("k", "1 DIV (k - k) AS q")),
        "right",
    ),
    Bad(
        "a function of the user's that fails",
        of(left, lambda i: i.right.select("k", sf.udf(_fails, "int")("b").alias("u"))),
        "right",
    ),
    Bad(
        "a frame whose function gives other types than it said",
        of(left, lambda i: i.right.select("k").mapInArrow(lambda batches: iter([3]), "k long")),
        "right",
    ),
]  # fmt: skip


# ---- on what ------------------------------------------------------------------------------------
KEYS = [
    Bad("no such column", with_options(on="nope"), "'nope'"),
    Bad("a column of the left side only", with_options(on="x"), "right.*'x'"),
    Bad("a column of the right side only", with_options(on="b"), "left.*'b'"),
    Bad("no key at all", with_options(on=[]), "no key"),
    Bad("an empty dict", with_options(on={}), "no key"),
    Bad("an empty name", with_options(on=""), "''"),
    Bad("None", with_options(on=None), "on=None"),
    Bad("a number", with_options(on=3), "on=3"),
    Bad("a list with a number", with_options(on=["k", 3]), "on="),
    Bad("a set", with_options(on={"k"}), "on="),
    Bad("a tuple of three", with_options(on=[("k", "k", "k")]), "on="),
    Bad("one key twice", with_options(on=["k", "k"]), "twice"),
    Bad("a dict to a number", with_options(on={"k": 3}), "on="),
    Bad("a dict to nothing there", with_options(on={"k": "nope"}), "'nope'"),
    Bad("a dict from nothing there", with_options(on={"nope": "k"}), "'nope'"),
    Bad("an inequality", with_options(on="k > 3"), "k > 3"),
    Bad("a lambda", with_options(on=lambda one, two: True), "on="),
    Bad("a map", with_options(on="m"), "'m'.*map"),
    Bad("an array", with_options(on={"l": "k"}), "'l'"),
    Bad("a variant", of(left, _variant, on={"k": "v"}), "'v'"),
    Bad("text and number", with_options(on={"k": "t"}), "cannot be compared"),
    Bad("number and text", with_options(on={"t": "k"}), "cannot be compared"),
    Bad("boolean and number", with_options(on={"flag": "k"}), "cannot be compared"),
    Bad("struct and number", with_options(on={"s": "k"}), "'s'"),
    Bad("a time with a zone and one without", with_options(on="moment"), "time zone"),
    Bad("decimals of 58 digits together", with_options(on="d"), "58 digits"),
    Bad(
        "a column that is ambiguous",
        of(lambda i: i.left.select("k", sf.col("a").alias("k")), right),
        "'k'",
    ),
    Bad(
        "two collations",
        of(
            lambda i: i.left.selectExpr("collate(t, 'UTF8_LCASE') AS t"),
            lambda i: i.right.selectExpr("collate(t, 'UNICODE') AS t"),
            on="t",
        ),
        "collat",
    ),
    Bad(
        "a calendar interval",
        of(
            lambda i: i.left.selectExpr("k", "make_interval(0, 0, 0, int(a)) AS i"),
            lambda i: i.right.selectExpr("k", "make_interval(0, 0, 0, int(b)) AS i"),
            on="i",
        ),
        "'?i'?",
    ),
]  # fmt: skip

# ---- how ----------------------------------------------------------------------------------------
OPTIONS = [
    Bad("how of no kind", with_options(how="sideways"), "sideways"),
    Bad("how is a cross join", with_options(how="cross"), "cross"),
    Bad("how is empty", with_options(how=""), "how=''"),
    Bad("how is None", with_options(how=None), "how=None"),
    Bad("how is a number", with_options(how=1), "how=1"),
    Bad("algorithm unknown", with_options(algorithm="magic"), "magic"),
    Bad("algorithm None", with_options(algorithm=None), "algorithm=None"),
    Bad("algorithm a number", with_options(algorithm=7), "algorithm=7"),
    Bad("memory in words", with_options(memory="lots"), "lots"),
    Bad("memory empty", with_options(memory=""), "memory=''"),
    Bad("memory None", with_options(memory=None), "memory=None"),
    Bad("memory negative", with_options(memory=-1), "memory=-1"),
    Bad("memory of nothing", with_options(memory=0), "memory=0"),
    Bad("memory of a kilobyte", with_options(memory="1KB"), "1KB"),
    Bad("memory a fraction", with_options(memory=0.5), "memory=0.5"),
    Bad("memory in an unknown unit", with_options(memory="64 potatoes"), "potatoes"),
    Bad("memory True", with_options(memory=True), "memory=True"),
    Bad("instances none", with_options(instances=0), "instances=0"),
    Bad("instances negative", with_options(instances=-2), "instances=-2"),
    Bad("instances a text", with_options(instances="two"), "instances='two'"),
    Bad("instances a fraction", with_options(instances=1.5), "instances=1.5"),
    Bad("instances True", with_options(instances=True), "instances=True"),
    Bad("instances without end", with_options(instances=10**9), "instances=1000000000"),
    Bad("seed a text", with_options(seed="x"), "seed='x'"),
    Bad("seed None", with_options(seed=None), "seed=None"),
    Bad("seed a fraction", with_options(seed=0.5), "seed=0.5"),
    Bad("suffixes a text", with_options(suffixes="_x"), "suffixes"),
    Bad("suffixes of one", with_options(suffixes=("_x",)), "suffixes"),
    Bad("suffixes of three", with_options(suffixes=("", "_x", "_y")), "suffixes"),
    Bad("suffixes None", with_options(suffixes=None), "suffixes=None"),
    Bad("suffixes with None", with_options(suffixes=(None, "_y")), "suffixes"),
    Bad("suffixes that do not tell names apart", with_options(suffixes=("", "")), "suffixes"),
    Bad(
        "suffixes that make a name that is there",
        of(lambda i: i.left.selectExpr("k", "a", "x AS a_right"), right),
        "a_right",
    ),
]  # fmt: skip

CONDITIONS = [
    Bad("a condition of nothing there", with_options(condition=pc.field("nope") > 1), "nope"),
    Bad("a condition that is no condition", with_options(condition=pc.field("b")), "bool"),
    Bad("a condition of two kinds", with_options(condition=pc.field("t") > 1), "condition"),
    Bad("a condition that is a number", with_options(condition=3), "condition"),
    Bad("a condition that is a list", with_options(condition=["a > b"]), "condition"),
    Bad("SQL of nothing there", with_options(condition="nope > b"), "nope"),
    Bad("SQL that does not parse", with_options(condition="a >"), "condition"),
    Bad("SQL that is no condition", with_options(condition="a + b"), "condition"),
    Bad("SQL that is empty", with_options(condition=""), "condition"),
    Bad("a function that fails", with_options(condition=_raises), "condition"),
    Bad(
        "a function that gives too little",
        with_options(condition=lambda batch: pa.array([True])),
        "condition",
    ),
    Bad(
        "a function that gives numbers",
        with_options(condition=lambda batch: batch.column("b")),
        "condition",
    ),
    Bad("a function that gives nothing", with_options(condition=lambda batch: None), "condition"),
]  # fmt: skip

# ---- where to -----------------------------------------------------------------------------------
PLACES = [
    Bad("storage is a number", with_options(storage=3), "storage=3"),
    Bad("storage is empty", with_options(storage=""), "storage"),
    Bad("storage below a file", lambda i: with_options(storage=i.in_the_way())(i), "storage"),
    Bad("storage of the system's own", with_options(storage="/proc/nowhere"), "storage"),
    Bad("storage of no known kind", with_options(storage="nowhere://x/y"), "storage.*nowhere"),
    Bad("storage on S3 without a bucket", with_options(storage="s3://"), "storage"),
    Bad("storage that is no URI", with_options(storage="://"), "storage"),
    Bad("storage that Spark does not know", with_options(storage="gs://b/x?a=1"), "storage"),
    Bad("spill_dir below a file", lambda i: with_options(spill_dir=i.in_the_way())(i), "spill_dir"),
    Bad("spill_dir is a number", with_options(spill_dir=3), "spill_dir=3"),
    Bad("spill_dir is empty", with_options(spill_dir=""), "spill_dir"),
    Bad("spill_dir is a URI", with_options(spill_dir="s3://bucket/x"), "spill_dir"),
    Bad("spill_dir of the system's own", with_options(spill_dir="/proc/nowhere"), "spill_dir"),
]  # fmt: skip


def _run(inputs: Inputs, **options: Any) -> Any:
    return wm.join(inputs.left, inputs.right, **({"on": "k"} | options))


def _written_twice(inputs: Inputs) -> None:
    with _run(inputs) as run:
        run.write(inputs.folder("written"))
        run.write(inputs.folder("written"))


def _written(**options: Any) -> Make:
    def call(inputs: Inputs) -> Any:
        with _run(inputs) as run:
            run.write(**({"path": inputs.folder("elsewhere")} | options))

    return call


def _closed(use: Callable[[Any], Any]) -> Make:
    def call(inputs: Inputs) -> Any:
        run = _run(inputs)
        run.close()
        return use(run)

    return call


USES = [
    Bad("a closed run's rows", _closed(lambda run: run.to_df()), "closed"),
    Bad("a closed run's waves", _closed(list), "closed"),
    Bad("a closed run's writing", _closed(lambda run: run.write("/tmp/never")), "closed"),
    Bad("a closed run entered again", _closed(lambda run: run.__enter__()), "closed"),
    Bad("writing over what is there", _written_twice, "written"),
    Bad("writing in no known format", _written(format="papyrus"), "papyrus"),
    Bad("writing in no known mode", _written(mode="sometimes"), "sometimes"),
    Bad("writing in a format of None", _written(format=None), "format=None"),
    Bad("writing in a mode of None", _written(mode=None), "mode=None"),
    Bad("writing in a mode that the format lacks", _written(format="noop"), "noop"),
    Bad("writing to a place of no known kind", _written(path="nowhere://x/y"), "nowhere"),
    Bad("writing to a number", _written(path=3), "path=3"),
    Bad("writing to an empty path", _written(path=""), "path=''"),
    Bad("writing to no path", _written(path=None), "path"),
    Bad("writing where nobody may", _written(path="/proc/nowhere/x"), "/proc/nowhere"),
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(spark, Path(tmp_path_factory.mktemp("bad"))).write()


@pytest.mark.parametrize("bad", [*FRAMES, *KEYS, *OPTIONS, *CONDITIONS, *PLACES, *USES], ids=str)
def test_what_cannot_be_joined(inputs: Inputs, bad: Bad) -> None:
    check_refused(bad, inputs)
