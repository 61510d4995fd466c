"""wm.aggregate against Spark's own aggregate of its own join: rows, types and the last digit."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.aggregates.oracle import assert_same, by_group
from tests.aggregates.readings import blocks_of
from tests.spark.workers import workers
from watersmeet.aggregates import allowance
from watersmeet.aggregates.ask.specification import Aggregate
from watersmeet.aggregates.sampling.designs import COMPLETE, DESIGNS, RANGES, RIPPLE, Design
from watersmeet.errors import InputChanged, InvalidArgument, SchemaError
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.spark.aggregates import engine
from watersmeet.spark.aggregates.aggregate import SparkAggregate
from watersmeet.spark.aggregates.tasks import read_blocks
from watersmeet.spark.jobs import run_tasks

pytestmark = pytest.mark.spark

ORDERS, ITEMS, KEYS = 3_000, 9_000, 3_500
_SPARK_JOIN = {"semi": "left_semi", "anti": "left_anti"}


def table(name: str, rows: int, *, clustered: bool) -> pa.Table:
    random = np.random.default_rng(len(name))
    keys = random.integers(0, KEYS, rows)
    keys[random.random(rows) < 0.01] = 7
    columns = {
        "id": pa.array(np.sort(keys) if clustered else keys),
        "kind": pa.array(random.choice(["a", "b", "c"], rows)),
        "units": pa.array(random.integers(-3, 50, rows).astype(np.int32)),
        "price": pa.array(
            [Decimal(int(cents)) / 100 for cents in random.integers(-99, 9_999, rows)],
            pa.decimal128(9, 2),
        ),
        "weight": pa.array(random.normal(5, 2, rows)),
    }
    nulls = {name: random.random(rows) < 0.05 for name in ("kind", "units", "price", "weight")}
    for column, mask in nulls.items():
        columns[column] = pc.if_else(pa.array(mask), None, columns[column])
    if not clustered:
        columns["id"] = pc.if_else(pa.array(random.random(rows) < 0.02), None, columns["id"])
    prefix = name[0]
    return pa.table({c if c == "id" else f"{prefix}_{c}": v for c, v in columns.items()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, rows in (("orders", ORDERS), ("items", ITEMS)):
        for clustered in (False, True):
            path = folder / f"{name}-{'clustered' if clustered else 'mixed'}.parquet"
            pq.write_table(table(name, rows, clustered=clustered), path, row_group_size=rows // 200)
    return folder


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little that small tables do not fit, which no user can ask for."""
    monkeypatch.setattr(allowance, "SMALLEST_MEMORY", 0)


Frames = tuple[DataFrame, DataFrame]


@pytest.fixture
def mixed(spark: SparkSession, folder: Path) -> Frames:
    return _frames(spark, folder, "mixed")


@pytest.fixture
def clustered(spark: SparkSession, folder: Path) -> Frames:
    return _frames(spark, folder, "clustered")


def _frames(spark: SparkSession, folder: Path, which: str) -> Frames:
    orders, items = (
        spark.read.parquet(str(folder / f"{name}-{which}.parquet")) for name in ("orders", "items")
    )
    return orders, items


def sparks_own(
    frames: Frames,
    *,
    how: str = "inner",
    group_by: Sequence[str] = (),
    where: str | None = None,
    **aggregates: Aggregate,
) -> DataFrame:
    joined = frames[0].join(frames[1], on="id", how=_SPARK_JOIN.get(how, how))
    joined = joined.where(where) if where else joined
    columns = [
        F.expr(f"{asked.kind.value}({asked.expression or '*'})").alias(name)
        for name, asked in aggregates.items()
    ]
    return joined.groupBy(*group_by).agg(*columns)


def assert_equal(run: SparkAggregate, wanted: DataFrame, group_by: Sequence[str] = ()) -> None:
    """The run's last answer, with Spark's names and types."""
    found = run.to_df(run.exact())
    types = [(field.name, field.dataType) for field in found.schema]
    assert types == [(field.name, field.dataType) for field in wanted.schema]
    rows = [
        by_group([row.asDict() for row in each.collect()], group_by) for each in (found, wanted)
    ]
    assert_same(rows[0], rows[1])


