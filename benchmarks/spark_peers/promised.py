"""Peers for streams that say how late their rows may be: watermarks on both sides, in one session.

The times of the tables are whole seconds, and become timestamps here.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import watersmeet as wm
from benchmarks.spark_peers.stage import Stage, settings
from benchmarks.spark_peers.streams import ROCKSDB, streamed

_WIDTH = "INTERVAL 10 MINUTES"


def spark_watermarks(stage: Stage) -> dict[str, Any]:
    """Spark's own stream-stream join; `provider` says where it keeps its state."""
    spark = {"spark.sql.shuffle.partitions": str(stage.spark.sparkContext.defaultParallelism)}
    if stage.settings["provider"] == "RocksDB":
        spark["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
    left, right = _streams(stage)
    width = sf.expr(f"INTERVAL {stage.settings['within_s']} SECONDS")
    near = (left["key"] == right["key"]) & (
        (left["left_time"] >= right["right_time"] - width)
        & (left["left_time"] <= right["right_time"] + width)
    )
    with settings(stage.spark, spark):
        return streamed(stage, left.join(right, near).drop(right["key"]), state=_held_by_spark)


def our_watermarks(stage: Stage) -> dict[str, Any]:
    """Ours; the watermarks are those that the DataFrames have."""
    state = stage.scratch / f"state-{uuid.uuid4().hex}"
    seconds = f"{stage.settings['within_s']} seconds"
    joined = wm.join_streams(
        *_streams(stage),
        on=["key", wm.within(("left_time", "right_time"), seconds)],
        state=state,
        memory=stage.memory,
        on_broken="drop",
    )
    found = streamed(stage, joined)
    records = wm.stream_metrics(state)
    found["notes"] |= {
        "state_bytes": max(record["state_bytes"] for record in records),
        "state_rows": max(record["promises"]["rows_kept"] for record in records),
        "dropped": sum(sum(record["promises"]["broken"].values()) for record in records),
    }
    shutil.rmtree(state)
    return found


def spark_resumed(stage: Stage) -> dict[str, Any]:
    """Spark's own join, which goes on where the query with the same home stopped."""
    partitions = str(stage.spark.sparkContext.defaultParallelism)
    spark = {"spark.sql.shuffle.partitions": partitions}
    if stage.settings["provider"] == "RocksDB":
        spark["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
    left, right = _streams(stage)
    near = (left["key"] == right["key"]) & (
        (left["left_time"] >= right["right_time"] - sf.expr(_WIDTH))
        & (left["left_time"] <= right["right_time"] + sf.expr(_WIDTH))
    )
    with settings(stage.spark, spark):
        return _resumed(stage, left.join(right, near).drop(right["key"]), state=_held_by_spark)


def our_resumed(stage: Stage) -> dict[str, Any]:
    """Ours, which goes on where the query with the same home stopped."""
    state = Path(stage.settings["home"]) / "state"
    joined = wm.join_streams(
        *_streams(stage),
        on=["key", wm.within(("left_time", "right_time"), "10 minutes")],
        state=state,
        memory=stage.memory,
    )
    found = _resumed(stage, joined)
    records = wm.stream_metrics(state)
    found["notes"] |= {
        "state_bytes": max(record["state_bytes"] for record in records),
        "state_rows": max(record["promises"]["rows_kept"] for record in records),
    }
    return found


def _resumed(stage: Stage, joined: DataFrame, **told: Any) -> dict[str, Any]:
    return streamed(stage, joined, checkpoint=Path(stage.settings["home"]) / "checkpoint", **told)


def _streams(stage: Stage) -> tuple[DataFrame, DataFrame]:
    left, right = (
        stream.withColumn(time, sf.timestamp_seconds(time)).withWatermark(
            time, f"{stage.settings.get('delay_s', 60)} seconds"
        )
        for stream, time in zip(stage.streams(), ("left_time", "right_time"), strict=True)
    )
    return left, right


def _held_by_spark(progress: Any) -> dict[str, int]:
    operators = progress.stateOperators
    return {
        "state_rows": sum(each.numRowsTotal for each in operators),
        "state_bytes": sum(each.memoryUsedBytes for each in operators),
        "dropped": sum(each.numRowsDroppedByWatermark for each in operators),
    }
