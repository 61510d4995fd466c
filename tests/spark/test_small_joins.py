"""Small tables are joined by the driver: Spark's own rows, without a task of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.crossing import crossed
from tests.spark.sql_types import texts
from watersmeet.errors import InputChanged, StateError
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.jobs import run_tasks
from watersmeet.spark.scans.scan import PlainScan
from watersmeet.spark.tables import inputs, instances
from watersmeet.spark.tables import small as smalls
from watersmeet.spark.tables.instances import Instance
from watersmeet.spark.tables.results import ResultWriter
from watersmeet.spark.tables.run import JoinRun

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("small")]

ROWS = 900
TYPES = {
    "inner": "inner", "left": "left", "right": "right", "full": "full",
    "semi": "left_semi", "anti": "left_anti",
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables in three row groups each, with null keys and keys that come often."""
    folder = tmp_path_factory.mktemp("small")
    random = np.random.default_rng(5)
    for name in "ab":
        keys = random.integers(0, 600, ROWS)
        keys[:30] = 7
        columns = {"k": pa.array(keys, mask=random.random(ROWS) < 0.02), name: np.arange(ROWS)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=300)
    return folder


@pytest.fixture
def tables(spark: SparkSession, places: Path) -> tuple[DataFrame, DataFrame]:
    left, right = (spark.read.parquet(str(places / f"{name}.parquet")) for name in "ab")
    return left, right


def ranged(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 3).selectExpr("if(id % 50 = 0, null, id % 700) AS k", "id AS a")


def listed(spark: SparkSession) -> DataFrame:
    rows = [(None if n % 50 == 0 else n % 700, f"text {n}") for n in range(ROWS)]
    return spark.createDataFrame(rows, "k bigint, a string")


# Left sides that are no plain scans, and how many jobs it takes to have their rows.
LEFTS: dict[str, tuple[Callable[[SparkSession], DataFrame], int]] = {
    "range": (ranged, 1),
    "rows of the program": (listed, 1),
    "random": (lambda spark: ranged(spark).where(sf.rand(seed=3) > 0.3), 1),
    "limit": (lambda spark: ranged(spark).limit(100), 1),
    "union": (lambda spark: ranged(spark).union(ranged(spark)), 1),
    "udf": (lambda spark: ranged(spark).withColumn("u", sf.udf(lambda a: a + 1, "int")("a")), 1),
    "exploded": (lambda spark: ranged(spark).select("k", sf.explode(sf.array("a", "k"))), 1),
    "no rows": (lambda spark: ranged(spark).where("a < 0"), 1),
}


