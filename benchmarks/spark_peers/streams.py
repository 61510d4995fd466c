"""Joins of two streams, and of a stream with a table: Spark's own, and ours."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import watersmeet as wm
from benchmarks.spark_checksum import checksum, wrapping
from benchmarks.spark_peers.stage import Stage, settings

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# How often a query is asked whether its first micro-batch is done.
_LOOK_EVERY_S = 0.05


def our_streams(stage: Stage) -> dict[str, Any]:
    """Ours, with its state on local disk."""
    state = stage.scratch / f"state-{uuid.uuid4().hex}"
    joined = wm.join_streams(*stage.streams(), on=stage.on, memory=stage.memory, state=state)
    return streamed(stage, joined)


def our_streams_by_rows(stage: Stage) -> dict[str, Any]:
    """Ours on streams with a filter that only Spark computes; it drops no row."""
    state = stage.scratch / f"state-{uuid.uuid4().hex}"
    left, right = (stream.where(f"sign({stream.columns[0]}) >= -1") for stream in stage.streams())
    joined = wm.join_streams(left, right, on=stage.on, memory=stage.memory, state=state)
    if "file path" in wm.explain_stream(state):
        raise RuntimeError(f"Not both streams take the row path:\n{wm.explain_stream(state)}")
    return streamed(stage, joined)


def spark_streams(stage: Stage) -> dict[str, Any]:
    """Spark's own stream-stream join, its state in RocksDB, one partition of it for each core."""
    chosen = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.shuffle.partitions": str(stage.spark.sparkContext.defaultParallelism),
    }
    with settings(stage.spark, chosen):
        return streamed(stage, stage.joined_by_spark(*stage.streams()))


def our_enrich(stage: Stage) -> dict[str, Any]:
    """Ours: the right table is the master, laid down before the first micro-batch."""
    state = stage.scratch / f"state-{uuid.uuid4().hex}"
    stream, master = stage.streams()[0], stage.tables()[1]
    joined = wm.enrich(stream, master, stage.on, state=state, memory=stage.memory)
    laid_down = stage.seconds
    found = streamed(stage, joined)
    records = wm.stream_metrics(state)
    served = sum(record["enriched"]["cache_hits"] for record in records)
    restored = sum(record["restored"] for record in records)
    found["notes"] |= {"laid_down_s": laid_down, "served_by_cache": served, "restored": restored}
    shutil.rmtree(state)
    return found


def spark_static(stage: Stage) -> dict[str, Any]:
    """Spark's own join of a stream with a table, which it reads for every micro-batch."""
    chosen = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": str(stage.spark.sparkContext.defaultParallelism),
    }
    with settings(stage.spark, chosen):
        return streamed(stage, stage.joined_by_spark(stage.streams()[0], stage.tables()[1]))


def spark_broadcast(stage: Stage) -> dict[str, Any]:
    """The same with the whole table in the memory of every executor."""
    master = sf.broadcast(stage.tables()[1])
    return streamed(stage, stage.joined_by_spark(stage.streams()[0], master))


def streamed(
    stage: Stage,
    joined: DataFrame,
    *,
    state: Callable[[Any], dict[str, int]] | None = None,
    checkpoint: Path | None = None,
) -> dict[str, Any]:
    """Run a streaming query over all files there are; count, and add up, what reaches its sink.

    `state` says what a progress of Spark's tells about its state: the most of each is noted. A
    query with a `checkpoint` goes on from there."""
    if checkpoint is None:
        checkpoint = stage.scratch / f"checkpoint-{uuid.uuid4().hex}"
    with wrapping(stage.spark):
        aggregates = [sf.count(sf.lit(1)).alias("rows")]
        if stage.check:
            aggregates.append(checksum(joined, stage.relations).alias("checksum"))
        query = (
            joined.observe("found", aggregates[0], *aggregates[1:])
            .writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
    first = None
    while query.isActive:
        time.sleep(_LOOK_EVERY_S)
        if first is None and any(p.numInputRows for p in query.recentProgress):
            first = stage.seconds
    query.awaitTermination()
    seconds = stage.seconds
    found = [p.observedMetrics["found"].asDict() for p in query.recentProgress if p.observedMetrics]
    return {
        "seconds": seconds,
        "first_seconds": first or seconds,
        "rows": sum(batch["rows"] for batch in found),
        "checksum": sum(batch["checksum"] or 0 for batch in found) % 2**64 if stage.check else None,
        "notes": {
            "batch_ms": [p.durationMs["triggerExecution"] for p in query.recentProgress],
            "batch_rows": [p.numInputRows for p in query.recentProgress],
            **_most([state(p) for p in query.recentProgress] if state else []),
        },
    }


def _most(told: list[dict[str, int]]) -> dict[str, int]:
    return {name: max(each[name] for each in told) for name in told[0]} if told else {}