ASKED: dict[str, Any] = {
    "n": wm.count(),
    "priced": wm.count("i_price"),
    "units": wm.sum("o_units"),
    "net": wm.sum("i_price * (1 - o_price)"),
    "mean": wm.avg("i_price"),
    "per_unit": wm.avg("i_units"),
    "weight": wm.sum("o_weight * i_weight"),
    "spread": wm.stddev("i_weight"),
}
COMMON: dict[str, Any] = {"revenue": wm.sum("i_price"), "n": wm.count()}


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_every_design_gives_sparks_answer(mixed: Frames, clustered: Frames, design: Design) -> None:
    frames = clustered if design is RANGES else mixed
    group_by, where = ["o_kind", "i_kind"], "i_units > 0 AND (o_units < i_units OR o_kind = 'a')"
    memory = "100kB" if design is RIPPLE else "1GB"
    asked: dict[str, Any] = {"group_by": group_by, "where": where, **ASKED}
    with wm.aggregate(frames[0], frames[1], on="id", memory=memory, **asked) as run:
        assert blocks_of(run).plan.design is design
        looks = list(run)
        assert len(looks) > 1
        assert not looks[0].exact
        assert looks[-1].exact
        assert_equal(run, sparks_own(frames, **asked), group_by)


@pytest.mark.parametrize(
    "how",
    ["left", *(pytest.param(how, marks=pytest.mark.slow) for how in ("right", "semi", "anti"))],
)
def test_other_joins(mixed: Frames, how: str) -> None:
    asked: dict[str, Any] = {"n": wm.count(), "units": wm.sum("o_units")}
    group_by = ["o_kind"]
    if how in ("left", "right"):
        asked |= {"filled": wm.sum("coalesce(i_units, 5)"), "net": wm.avg("o_price * i_price")}
        group_by = ["i_kind", "o_kind"]
    with wm.aggregate(*mixed, on="id", how=how, group_by=group_by, **asked) as run:
        assert_equal(run, sparks_own(mixed, how=how, group_by=group_by, **asked), group_by)


def test_the_users_filters_projections_and_names(mixed: Frames) -> None:
    orders, items = mixed
    orders = orders.where("o_units > 5").select(F.col("id"), F.col("o_kind").alias("odd `name`"))
    items = items.withColumnRenamed("i_price", "price").where(F.col("i_kind").isin("a", "b"))
    asked: dict[str, Any] = {"s": wm.sum("price"), "n": wm.count()}
    with wm.aggregate(orders, items, on="id", group_by="odd `name`", **asked) as run:
        assert "file path" in run.explain()
        # In a list of columns Spark would read the backquotes as its own.
        plainly = (orders.withColumnRenamed("odd `name`", "odd"), items)
        own = sparks_own(plainly, group_by=["odd"], **asked).withColumnRenamed("odd", "odd `name`")
        assert_equal(run, own, ["odd `name`"])


def not_plain(way: str, frame: DataFrame, path: Path) -> DataFrame:
    if way == "udf":
        # Our tasks call only functions that Spark gives their rows by Arrow.
        kept = F.udf(lambda key: key is None or key % 5 != 0, "boolean", useArrow=False)
        return frame.where(kept("id"))
    if way == "grouped":
        rest = [F.max(name).alias(name) for name in frame.columns if name != "id"]
        return frame.groupBy("id").agg(*rest)
    frame.write.csv(str(path), header=True)
    # With an option that our tasks do not know.
    reader = frame.sparkSession.read.option("maxColumns", 20480)
    return reader.csv(str(path), header=True, schema=frame.schema)


@pytest.mark.parametrize(
    ("ways", "memory"),
    [
        pytest.param(("udf", ""), "1GB", marks=pytest.mark.slow),
        (("", "grouped"), "1GB"),
        (("csv", "udf"), "1GB"),
        (("grouped", "csv"), "10kB"),
        pytest.param(("", "csv"), "10kB", marks=pytest.mark.slow),
    ],
)
def test_dataframes_that_are_no_plain_scan(
    spark: SparkSession, mixed: Frames, tmp_path: Path, ways: tuple[str, str], memory: str
) -> None:
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    storage = tmp_path / "storage"
    storage.mkdir()
    frames = tuple(
        not_plain(way, frame, tmp_path / frame.columns[1]) if way else frame
        for way, frame in zip(ways, mixed, strict=True)
    )
    own = sparks_own((frames[0], frames[1]), group_by=["o_kind"], **COMMON)
    with wm.aggregate(
        frames[0], frames[1], on="id", group_by="o_kind", memory=memory, storage=storage, **COMMON
    ) as run:
        assert "row path" in " ".join(run.explain().split())
        assert (blocks_of(run).plan.design is RIPPLE) == (memory != "1GB")
        assert_equal(run, own, ["o_kind"])
        assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive
    assert list(storage.iterdir()) == []


