"""Workers that die, tasks that are tried again and attempts that race change no row of a join."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.workers import watched, workers

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_waves")]

ROWS = 20_000
MB = 2**20


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[DataFrame]:
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(3)
    for name in "ab":
        table = pa.table({"k": random.integers(0, ROWS, ROWS), name: np.arange(ROWS)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=3_000)
    return [spark.read.parquet(str(folder / f"{name}.parquet")) for name in "ab"]


def counted(dataframe: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in dataframe.collect())


@pytest.fixture(scope="module")
def undisturbed(tables: list[DataFrame]) -> Counter[tuple[Any, ...]]:
    return counted(tables[0].join(tables[1], on="k"))


def once(flag: Path, act: Callable[[], None]) -> None:
    """Do something the first time that any process comes here."""
    with suppress(FileExistsError):
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        act()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    """A condition that raises ends the join; a worker that leaves without a word does not."""
    os._exit(1)


@pytest.mark.parametrize("act", [die, fail])
@pytest.mark.parametrize("row", [0, 15_000], ids=["first wave", "late wave"])
def test_a_join_task_is_lost_in_the_middle_of_a_wave(
    tables: list[DataFrame],
    undisturbed: Counter[tuple[Any, ...]],
    tmp_path: Path,
    act: Callable[[], None],
    row: int,
) -> None:
    """The condition runs inside the join's own tasks, and brings one of them down."""
    flag = tmp_path / "happened"

    def disturb(pairs: pa.RecordBatch) -> pa.Array:
        if pc.max(pairs.column("a")).as_py() >= row:
            once(flag, act)
        return pa.array(np.ones(len(pairs), np.bool_))

    with wm.join(tables[0], tables[1], on="k", condition=disturb) as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
    assert flag.exists()
    assert rows == undisturbed


def test_workers_are_killed_at_any_moment(
    spark: SparkSession, tables: list[DataFrame], undisturbed: Counter[tuple[Any, ...]]
) -> None:
    """Each wave loses a worker, scanning or joining or between its tasks."""
    with wm.join(tables[0], tables[1], on="k") as run:
        rows: Counter[tuple[Any, ...]] = Counter()
        for number, wave in enumerate(run):
            rows += counted(wave.rows)
            alive = workers(spark)
            killer = threading.Timer(0.02 * number, lambda pids=alive: _kill(pids))
            killer.start()
        killer.join()
    assert rows == undisturbed


def _kill(processes: list[int]) -> None:
    for process in processes[:1]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_two_attempts_of_a_task_find_the_same_rows_in_files_of_their_own(
    tables: list[DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What speculation does, which Spark never does on a single machine."""
    attempts: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def twice(spark: Any, tasks: Any, work: Any, **names: str) -> Iterator[Any]:
        pairs = [(work(task), work(task)) for task in tasks]
        attempts.extend(pairs)
        return [second for _, second in pairs]  # type: ignore[return-value]

    monkeypatch.setattr("watersmeet.spark.tables.run.run_tasks", twice)
    with wm.join(tables[0], tables[1], on="k") as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
        for one, other in attempts:
            for first, second in zip(one["records"], other["records"], strict=True):
                assert first["rows_out"] == second["rows_out"]
                assert not set(first["files"]) & set(second["files"])
        assert rows == counted(tables[0].join(tables[1], on="k"))
    assert attempts


Way = Callable[[SparkSession, Path, pa.Table], DataFrame]


def _parquet(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    pq.write_table(table, folder / "rows.parquet", row_group_size=len(table) // 10)
    return spark.read.parquet(str(folder / "rows.parquet"))


def _staged(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    return _parquet(spark, folder, table).where("sign(k) >= -1")


def _csv(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    options = pacsv.WriteOptions(include_header=False, quoting_style="none")
    pacsv.write_csv(table, folder / "rows.csv", options)
    kinds = {"int64": "bigint", "string": "string"}
    columns = (f"{each.name} {kinds[str(each.type)]}" for each in table.schema)
    return spark.read.schema(", ".join(columns)).csv(str(folder / "rows.csv"))


def _mixed(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    """A union of all files that our tasks read."""
    third = len(table) // 3
    lines, objects, rest = table.slice(0, third), table.slice(third, third), table.slice(2 * third)
    for name in ("lines", "rest"):
        (folder / name).mkdir()
    csv = _csv(spark, folder / "lines", lines)
    _parquet(spark, folder, objects).write.json(str(folder / "objects"))
    json = spark.read.schema(csv.schema).json(str(folder / "objects"))
    return csv.union(json).union(_parquet(spark, folder / "rest", rest))


def _called(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    same = sf.udf(lambda value: value, "string")
    return _parquet(spark, folder, table).withColumn("text", same("text"))


@pytest.mark.parametrize(
    ("way", "length"),
    [
        (_staged, 8),
        *(
            pytest.param(way, length, marks=pytest.mark.slow)
            for way in (_parquet, _staged, _csv, _mixed, _called)
            for length in (8, 1_000, 20_000)
            if (way, length) != (_staged, 8)
        ),
    ],
)
def test_workers_stay_inside_the_memory(
    spark: SparkSession, tmp_path: Path, way: Way, length: int
) -> None:
    """Measured from outside: the cap over all workers, and a constant for each of them. Long texts
    come often, so that footers say little of their bytes."""
    rows, cap, each = min(1_000_000, 160_000_000 // length), 48 * MB, 96 * MB
    random = np.random.default_rng(5)
    left = pa.table({"k": random.permutation(rows), "a": np.arange(rows)})
    texts = pc.cast(pa.array(np.arange(rows) % 100), pa.string())
    left = left.append_column("text", pc.utf8_rpad(texts, length, "x"))
    right = pa.table({"k": random.permutation(rows), "b": np.arange(rows)})
    for name in "ab":
        (tmp_path / name).mkdir()
    frames = way(spark, tmp_path / "a", left), _parquet(spark, tmp_path / "b", right)
    with watched(spark) as seen, wm.join(*frames, on="k", memory=cap) as run:
        assert sum(wave.rows.count() for wave in run) == rows
        assert ("row path" in run.explain()) == (way is _staged)
    assert seen.peaks
    biggest = sorted(seen.peaks.values())[-spark.sparkContext.defaultParallelism :]
    assert sum(biggest) <= cap + each * len(biggest)


def test_workers_and_homes_together_stay_inside_the_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With memory for all operators each task has two processes, which scan and join at a time."""
    rows, cap, each = 1_000_000, 256 * MB, 96 * MB
    random = np.random.default_rng(5)
    for name in "ab":
        table = pa.table({"k": random.permutation(rows), name: np.arange(rows)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=100_000)
    left, right = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "ab")
    with watched(spark) as seen, wm.join(left, right, on="k", memory=cap) as run:
        assert sum(wave.rows.count() for wave in run) == rows
    assert run.metrics.waves[-1].kept
    tasks = spark.sparkContext.defaultParallelism
    assert len(seen.peaks) >= 2 * tasks
    operators = min(cap, run.metrics.waves[-1].instances * run.metrics.memory_peak)
    assert seen.together <= operators + each * tasks
