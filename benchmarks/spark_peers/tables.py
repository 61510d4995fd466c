"""Joins of two tables: Spark's own, and ours by waves or as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import watersmeet as wm
from benchmarks.spark_peers.stage import Stage, settings, to_noop
from benchmarks.spark_plans import ON_FILE_PATH


def written_by_spark(stage: Stage) -> dict[str, Any]:
    """Both tables as files that Spark writes, as many as there are."""
    for table in (stage.relations.left, stage.relations.right):
        rows = stage.table(table).repartition(len(table.files()))
        folder = stage.settings["folders"][Path(table.folder).name]
        rows.write.format(stage.settings["format"]).save(folder)
    return {"seconds": stage.seconds}


def spark_table(stage: Stage) -> dict[str, Any]:
    """Spark's own join, with as many shuffle partitions as are asked for."""
    return _spark_join(stage, stage.tables)


def spark_plan(stage: Stage) -> dict[str, Any]:
    """Spark's own join of the plans that are asked for."""
    return _spark_join(stage, stage.frames)


def _spark_join(stage: Stage, frames: Callable[[], tuple[DataFrame, DataFrame]]) -> dict[str, Any]:
    chosen = {}
    if "partitions" in stage.settings:
        chosen["spark.sql.shuffle.partitions"] = str(stage.settings["partitions"])
    with settings(stage.spark, chosen), _limited(stage):
        joined = stage.joined_by_spark(*frames())
        notes = {"join": _join_name(joined)}
        to_noop(joined)
        seconds = stage.seconds
        return {"seconds": seconds, **stage.found(joined), "notes": notes}


@contextmanager
def _limited(stage: Stage) -> Iterator[None]:
    """Cancel Spark's jobs after the seconds that are the limit, if there is one."""
    limit = stage.settings.get("limit")
    if limit is None:
        yield
        return
    timer = threading.Timer(limit, stage.spark.sparkContext.cancelAllJobs)
    timer.start()
    try:
        yield
    except Exception as error:
        if stage.seconds < limit:
            raise
        raise TimeoutError(f"not done after {limit} s") from error
    finally:
        timer.cancel()


def _join_name(joined: DataFrame) -> str:
    """Which of its joins Spark chose."""
    executed = joined._jdf.queryExecution().executedPlan().toString()
    return next((word for word in executed.split() if word.endswith("Join")), "unknown")


def spark_first(stage: Stage) -> dict[str, Any]:
    """The first row of Spark's own join."""
    stage.joined_by_spark(*stage.tables()).take(1)
    return {"seconds": stage.seconds}


def spark_count(stage: Stage) -> dict[str, Any]:
    """The simplest of queries: how many rows one table has."""
    stage.tables()[0].count()
    return {"seconds": stage.seconds}


def waves(stage: Stage) -> dict[str, Any]:
    """Ours, every wave's rows written as soon as they are there."""
    return _waves(stage, stage.tables(), way="file path")


def waves_of_plan(stage: Stage) -> dict[str, Any]:
    """Ours on the plans that are asked for."""
    way = "file path" if stage.settings["plan"] in ON_FILE_PATH else "row path"
    return _waves(stage, stage.frames(), way=way)


def waves_of_rows(stage: Stage) -> dict[str, Any]:
    """Ours on DataFrames with a filter that only Spark computes; it drops no row."""
    left, right = (table.where(f"sign({table.columns[0]}) >= -1") for table in stage.tables())
    return _waves(stage, (left, right), way="row path")


def waves_computed(stage: Stage) -> dict[str, Any]:
    """Ours with a key that is computed on both sides, by arithmetic that changes no value."""
    left, right = (
        table.selectExpr(
            f"({table.columns[0]} * 2) DIV 2 AS {table.columns[0]}", *table.columns[1:]
        )
        for table in stage.tables()
    )
    return _waves(stage, (left, right), way="file path")


def _waves(stage: Stage, tables: tuple[DataFrame, DataFrame], *, way: str) -> dict[str, Any]:
    with wm.join(*tables, on=stage.on, memory=stage.memory) as run:
        written = written_waves(stage, run)
        total = written[-1][1]
        result = {
            "seconds": written[-1][0],
            "first_seconds": next(second for second, rows in written if rows),
            "half_seconds": next(second for second, rows in written if 2 * rows >= total),
            "notes": {"written": written, **notes_of(run)},
            "rows": total,
            # The rows of the waves that were written, read again.
            **stage.found(run.to_df()),
        }
        if run.explain().count(way) != 2:
            raise RuntimeError(f"Not both tables take the {way}:\n{run.explain()}")
        return result


def first_wave(stage: Stage) -> dict[str, Any]:
    """Ours up to the first rows."""
    with wm.join(*stage.tables(), on=stage.on, memory=stage.memory) as run:
        for wave in run:
            to_noop(wave.rows)
            if wave.progress.rows_out:
                break
        return {"seconds": stage.seconds}


def whole(stage: Stage) -> dict[str, Any]:
    """Ours as one DataFrame."""
    return _whole(stage, stage.tables())


def whole_of_plan(stage: Stage) -> dict[str, Any]:
    """Ours on the plans that are asked for, as one DataFrame."""
    return _whole(stage, stage.frames())


def _whole(stage: Stage, tables: tuple[DataFrame, DataFrame]) -> dict[str, Any]:
    with wm.join(*tables, on=stage.on, memory=stage.memory) as run:
        rows = run.to_df()
        to_noop(rows)
        seconds = stage.seconds
        result = {"seconds": seconds, "rows": run.metrics.rows_out, "notes": notes_of(run)}
        return {**result, **stage.found(rows)}


def written_waves(stage: Stage, run: Any) -> list[tuple[float, int]]:
    """Write each wave's rows when they are there; for each, the second, and all results so far."""
    written: list[tuple[float, int]] = []
    for wave in run:
        to_noop(wave.rows)
        written.append((stage.seconds, wave.progress.rows_out))
    return written


def notes_of(run: Any) -> dict[str, Any]:
    """How a run of ours went."""
    names = ("rows_read", "rows_out", "scan_seconds", "join_seconds", "bytes_spilled", "kept")
    waves = run.metrics.as_dict()["waves"]
    return {
        "explain": run.explain().splitlines(),
        "waves": [{name: wave[name] for name in names} for wave in waves],
    }
