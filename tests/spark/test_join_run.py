"""A run of wm.join from its call to its end: waves, sizes, closing, and what outlives it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from watersmeet.errors import RunClosed, WatersmeetError
from watersmeet.spark.tables import opening
from watersmeet.spark.tables.files import sweep

pytestmark = pytest.mark.spark

ROWS = 3_000


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, DataFrame]:
    for name in "ab":
        table = pa.table({"k": np.arange(ROWS), name: np.arange(ROWS)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=300)
    left, right = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "ab")
    return left, right


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "storage").mkdir()
    return tmp_path / "storage"


def names(storage: Path) -> set[str]:
    """The kinds of files that a run has in its storage."""
    return {path.suffix for path in storage.rglob("*") if path.is_file()}


def forgotten(spark: SparkSession) -> None:
    """Java forgets what Python has let go."""
    gc.collect()
    java: Any = spark.sparkContext._jvm
    java.java.lang.System.gc()
    sweep()


def gone(spark: SparkSession, storage: Path) -> bool:
    """Whether all files go once nobody needs them."""
    for _ in range(10):  # What has just run is held for a moment by the threads that ran it.
        forgotten(spark)
        if not any(storage.iterdir()):
            return True
        spark.range(1).count()
    return False


# ---- closing -------------------------------------------------------------------------------


def test_a_run_whose_session_was_stopped_says_so(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped context has no `_jsc`; whoever asks it for anything gets an AttributeError."""
    with wm.join(*tables, on="k") as run:
        waves = iter(run)
        with monkeypatch.context() as stopped:
            stopped.setattr(spark.sparkContext, "_jsc", None)
            for ask in (run.to_df, lambda: next(waves)):
                with pytest.raises(RunClosed, match="session of this run was stopped"):
                    ask()


def test_a_closed_run_gives_no_rows_and_says_so(
    tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    with wm.join(*tables, on="k") as run:
        assert run.to_df().count() == ROWS
        known = run.explain()
    asks: list[Callable[[], Any]] = [
        lambda: list(run),
        lambda: next(iter(run)),
        run.to_df,
        lambda: run.write(str(tmp_path / "out")),
    ]
    for ask in asks:
        with pytest.raises(RunClosed, match="was closed, and has no more rows"):
            ask()
    assert not (tmp_path / "out").exists()
    # What it knows, it still tells.
    assert run.metrics.rows_out == ROWS
    assert run.explain() == known
    assert repr(run).endswith(
        f"{ROWS:,} results after {run._done[-1].progress.seconds:.1f} s; closed>"
    )
    run.stop()
    run.close()


@pytest.mark.usefixtures("in_waves")
def test_a_run_that_is_closed_between_waves_does_not_just_end(
    tables: tuple[DataFrame, DataFrame],
) -> None:
    run = wm.join(*tables, on="k")
    waves = iter(run)
    next(waves)
    run.close()
    with pytest.raises(RunClosed):
        next(waves)


@pytest.mark.usefixtures("in_waves")
def test_a_run_can_be_iterated_over_again(tables: tuple[DataFrame, DataFrame]) -> None:
    with wm.join(*tables, on="k") as run:
        first = [wave.progress for wave in run]
        assert len(first) == 4
        assert [wave.progress for wave in run] == first
        assert len(run.metrics.waves) == 4


@pytest.mark.usefixtures("in_waves")
def test_a_stopped_run_gives_what_was_delivered(tables: tuple[DataFrame, DataFrame]) -> None:
    with wm.join(*tables, on="k") as run:
        first = next(iter(run))
        run.stop()
        assert [wave.progress for wave in run] == [first.progress]
        assert first.rows.count() == first.progress.rows_out
        assert repr(run).endswith("; stopped>")
        with pytest.raises(WatersmeetError, match="stopped before its result was complete"):
            run.to_df()


def test_stop_from_another_thread_ends_an_iteration_that_waits(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    reached = tmp_path / "reached"

    def wait(pairs: pa.RecordBatch) -> pa.Array:
        reached.touch()
        threading.Event().wait()
        return pa.array([True] * len(pairs))

    run = wm.join(*tables, on="k", condition=wait)
    seen: list[Any] = []
    waiting = threading.Thread(target=lambda: seen.append(list(run)))
    waiting.start()
    while not reached.exists():
        assert waiting.is_alive()
    run.stop()
    waiting.join()
    assert seen == [[]]
    run.close()


def test_a_session_that_was_not_asked_yet_shows_what_it_is(
    tables: tuple[DataFrame, DataFrame],
) -> None:
    with wm.join(*tables, on="k", how="left") as run:
        assert repr(run) == "<JoinRun: left join by rpj, nothing read yet>"
        (wave,) = run
        assert repr(wave).startswith("<Wave: DataFrame[k: bigint, a: bigint, b: bigint]; wave 1 of")


# ---- what outlives a run -------------------------------------------------------------------


def test_a_dataframe_is_usable_after_its_run(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], storage: Path
) -> None:
    with wm.join(*tables, on="k", storage=storage) as run:
        rows = run.to_df()
    # Rows between tasks have gone; what the DataFrame reads has not.
    assert names(storage) == {".parquet", ".lock"}
    assert rows.count() == ROWS
    derived = rows.where("a >= 10").select("b")
    del rows, run
    forgotten(spark)
    assert derived.count() == ROWS - 10
    derived.createOrReplaceTempView("outlived")
    del derived
    forgotten(spark)
    assert spark.sql("SELECT sum(b) FROM outlived").first() == (ROWS * (ROWS - 1) // 2 - 45,)
    spark.catalog.dropTempView("outlived")
    assert gone(spark, storage)


@pytest.mark.slow
def test_an_rdd_of_a_result_is_usable_after_its_run(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], storage: Path
) -> None:
    with wm.join(*tables, on="k", storage=storage) as run:
        rdd = run.to_df().rdd.map(lambda row: row.a)
    del run
    forgotten(spark)
    assert rdd.sum() == ROWS * (ROWS - 1) // 2
    del rdd
    assert gone(spark, storage)


@pytest.mark.usefixtures("in_waves")
def test_the_rows_of_a_wave_are_usable_after_its_run(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], storage: Path
) -> None:
    with wm.join(*tables, on="k", storage=storage) as run:
        waves = list(run)
    assert sum(wave.rows.count() for wave in waves) == ROWS
    del waves, run
    assert gone(spark, storage)