def jobs(spark: SparkSession) -> int:
    """How many jobs the session has begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def is_here(run: Any) -> bool:
    return "in the driver's process" in " ".join(run.explain().split())


@pytest.mark.parametrize("how", TYPES)
def test_files_are_joined_without_a_job(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], how: str
) -> None:
    left, right = tables
    own = texts(left.join(right, "k", TYPES[how]))
    before = jobs(spark)
    with wm.join(left, right, "k", how) as run:
        joined = run.to_df()
        assert jobs(spark) == before
        assert texts(joined) == own
        assert is_here(run)
        assert run.metrics.rows_read == (ROWS, ROWS)
        assert run.metrics.rows_out == len(own)
    with wm.join(left, right, "k", how) as run:
        (wave,) = run
        assert texts(wave.rows) == own
        assert wave.progress.rows_read == wave.progress.rows_total == (ROWS, ROWS)


@pytest.mark.parametrize(("name", "how"), crossed(LEFTS, ["inner", "full", "anti"]))
def test_rows_that_only_spark_computes_are_collected_or_staged_once(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], name: str, how: str
) -> None:
    make, most = LEFTS[name]
    left, right = make(spark), tables[1]
    own = texts(left.join(right, "k", TYPES[how]))
    before = jobs(spark)
    with wm.join(left, right, "k", how) as run:
        joined = run.to_df()
        assert jobs(spark) <= before + most
        assert texts(joined) == own
        assert is_here(run)
    with wm.join(left, right, "k", how) as run:
        (wave,) = run
        assert texts(wave.rows) == own
        assert is_here(run)


def test_columns_of_fixed_width_are_collected_as_they_are(spark: SparkSession) -> None:
    columns = {
        "flag": "n % 2 = 0", "tiny": "cast(n as tinyint)", "float": "cast(n / 3 as float)",
        "double": "case n when 1 then double('NaN') when 2 then -0.0D else n / 7.0D end",
        "price": "cast(n / 8 as decimal(9, 2))", "huge": "cast(n as decimal(38, 10)) * 10000.5",
        "day": "date_add(date'1999-12-31', cast(n as int))",
        "instant": "timestamp'1999-12-31 23:59:59.123456' + make_dt_interval(0, 0, 0, n)",
        "clock": "timestamp_ntz'1850-01-01 00:00:00' + make_dt_interval(0, 0, 0, n)",
        "span": "make_dt_interval(0, 0, 0, n)",
    }  # fmt: skip
    given = [f"if(n % 7 = 0, null, {value}) AS `{name}`" for name, value in columns.items()]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        left = spark.range(1, 60).withColumnRenamed("id", "n").selectExpr("n", *given)
        right = spark.range(20, 80).selectExpr("id AS n", "id AS other")
        before = jobs(spark)
        with wm.join(left, right, "n", "full") as run:
            joined = run.to_df()
            assert jobs(spark) == before + 2
            assert joined.schema == left.join(right, "n", "full").schema
            assert texts(joined) == texts(left.join(right, "n", "full"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.parametrize("side", ["files", "range"])
def test_a_large_result_is_found_by_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    monkeypatch.setattr(smalls, "_RESULT_BYTES", 100_000)
    frames = [spark.range(300).selectExpr("id % 3 AS k", f"id AS {name}") for name in "ab"]
    if side == "files":
        for number, name in enumerate("ab"):
            frames[number].write.parquet(str(tmp_path / name))
            frames[number] = spark.read.parquet(str(tmp_path / name))
    for whole in (True, False):
        with wm.join(frames[0], frames[1], "k") as run:
            rows = run.to_df() if whole else next(iter(run)).rows
            assert texts(rows) == texts(frames[0].join(frames[1], "k"))
            assert not is_here(run)


def test_a_large_result_of_values_that_are_close(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smalls, "_RESULT_BYTES", 100_000)
    left, right = (spark.range(400).selectExpr(f"id AS {name}") for name in "ab")
    with wm.join(left, right, wm.within(("a", "b"), 30)) as run:
        assert texts(run.to_df()) == texts(left.join(right, sf.expr("abs(a - b) <= 30")))
        assert not is_here(run)


def test_what_the_user_decides_is_left_to_tasks(tables: tuple[DataFrame, DataFrame]) -> None:
    """A function of theirs may take long or end its process, and instances are asked for."""
    conditions: list[dict[str, Any]] = [
        {"condition": lambda pairs: pc.less(pairs["a"], pairs["b"])},
        {"instances": 3},
    ]
    for asked in conditions:
        with wm.join(*tables, "k", **asked) as run:
            assert run.to_df().count() > 0
            assert not is_here(run)
    with wm.join(*tables, "k", condition="a < b") as run:
        assert texts(run.to_df()) == texts(tables[0].join(tables[1], "k").where("a < b"))
        assert is_here(run)


def test_many_small_files_are_left_to_tasks(
    tables: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smalls, "_ROW_GROUPS", 5)
    with wm.join(*tables, "k") as run:
        assert texts(run.to_df()) == texts(tables[0].join(tables[1], "k"))
        assert not is_here(run)


def test_what_needs_more_memory_is_left_to_tasks(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame]
) -> None:
    """The driver joins what fits into a task's memory, without spilling."""
    with wm.join(*tables, "k", memory="2MB") as run:
        assert run.to_df().count() == tables[0].join(tables[1], "k").count()
        assert is_here(run)
    larger = [spark.range(20_000).selectExpr("id AS k", f"id AS {name}") for name in "ab"]
    with wm.join(larger[0], larger[1], "k", memory="2MB") as run:
        assert run.to_df().count() == 20_000
        assert not is_here(run)


# ---- the first of several waves ------------------------------------------------------------


@pytest.mark.usefixtures("in_waves")
@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_the_first_wave_of_files_needs_no_job(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], how: str
) -> None:
    left, right = tables
    own = texts(left.join(right, "k", TYPES[how]))
    with wm.join(left, right, "k", how) as run:
        before = jobs(spark)
        waves = iter(run)
        first = next(waves)
        # No more than the scan of the second, which may have begun meanwhile.
        assert jobs(spark) <= before + 1
        assert 0 < first.progress.rows_read[0] < ROWS
        rows = [first, *waves]
        assert len(rows) == 4
        assert sorted(text for wave in rows for text in texts(wave.rows)) == own
        assert texts(run.to_df()) == own