@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_of_which_spark_knows_nothing(spark: SparkSession, how: str) -> None:
    """It expects exabytes of them, which must not be believed."""
    frames = (
        spark.createDataFrame([(n, n % 3) for n in range(100)], "id long, a int"),
        spark.createDataFrame([(n, n % 5) for n in range(90)], "id long, b int"),
    )
    asked: dict[str, Any] = {"n": wm.count(), "s": wm.sum("a * b")}
    with wm.aggregate(frames[0], frames[1], on="id", how=how, **asked) as run:
        assert blocks_of(run).plan.design is COMPLETE
        assert_equal(run, sparks_own(frames, how=how, **asked))


def test_partitions_are_sampled_some_at_a_time(spark: SparkSession, mixed: Frames) -> None:
    orders, items = mixed[0], mixed[1].repartition(60)
    with wm.aggregate(orders, items, on="id", **COMMON) as run:
        looks = list(run)
        assert len(looks) > 1
        assert 0 < looks[0].cells.value[1, 0] != looks[-1].cells.value[1, 0]
        assert_equal(run, sparks_own(mixed, **COMMON))
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def once(flag: Path, act: Callable[[], None]) -> None:
    """Do something the first time that any process comes here."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    act()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise RuntimeError("the first attempt fails")


@pytest.mark.parametrize(
    ("task", "act"),
    [
        ("read_blocks", fail),
        ("met", die),
        pytest.param("read_blocks", die, marks=pytest.mark.slow),
        pytest.param("met", fail, marks=pytest.mark.slow),
    ],
)
def test_a_task_that_is_lost_changes_nothing(
    mixed: Frames,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
    act: Callable[[], None],
) -> None:
    flag, work = tmp_path / "happened", getattr(engine, task)

    def disturbed(*arguments: Any, **options: Any) -> Any:
        once(flag, act)
        return work(*arguments, **options)

    monkeypatch.setattr(engine, task, disturbed)
    memory = "100kB" if task == "met" else "1GB"
    with wm.aggregate(*mixed, on="id", memory=memory, group_by="i_kind", **COMMON) as run:
        assert_equal(run, sparks_own(mixed, group_by=["i_kind"], **COMMON), ["i_kind"])
    assert flag.exists()


def test_workers_are_killed_between_looks(spark: SparkSession, clustered: Frames) -> None:
    with wm.aggregate(*clustered, on="id", **COMMON) as run:
        for _ in run:
            for process in workers(spark)[:1]:
                os.kill(process, signal.SIGKILL)
        assert_equal(run, sparks_own(clustered, **COMMON))


def test_stop_ends_the_jobs_and_resume_goes_on(
    spark: SparkSession, mixed: Frames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released, work = tmp_path / "begun", tmp_path / "released", read_blocks
    held = tmp_path / "held"

    def waiting(*arguments: Any, **options: Any) -> Any:
        if held.exists():
            begun.touch()
            while not released.exists():
                time.sleep(0.01)
        return work(*arguments, **options)

    monkeypatch.setattr(engine, "read_blocks", waiting)
    with wm.aggregate(*mixed, on="id", **COMMON) as run:
        first = run.latest
        held.touch()
        run._look_ahead()
        while not begun.exists():
            time.sleep(0.01)
        # Were the job not cancelled, this would never end.
        stopping = threading.Thread(target=run.stop)
        stopping.start()
        stopping.join(60)
        ended = not stopping.is_alive()
        held.unlink()
        released.touch()
        stopping.join()
        assert ended
        assert list(run) == []
        assert run.history == [first]
        assert_equal(run.resume(), sparks_own(mixed, **COMMON))


def test_only_totals_come_to_the_driver(clustered: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some numbers for each block and group, however many rows there are."""
    sizes: list[int] = []

    def listening(*arguments: Any, **options: Any) -> Any:
        found = run_tasks(*arguments, **options)
        sizes.extend(len(pickle.dumps(totals)) for some in found for totals in some)
        return found

    monkeypatch.setattr(engine, "run_tasks", listening)
    with wm.aggregate(*clustered, on="id", group_by="o_kind", **COMMON) as run:
        *_, last = run
    # A sketch of up to 256 large values is the largest part.
    assert 0 < max(sizes) < 12_000
    assert last.answer["n"].to_pylist()


@pytest.fixture
def changing(spark: SparkSession, tmp_path: Path) -> tuple[Path, DataFrame]:
    rows = pa.table({"id": np.arange(6_000) % 100, "x": np.arange(6_000.0)})
    path = tmp_path / "x.parquet"
    pq.write_table(rows, path, row_group_size=50)
    return path, spark.read.parquet(str(path))