def test_closing_removes_every_file_at_once_if_nothing_was_handed_out(
    tables: tuple[DataFrame, DataFrame], storage: Path
) -> None:
    with wm.join(*tables, on="k", storage=storage):
        assert any(storage.iterdir())
    assert not any(storage.iterdir())


def test_a_result_outlives_the_variable_it_came_from(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], storage: Path
) -> None:
    rows = wm.join(*tables, on="k", storage=storage).to_df()
    forgotten(spark)
    assert rows.count() == ROWS
    del rows
    assert gone(spark, storage)


def test_results_that_were_taken_away_are_never_passed_over(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], storage: Path
) -> None:
    """Not even by a session that is told to go on without missing and damaged files."""
    settings = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
    for setting in settings:
        spark.conf.set(setting, "true")
    try:
        with wm.join(*tables, on="k", storage=storage) as run:
            missing, damaged = run.to_df(), run.to_df()
            files = sorted(storage.rglob("*.parquet"))
            content = files[0].read_bytes()
            files[0].write_bytes(bytes(len(content)))
            with pytest.raises(Py4JError, match="is not a Parquet file"):
                damaged.count()
            files[0].unlink()
            with pytest.raises(Py4JError, match="does not exist"):
                missing.count()
    finally:
        for setting in settings:
            spark.conf.unset(setting)


# ---- how large are the tables? -------------------------------------------------------------


def test_small_tables_come_in_one_wave(tables: tuple[DataFrame, DataFrame]) -> None:
    with wm.join(*tables, on="k") as run:
        (wave,) = run
        assert wave.progress.rows_read == (ROWS, ROWS)
        assert wave.rows.count() == ROWS