@pytest.mark.usefixtures("in_waves")
def test_the_first_wave_of_other_rows(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame]
) -> None:
    left, right = spark.range(0, ROWS, 1, 9).selectExpr("cbrt(id) AS a", "id AS k"), tables[1]
    with wm.join(left, right, "k", "full") as run:
        rows = sorted(text for wave in run for text in texts(wave.rows))
        assert len(run.metrics.waves) == 4
        assert rows == texts(left.join(right, "k", "full"))


@pytest.mark.usefixtures("in_waves")
def test_a_run_that_is_stopped_after_its_first_wave(tables: tuple[DataFrame, DataFrame]) -> None:
    """While the scan of the second waits for a moment."""
    with wm.join(*tables, "k") as run:
        waves = iter(run)
        first = next(waves)
        run.stop()
        assert list(waves) == []
        assert first.rows.count() == first.progress.rows_out


@pytest.mark.parametrize("in_several", [False, True])
def test_a_run_is_stopped_while_the_driver_joins(
    few_keys: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch, in_several: bool
) -> None:
    """There is no job that could be cancelled, and few keys may have billions of results."""
    monkeypatch.setattr("watersmeet.spark.tables.plan._PUSHED_ROWS", 100)
    if in_several:
        monkeypatch.setattr("watersmeet.spark.tables.opening.SMALL_BYTES", 0)
    run, found = wm.join(*few_keys, "k"), []

    def stopped(self: ResultWriter, batch: pa.RecordBatch) -> None:
        found.append(len(batch))
        run.stop()

    monkeypatch.setattr(ResultWriter, "append", stopped)
    with run:
        assert list(run) == []
        assert len(found) == 1


def test_a_condition_that_refuses_all_pairs_does_not_go_on_for_ever() -> None:
    """Operators yield nothing meanwhile."""
    rows = pa.schema({"k": pa.int64(), "a": pa.int64()})
    schema = JoinSchema.resolve(rows, rows, "k", condition=pc.field("a") < 0)

    def gone() -> None:
        raise ConnectionError

    condition = instances._checked(schema, gone).condition
    assert condition is not None
    with pytest.raises(ConnectionError):
        condition.holds([])


