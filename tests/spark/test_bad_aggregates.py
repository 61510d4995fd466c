"""Aggregates that cannot be computed on Spark, and sessions that cannot be had: a catalogue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.refusals import Bad, Inputs, Make, check_refused

pytestmark = pytest.mark.spark


def of(left: Make, right: Make, **options: Any) -> Make:
    def call(inputs: Inputs) -> Any:
        given: dict[str, Any] = {"on": "k", "n": wm.count()} | options
        with wm.aggregate(left(inputs), right(inputs), **given) as run:
            return run.exact()

    return call


def left(inputs: Inputs) -> Any:
    return inputs.left


def right(inputs: Inputs) -> Any:
    return inputs.right


def with_options(**options: Any) -> Make:
    return of(left, right, **options)


def then(use: Callable[[Any], Any], **options: Any) -> Make:
    """A good question, whose answer is used in a bad way."""

    def call(inputs: Inputs) -> Any:
        given: dict[str, Any] = {"on": "k", "n": wm.count()} | options
        with wm.aggregate(inputs.left, inputs.right, **given) as run:
            return use(run)

    return call


def _after_close(use: Callable[[Any], Any]) -> Make:
    def call(inputs: Inputs) -> Any:
        run = wm.aggregate(inputs.left, inputs.right, on="k", n=wm.count())
        run.close()
        return use(run)

    return call


def _until(**goal: Any) -> Make:
    return then(lambda run: list(run.until(**goal)))


TABLES = [
    Bad("a band beside a key", with_options(on=["k", wm.within("k", 1)]), "within 1.*where="),
    Bad("left is None", of(lambda i: None, right), "left"),
    Bad("left is a path", of(lambda i: i.folder("left"), right), "left is a str"),
    Bad("right is an Arrow table", of(left, lambda i: pa.table({"k": [1]})), "right"),
    Bad("left streams", of(lambda i: i.left_stream, right), "left.*stream"),
    Bad("right streams", of(left, lambda i: i.right_stream), "right.*stream"),
    Bad(
        "two columns of one name",
        of(left, lambda i: i.right.select("k", "b", sf.col("a").alias("b")), x=wm.sum("b")),
        "'b'",
    ),
    Bad("files that are gone", of(left, lambda i: i.vanishing("gone")), "gone"),
    Bad(
        "arithmetic that fails while the rows are made",
        of(left, lambda i: i.right.selectExpr("k", "1 DIV (k - k) AS q"), x=wm.sum("q")),
        "right",
    ),
    Bad("no such column", with_options(on="nope"), "'nope'"),
    Bad("on None", with_options(on=None), "on=None"),
    Bad("on no key", with_options(on=[]), "no key"),
    Bad("on a map", with_options(on="m"), "'m'"),
    Bad("on text and number", with_options(on={"k": "t"}), "cannot be compared"),
    Bad("how full", with_options(how="full"), "full"),
    Bad("how None", with_options(how=None), "how=None"),
    Bad("how of no kind", with_options(how="sideways"), "sideways"),
]  # fmt: skip

QUESTIONS = [
    Bad("group_by nothing there", with_options(group_by="nope"), "nope"),
    Bad("group_by a number", with_options(group_by=3), "group_by=3"),
    Bad("group_by a list with None", with_options(group_by=[None]), "group_by"),
    Bad("group_by an expression", with_options(group_by="a + 1"), "a \\+ 1"),
    Bad("group_by one column twice", with_options(group_by=["t", "t"]), "t"),
    Bad("group_by a column of both sides", with_options(group_by="a"), "a"),
    Bad("group_by a struct", with_options(group_by="s"), "'?s'?"),
    Bad("group_by a map", with_options(group_by="m"), "'?m'?"),
    Bad("group_by an array", with_options(group_by="l"), "'?l'?"),
    Bad("where a number", with_options(where=3), "where=3"),
    Bad("where nothing there", with_options(where="nope > 1"), "nope"),
    Bad("where that does not parse", with_options(where="x >"), "x >"),
    Bad("where that is empty", with_options(where=""), "SQL"),
    Bad("where that is no condition", with_options(where="x + 1"), "x \\+ 1"),
    Bad("where of two kinds", with_options(where="x > 'abc'"), "x|abc"),
    Bad("where with a subquery", with_options(where="k IN (SELECT 1)"), "SELECT"),
    Bad("where a column of both sides", with_options(where="a > 1"), "left.a|right.a"),
    Bad("where a Column", lambda i: with_options(where=sf.col("x") > 1)(i), "where"),
    Bad("no aggregate at all", lambda i: wm.aggregate(i.left, i.right, on="k"), "aggregate"),
    Bad("an aggregate that is a text", with_options(x="sum(x)"), "x="),
    Bad("an aggregate that is a Column", lambda i: with_options(x=sf.sum("x"))(i), "x="),
    Bad("a sum of nothing there", with_options(x=wm.sum("nope")), "nope"),
    Bad("a sum of text", with_options(x=wm.sum("left.t")), "t"),
    Bad("an average of times", with_options(x=wm.avg("day")), "day"),
    Bad("a sum of a struct", with_options(x=wm.sum("s")), "'?s'?"),
    Bad("a sum of truth", with_options(x=wm.sum("flag")), "flag"),
    Bad("a sum that does not parse", with_options(x=wm.sum("x *")), "x \\*"),
    Bad("a sum of a sum", with_options(x=wm.sum("sum(x)")), "sum"),
    Bad("a function that is not offered", with_options(x=wm.sum("sqrt(x)")), "sqrt"),
    Bad("a window", with_options(x=wm.sum("rank() OVER (ORDER BY x)")), "rank|OVER"),
    Bad("a sum of None", lambda i: with_options(x=wm.sum(None))(i), "None"),  # type: ignore[arg-type]
    Bad("a sum of a number", lambda i: with_options(x=wm.sum(3))(i), "3"),  # type: ignore[arg-type]
    Bad("an answer named like a group", with_options(group_by="x", x=wm.count()), "x"),
]  # fmt: skip

SETTINGS = [
    Bad("confidence of one", with_options(confidence=1), "confidence=1"),
    Bad("confidence of nothing", with_options(confidence=0), "confidence=0"),
    Bad("confidence in percent", with_options(confidence=95), "confidence=95"),
    Bad("confidence a text", with_options(confidence="95%"), "confidence='95%'"),
    Bad("confidence None", with_options(confidence=None), "confidence=None"),
    Bad("confidence NaN", with_options(confidence=float("nan")), "confidence=nan"),
    Bad("heavy_tails of no kind", with_options(heavy_tails="ignore"), "heavy_tails='ignore'"),
    Bad("heavy_tails None", with_options(heavy_tails=None), "heavy_tails=None"),
    Bad("simultaneous a text", with_options(simultaneous="no"), "simultaneous='no'"),
    Bad("every_look a text", with_options(every_look="no"), "every_look='no'"),
    Bad("memory in words", with_options(memory="lots"), "lots"),
    Bad("memory of nothing", with_options(memory=0), "memory=0"),
    Bad("memory of a kilobyte", with_options(memory="1KB"), "1KB"),
    Bad("memory None", with_options(memory=None), "memory=None"),
    Bad("seed a text", with_options(seed="x"), "seed='x'"),
    Bad("seed None", with_options(seed=None), "seed=None"),
    Bad("seed a fraction", with_options(seed=0.5), "seed=0.5"),
    Bad("storage is empty", with_options(storage=""), "storage=''"),
    Bad("storage a number", with_options(storage=3), "storage=3"),
    Bad("storage below a file", lambda i: with_options(storage=i.in_the_way())(i), "storage"),
    Bad("storage of no known kind", with_options(storage="nowhere://x/y"), "storage"),
    Bad("until nothing", _until(), "until"),
    Bad("until an error in words", _until(relative_error="small"), "relative_error"),
    Bad("until a negative error", _until(relative_error=-0.1), "relative_error"),
    Bad("until no seconds", _until(seconds=0), "seconds=0"),
    Bad("until a text of seconds", _until(seconds="1"), "seconds='1'"),
    Bad("until twice the whole", _until(fraction=2), "fraction=2"),
    Bad("until otherwise", _until(seconds=1, otherwise="cry"), "cry"),
    Bad("a DataFrame of no estimate", then(lambda run: run.to_df(3)), "3|estimate"),
    Bad("a score before the exact answer", then(lambda run: run.score()), "exact"),
    Bad("a forecast in words", then(lambda run: run.outlook("soon")), "soon"),
    Bad("a plot of no known kind", then(lambda run: (run.exact(), run.plot("x.doc"))), "x.doc"),
    Bad("a plot below nothing", then(lambda run: (run.exact(), run.plot("/no/x.svg"))), "/no/x"),
    Bad("a closed run's looks", _after_close(list), "closed"),
    Bad("a closed run's answer", _after_close(lambda run: run.exact()), "closed"),
    Bad("a closed run until", _after_close(lambda run: list(run.until(seconds=9))), "closed"),
    Bad("a closed run resumed", _after_close(lambda run: run.resume()), "closed"),
]  # fmt: skip


def _unnamed(inputs: Inputs) -> Any:
    settings: dict[str, Any] = {"spark.app.name": None}
    return wm.session(**settings)


SESSIONS = [
    Bad("no cores", lambda i: wm.session(cores=0), "cores=0"),
    Bad("cores a text", lambda i: wm.session(cores="two"), "cores='two'"),  # type: ignore[arg-type]
    Bad("cores a fraction", lambda i: wm.session(cores=1.5), "cores=1.5"),  # type: ignore[arg-type]
    Bad("cores True", lambda i: wm.session(cores=True), "cores=True"),
    Bad("other cores than there are", lambda i: wm.session(cores=7), "local"),
    Bad("memory in words", lambda i: wm.session(memory="lots"), "lots"),
    Bad("memory of nothing", lambda i: wm.session(memory=0), "memory=0"),
    Bad("memory a fraction", lambda i: wm.session(memory=0.5), "memory=0.5"),  # type: ignore[arg-type]
    Bad("other memory than there is", lambda i: wm.session(memory="2GB"), "spark.driver.memory"),
    Bad("a setting of nobody's", lambda i: wm.session(master="local"), "master"),
    Bad("a setting that is otherwise", lambda i: wm.session(**{"spark.ui.enabled": True}), "ui"),
    Bad("a setting of None", _unnamed, "spark.app.name"),
    Bad("warm a text", lambda i: wm.session(warm="no"), "warm='no'"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.fixture(scope="module")
def inputs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(spark, Path(tmp_path_factory.mktemp("bad"))).write()


@pytest.mark.parametrize("bad", [*TABLES, *QUESTIONS, *SETTINGS], ids=str)
def test_what_cannot_be_computed(inputs: Inputs, bad: Bad) -> None:
    check_refused(bad, inputs)


@pytest.mark.parametrize("bad", SESSIONS, ids=str)
def test_sessions_that_cannot_be_had(inputs: Inputs, bad: Bad) -> None:
    check_refused(bad, inputs)
