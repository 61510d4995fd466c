"""Joins of many tables: Spark's own, one after the other, and ours of all at once."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

import watersmeet as wm
from benchmarks.spark_peers.stage import Stage, to_noop
from benchmarks.spark_peers.tables import notes_of, written_waves


def cascade(stage: Stage) -> dict[str, Any]:
    """Spark's own join of many tables, one after the other."""
    for name, frame in _tables(stage).items():
        frame.createOrReplaceTempView(name)
    joined = stage.spark.sql(f"SELECT * FROM {stage.settings['where']}")
    to_noop(joined)
    return {"seconds": stage.seconds, **_found(stage, joined)}


def many_waves(stage: Stage) -> dict[str, Any]:
    """Ours, of many tables at once, every wave's rows written as soon as they are there."""
    return _waves(stage, _tables(stage), way="file path")


def many_waves_of_rows(stage: Stage) -> dict[str, Any]:
    """Ours on DataFrames with a filter that only Spark computes; it drops no row."""
    tables = {
        name: frame.where(f"sign({frame.columns[-1]}) >= -1")
        for name, frame in _tables(stage).items()
    }
    return _waves(stage, tables, way="row path")


def _waves(stage: Stage, tables: dict[str, DataFrame], *, way: str) -> dict[str, Any]:
    with wm.join_many(tables, stage.settings["on"], memory=stage.memory) as run:
        written = written_waves(stage, run)
        if run.explain().count(way) != len(tables):
            raise RuntimeError(f"Not all tables take the {way}:\n{run.explain()}")
        return {
            "seconds": written[-1][0],
            "first_seconds": next(second for second, rows in written if rows),
            "notes": {"written": written, **notes_of(run)},
            **_found(stage, run.to_df()),
        }


def many_whole(stage: Stage) -> dict[str, Any]:
    """Ours, of many tables at once, as one DataFrame."""
    with wm.join_many(_tables(stage), stage.settings["on"], memory=stage.memory) as run:
        rows = run.to_df()
        to_noop(rows)
        seconds = stage.seconds
        return {"seconds": seconds, "notes": notes_of(run), **_found(stage, rows)}


def _tables(stage: Stage) -> dict[str, DataFrame]:
    folders = stage.settings["folders"]
    return {name: stage.spark.read.parquet(folder) for name, folder in folders.items()}


def _found(stage: Stage, rows: DataFrame) -> dict[str, Any]:
    if not stage.check:
        return {}
    found = rows.selectExpr("count(*) AS count", f"{stage.settings['check']} AS total").first()
    assert found is not None
    return {"rows": int(found["count"]), "checksum": int(found["total"])}