@pytest.fixture
def few_keys(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, DataFrame]:
    """So few that every wave has results in every instance."""
    frames = []
    for name in "ab":
        table = pa.table({"k": np.arange(ROWS) % 24, name: np.arange(ROWS)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=300)
        frames.append(spark.read.parquet(str(tmp_path / f"{name}.parquet")))
    return frames[0], frames[1]


@pytest.mark.usefixtures("in_waves")
@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_operators_of_the_first_wave_are_built_again_once(
    few_keys: tuple[DataFrame, DataFrame], how: str
) -> None:
    """In homes, from what the driver has read; its results are not delivered again."""
    left, right = few_keys[0], few_keys[1].where("k % 5 > 0")
    with wm.join(left, right, "k", how, instances=3) as run:
        waves = [(wave.progress.rows_out, texts(wave.rows)) for wave in run]
    assert sorted(text for _, rows in waves for text in rows) == texts(
        left.join(right, "k", TYPES[how])
    )
    kept = [(wave.kept, wave.instances) for wave in run.metrics.waves]
    assert kept == [(0, 3), (0, 3), (3, 3), (3, 3)]
    assert waves[0][0] == len(waves[0][1])
    assert how == "anti" or waves[0][0] > 0


@pytest.mark.usefixtures("in_waves")
def test_a_first_wave_that_comes_out_otherwise_is_noticed(
    few_keys: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are forgotten, and homes have no rows to build from."""
    deliver = JoinRun._deliver

    def forgotten(self: JoinRun, done: Any, *given: Any, **named: Any) -> None:
        done.arrived = [replace(each, files=((), ())) for each in done.arrived]
        deliver(self, done, *given, **named)

    monkeypatch.setattr(JoinRun, "_deliver", forgotten)
    with wm.join(*few_keys, "k") as run:
        waves = iter(run)
        assert next(waves).progress.rows_out > 0
        with pytest.raises(StateError, match="and 0 when it was built again"):
            next(waves)


@pytest.mark.usefixtures("in_waves")
def test_the_scan_behind_the_first_wave_leaves_a_core_free(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless somebody waits for it; and each task runs once."""
    begun: list[int] = []

    def noted(spark: SparkSession, tasks: Sequence[Any], work: Any, **names: Any) -> list[Any]:
        begun.append(len(tasks))
        return run_tasks(spark, tasks, work, **names)

    monkeypatch.setattr(inputs, "run_tasks", noted)
    with wm.join(*tables, "k", "full") as run:
        waves = iter(run)
        rows = texts(next(waves).rows)
        scan = run._ahead._begun
        assert scan is not None
        scan[1].result()
        assert len(begun) > 1
        assert max(begun) <= max(spark.sparkContext.defaultParallelism - 1, 1)
        rows += [text for wave in waves for text in texts(wave.rows)]
    assert sorted(rows) == texts(tables[0].join(tables[1], "k", "full"))


def test_values_that_are_close_and_many_tables(tables: tuple[DataFrame, DataFrame]) -> None:
    left, right = tables
    near = left.select("a").join(right.select("b"), sf.expr("abs(a - b) <= 2"))
    with wm.join(left.select("a"), right.select("b"), wm.within(("a", "b"), 2)) as run:
        assert texts(run.to_df()) == texts(near)
        assert is_here(run)
    third = left.sparkSession.range(0, 600, 7).selectExpr("id AS k", "id AS c")
    frames = {"left": left, "right": right, "third": third}
    on = ["left.k = right.k", "right.k = third.k"]
    with wm.join_many(frames, on) as run:
        found = run.to_df().select("a", "b", "c")
        own = left.join(right, "k").join(third, "k").select("a", "b", "c")
        assert texts(found) == texts(own)
        assert is_here(run)


def test_many_tables_of_which_one_is_staged(tables: tuple[DataFrame, DataFrame]) -> None:
    """Rows are copied when they are staged for a join of many."""
    left, right = tables
    third = listed(left.sparkSession).withColumnRenamed("a", "c")
    frames = {"left": left, "right": right, "third": third}
    with wm.join_many(frames, ["left.a = right.b", "right.k = third.k"]) as run:
        own = left.join(right, left.a == right.b).join(third, right.k == third.k)
        assert texts(run.to_df().select("a", "b", "c")) == texts(own.select("a", "b", "c"))


def test_a_file_that_changes_ends_the_join(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        pq.write_table(pa.table({"k": [1, 2, 3]}), tmp_path / f"{name}.parquet")
    left, right = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "ab")
    with wm.join(left, right, "k") as run:
        pq.write_table(pa.table({"k": [1, 2, 3, 4]}), tmp_path / "a.parquet")
        with pytest.raises(InputChanged):
            run.to_df()


def test_nothing_is_left_behind(tables: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    with wm.join(*tables, "k", storage=tmp_path, spill_dir=tmp_path) as run:
        next(iter(run))
        kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
        assert ".parquet" in kinds
        assert ".arrow" not in kinds
        run._files._readers.clear()  # As if nobody held the rows.
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# ---- mistakes that the comparisons above notice --------------------------------------------


def without_the_last_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PlainScan.read

    def read(self: PlainScan, split: Any, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if split.row_group < 2:
            yield from whole(self, split, batch_rows=batch_rows)

    monkeypatch.setattr(PlainScan, "read", read)


def collected_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = smalls.collected

    def twice(*arguments: Any, **named: Any) -> dict[int, list[pa.RecordBatch]]:
        return {n: batches * 2 for n, batches in whole(*arguments, **named).items()}

    monkeypatch.setattr(smalls, "collected", twice)


def never_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfinished(Instance):
        def __init__(self, plan: Any, check: Any) -> None:
            super().__init__(plan, check)
            monkeypatch.setattr(self.operator, "finish", lambda: iter(()), raising=False)
            monkeypatch.setattr(self.operator, "end", lambda input: iter(()), raising=False)

    monkeypatch.setattr(smalls, "Instance", Unfinished)


@pytest.mark.parametrize("mistake", [without_the_last_row_group, collected_twice, never_finished])
def test_mistakes_are_noticed(
    spark: SparkSession,
    tables: tuple[DataFrame, DataFrame],
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
) -> None:
    left, right = ranged(spark), tables[1]
    own = texts(left.join(right, "k", "full"))
    mistake(monkeypatch)
    with wm.join(left, right, "k", "full") as run:
        assert texts(run.to_df()) != own
        assert is_here(run)