def test_tables_that_are_not_small_come_in_several(
    tables: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns of eight bytes a side. In the second of four waves few results come, which is not
    worth its jobs if all of them come soon."""
    nbytes = 2 * ROWS * 16
    ends: list[tuple[int, int, list[float]]] = [
        (nbytes - 1, nbytes - 1, [0.025, 0.175, 0.56, 1]),
        (nbytes - 1, nbytes, [0.025, 0.56, 1]),
        (nbytes, nbytes, [1]),
    ]
    for small, medium, waves in ends:
        monkeypatch.setattr(opening, "SMALL_BYTES", small)
        monkeypatch.setattr(opening, "MEDIUM_BYTES", medium)
        with wm.join(*tables, on="k") as run:
            read = [wave.progress.rows_read for wave in run]
            assert read == [(round(ROWS * share),) * 2 for share in waves]
            assert run.to_df().count() == ROWS


@pytest.mark.parametrize("way", ["file path", "row path"])
def test_small_tables_with_a_large_result_come_in_waves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Every row meets every row: nobody should wait for all of it."""
    monkeypatch.setattr(opening, "SMALL_BYTES", 64 * 1024)
    frames = []
    for name in "ab":
        table = pa.table({"k": np.ones(500, int), name: np.arange(500)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=20)
        frame = spark.read.parquet(str(tmp_path / f"{name}.parquet"))
        frames.append(frame if way == "file path" else frame.where("sign(k) >= -1"))
    with wm.join(frames[0], frames[1], on="k") as run:
        waves = list(run)
        assert run.explain().count(way) == 2
        assert len(waves) == 4
        assert sum(wave.rows.distinct().count() for wave in waves) == 250_000
        assert run.metrics.rows_out == 250_000
    with wm.join(frames[0], frames[1], on="k") as run:
        assert run.to_df().count() == 250_000
        assert len(run.metrics.waves) == 1


def unknown(spark: SparkSession, rows: list[tuple[int, str]], name: str) -> DataFrame:
    """Rows from Python, of which Spark says that they are as many as there can be."""
    return spark.createDataFrame(rows, f"k int, {name} string")


def test_rows_of_unknown_size_are_taken_for_few(spark: SparkSession) -> None:
    left = unknown(spark, [(1, "a"), (2, "b")], "x")
    with wm.join(left, unknown(spark, [(1, "c")], "y"), on="k") as run:
        before = " ".join(run.explain().split())
        assert "how many instances is decided once the rows of the row path have been" in before
        assert run.to_df().collect() == [(1, "a", "c")]
        assert run.metrics.waves[0].instances == spark.sparkContext.defaultParallelism
        assert "operators stay in memory" in " ".join(run.explain().split())


@pytest.mark.parametrize("how", ["inner", "full"])
def test_rows_that_turn_out_to_be_many_are_divided_again(spark: SparkSession, how: str) -> None:
    rows = 20_000
    left = unknown(spark, [(n, f"{n:0100}") for n in range(rows)], "x")
    right = unknown(spark, [(n, f"{n:0100}") for n in range(5, rows + 5)], "y")
    with wm.join(left, right, on="k", how=how, memory="2MB") as run:
        joined = run.to_df()
        assert joined.count() == (rows - 5 if how == "inner" else rows + 5)
        assert joined.where("x != y").count() == 0
        assert run.metrics.waves[0].instances > spark.sparkContext.defaultParallelism
        assert run.metrics.rows_read == (rows, rows)


def test_rows_that_turn_out_to_be_few_are_put_together(spark: SparkSession) -> None:
    """A filter of which Spark knows nothing, over ten million rows, leaves ten."""
    many = spark.range(10_000_000).selectExpr("id AS k", "id AS a").where("a % 1000000 = 0")
    other = spark.range(10_000_000).selectExpr("id AS k", "id AS b").where("b % 500000 = 0")
    with wm.join(many, other, on="k", memory="4MB") as run:
        assert run._plan.instances > 2
        assert sorted(row.k for row in run.to_df().collect()) == [n * 10**6 for n in range(10)]
        assert run.metrics.waves[0].instances == 2


def test_a_join_of_joins_is_not_guessed_to_be_their_product(
    tables: tuple[DataFrame, DataFrame],
) -> None:
    joined = tables[0].join(tables[1], "k").groupBy("k").count()
    with wm.join(joined, tables[1], on="k", memory="4MB") as run:
        assert run.to_df().count() == ROWS
        assert run.metrics.waves[0].instances == 2


def test_an_aggregate_states_no_guess_as_a_size(tables: tuple[DataFrame, DataFrame]) -> None:
    joined = tables[0].join(tables[1], "k").select("k", "a")
    with wm.aggregate(joined, tables[1], on="k", n=wm.count()) as run:
        side = next(line for line in run.explain().split("\n") if line.startswith("left"))
        assert "B" not in side.split("because")[0]
        assert run.exact().answer.to_pylist() == [{"n": ROWS}]


# ---- places and sessions -------------------------------------------------------------------


def test_a_storage_may_be_named_from_where_we_are(
    tables: tuple[DataFrame, DataFrame], storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java and the tasks are elsewhere."""
    monkeypatch.chdir(storage.parent)
    with wm.join(*tables, on="k", storage=storage.name) as run:
        assert run.to_df().count() == ROWS


def test_tables_of_two_sessions_of_one_spark_are_joined_as_spark_does(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    other = spark.newSession().read.parquet(str(tmp_path / "b.parquet"))
    with wm.join(tables[0], other, on="k") as run:
        assert run.to_df().count() == tables[0].join(other, "k").count() == ROWS


def test_a_result_is_written_over_or_beside_what_is_there_if_asked(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    path = tmp_path / "written"
    with wm.join(*tables, on="k") as run:
        for mode, rows in (("error", 1), ("append", 2), ("ignore", 2), ("Overwrite", 1)):
            run.write(path, mode=mode)
            assert spark.read.parquet(str(path)).count() == rows * ROWS
        run.write(tmp_path / "text", format="csv")
        assert spark.read.csv(str(tmp_path / "text")).count() == ROWS