@pytest.mark.parametrize("change", ["rewritten", "gone"])
def test_a_file_that_changes_while_it_is_read(
    mixed: Frames, changing: tuple[Path, DataFrame], change: str
) -> None:
    path, frame = changing
    with wm.aggregate(mixed[0], frame, on="id", n=wm.count()) as run:
        assert not run.latest.exact
        if change == "gone":
            path.unlink()
        else:
            pq.write_table(pa.table({"id": np.arange(9), "x": np.arange(9.0)}), path)
        with pytest.raises(InputChanged, match=path.name):
            run.exact()


def test_days_that_meet_times_are_not_read_by_ranges(spark: SparkSession, tmp_path: Path) -> None:
    """A day is a small number in its file and a time a large one, though they are equal."""
    days = [datetime(2024, 1, 1 + day) for day in range(28) for _ in range(20)]
    for name, kind in (("l", pa.date32()), ("r", pa.timestamp("us"))):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"id": pa.array(days, kind)}), path, row_group_size=20)
    frames = [spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "lr"]
    with wm.aggregate(frames[0], frames[1], on="id", n=wm.count()) as run:
        assert run.exact().answer["n"].to_pylist() == [28 * 400]


@pytest.mark.parametrize("memory", ["1GB", "100kB"])
def test_arithmetic_that_fails_in_a_task_fails_for_the_caller(mixed: Frames, memory: str) -> None:
    with wm.aggregate(*mixed, on="id", memory=memory, s=wm.sum("o_price / (i_units - 7)")) as run:
        for _ in range(2):
            with pytest.raises(ArithmeticFailed, match="by zero"):
                run.exact()
        assert run.history == []


def test_estimates_as_a_dataframe(mixed: Frames) -> None:
    with wm.aggregate(*mixed, on="id", group_by="o_kind", **COMMON) as run:
        (first,) = run.to_df().where("o_kind = 'a'").collect()
        assert first.n_low <= first.n <= first.n_high
        assert isinstance(first.n_trusted, bool)


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    """Values that pandas cannot tell apart, and types that Arrow has only one of."""
    path = str(tmp_path_factory.mktemp("odd") / "l")
    spark.range(0, 600, 1, 3).selectExpr(
        "id % 10 id",
        "element_at(array(double('nan'), 0D, -0D, null, double('inf')), cast(id % 5 + 1 as int)) z",
        "cast(if(id % 4 = 0, null, id % 4) as int) i",
        "cast(make_dt_interval(cast(id % 3 as int)) as interval day) days",
        "timestamp'1969-12-31 23:59:59.999999' + make_dt_interval(cast(id % 3 as int)) at",
        "named_struct('p', id % 2) st", "array(id % 2) ar", "map('p', id % 2) ma",
    ).write.parquet(path)  # fmt: skip
    return spark.read.parquet(path), spark.range(10)


@pytest.mark.parametrize("zone", ["America/St_Johns", pytest.param("UTC", marks=pytest.mark.slow)])
@pytest.mark.parametrize("column", ["z", "i", "days", "at"])
def test_groups_come_back_as_spark_has_them(
    spark: SparkSession, odd: Frames, column: str, zone: str
) -> None:
    """NaN is no null, whole numbers beside null stay whole, intervals keep their unit."""
    asked: dict[str, Any] = {"n": wm.count(), "s": wm.sum("z"), "m": wm.avg("z")}
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with wm.aggregate(*odd, on="id", group_by=column, **asked) as run:
            assert_equal(run, sparks_own(odd, group_by=[column], **asked), [column])
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


@pytest.mark.parametrize("column", ["st", "ar", "ma"])
def test_groups_of_several_values_are_refused_at_the_call(odd: Frames, column: str) -> None:
    with pytest.raises(SchemaError, match=f"group_by has '{column}'"):
        wm.aggregate(*odd, on="id", group_by=column, n=wm.count())


def test_what_cannot_be_asked(spark: SparkSession, mixed: Frames) -> None:
    orders, items = mixed
    stream = spark.readStream.format("rate").load()
    for frames, words in (
        ((stream.withColumn("id", F.col("value")), items), "stream"),
        ((orders, pa.table({"id": [1]})), "no Spark DataFrame"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            wm.aggregate(frames[0], frames[1], on="id", n=wm.count())

    class Connected:
        """What a DataFrame of Spark Connect looks like from here."""

        def mapInArrow(self) -> None: ...

    with pytest.raises(InvalidArgument, match="Spark Connect"):
        wm.aggregate(orders, Connected(), on="id", n=wm.count())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="does not fit in memory"):
        wm.aggregate(*mixed, on="id", how="left", memory="1kB", n=wm.count())
