"""The ways in which one Spark session can join two tables or two streams, each under the clock.

A peer is a function of a `Stage` that returns what it measured. Rows go to Spark's noop sink, which
takes every row and keeps none. What is checked is looked at after the clock has stopped.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from benchmarks.questions import QUESTIONS
from benchmarks.relations import Relations, Table
from benchmarks.spark_checksum import added_up, checksum, wrapping
from benchmarks.spark_plans import PLANS

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a peer is given."""

    spark: SparkSession
    relations: Relations
    memory: int
    """For our operators, in bytes."""
    began: float
    """When the clock started."""
    check: bool
    scratch: Path
    settings: dict[str, Any]
    """What only some peers look at."""

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def on(self) -> Any:
        if "within" in self.settings:
            return [*self._shared, wm.within(self._values, self.settings["within"])]
        if "intervals" in self.settings:
            (start, end), (since, until) = self._intervals
            if self.settings["intervals"] == "points":
                return wm.between(start, since, until)
            return wm.overlaps((start, end), (since, until))
        left, right = self.relations.left.columns[0], self.relations.right.columns[0]
        return left if left == right else {left: right}

    @property
    def _both(self) -> tuple[Table, Table]:
        return self.relations.left, self.relations.right

    @property
    def _intervals(self) -> list[tuple[str, ...]]:
        """The columns of start and end of both sides."""
        return [table.columns[:2] for table in self._both]

    @property
    def _shared(self) -> list[str]:
        return [
            each for each in self.relations.left.columns if each in self.relations.right.columns
        ]

    @property
    def _values(self) -> tuple[str, str]:
        """The first columns that both sides do not share."""
        left, right = (
            next(each for each in table.columns if each not in self._shared)
            for table in (self.relations.left, self.relations.right)
        )
        return left, right

    def tables(self) -> tuple[DataFrame, DataFrame]:
        return self.table(self.relations.left), self.table(self.relations.right)

    def frames(self) -> tuple[DataFrame, DataFrame]:
        """The tables as the plan that is asked for gives them: the same rows."""
        plan = PLANS[self.settings["plan"]]
        return plan(self, self.relations.left), plan(self, self.relations.right)

    def table(self, table: Table) -> DataFrame:
        return self.spark.read.parquet(table.folder).select(*table.columns)

    def streams(self) -> tuple[DataFrame, DataFrame]:
        """A file of each table in every micro-batch."""
        return self._stream(self.relations.left), self._stream(self.relations.right)

    def _stream(self, table: Table) -> DataFrame:
        schema = self.spark.read.parquet(table.folder).schema
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(table.folder).select(*table.columns)

    def joined_by_spark(self, left: DataFrame, right: DataFrame) -> DataFrame:
        if "within" in self.settings:
            one, other = self._values
            near = (left[one] - right[other]).between(
                -self.settings["within"], self.settings["within"]
            )
            for name in self._shared:
                near = (left[name] == right[name]) & near
            joined = left.join(right, near)
            return joined.drop(*(right[name] for name in self._shared))
        if "intervals" in self.settings:
            (start, end), (since, until) = self._intervals
            last = start if self.settings["intervals"] == "points" else end
            return left.join(right, (left[start] <= right[until]) & (right[since] <= left[last]))
        if isinstance(self.on, str):
            return left.join(right, self.on)
        ((left_key, right_key),) = self.on.items()
        return left.join(right, left[left_key] == right[right_key])

    def found(self, rows: DataFrame) -> dict[str, Any]:
        """Count and checksum of a result, if they are asked for."""
        if not self.check:
            return {}
        count, total = added_up(rows, self.relations)
        return {"rows": count, "checksum": total}


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
        _to_noop(joined)
        seconds = stage.seconds
        return {"seconds": seconds, **stage.found(joined), "notes": notes}


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
    way = "file path" if stage.settings["plan"] == "parquet" else "row path"
    return _waves(stage, stage.frames(), way=way)


def whole_of_plan(stage: Stage) -> dict[str, Any]:
    """The same as one DataFrame."""
    return _whole(stage, stage.frames())


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


def first_wave(stage: Stage) -> dict[str, Any]:
    """Ours up to the first rows."""
    with wm.join(*stage.tables(), on=stage.on, memory=stage.memory) as run:
        for wave in run:
            _to_noop(wave.rows)
            if wave.progress.rows_out:
                break
        return {"seconds": stage.seconds}


def whole(stage: Stage) -> dict[str, Any]:
    """Ours as one DataFrame."""
    return _whole(stage, stage.tables())


def _whole(stage: Stage, tables: tuple[DataFrame, DataFrame]) -> dict[str, Any]:
    with wm.join(*tables, on=stage.on, memory=stage.memory) as run:
        rows = run.to_df()
        _to_noop(rows)
        seconds = stage.seconds
        result = {"seconds": seconds, "rows": run.metrics.rows_out, "notes": _notes(run)}
        return {**result, **stage.found(rows)}


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


def spark_aggregate(stage: Stage) -> dict[str, Any]:
    """Spark's own aggregate over its own join."""
    question = QUESTIONS[stage.settings["question"]]
    way = stage.settings.get("way", "")
    answer = question.by_spark(stage.spark, stage.relations, way).collect()
    seconds = stage.seconds
    return {"seconds": seconds, "notes": {"answer": question.text(map(tuple, answer))}}


def our_aggregate(stage: Stage) -> dict[str, Any]:
    """Ours, every estimate taken as it comes; the last is exact."""
    return _estimates(stage, lambda run: iter(run))


def our_percent(stage: Stage) -> dict[str, Any]:
    """Ours, up to one per cent."""
    return _estimates(stage, lambda run: run.until(relative_error=0.01))


def our_exact(stage: Stage) -> dict[str, Any]:
    """Ours, the exact answer at once."""
    return _estimates(stage, lambda run: [run.exact()])


def _estimates(stage: Stage, ask: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
    question = QUESTIONS[stage.settings["question"]]
    frames = question.frames(stage.spark, stage.relations, stage.settings.get("way", ""))
    seed = stage.settings.get("seed", 0)
    with wm.aggregate(*frames, memory=stage.memory, seed=seed, **question.arguments()) as run:
        looks = [
            (stage.seconds, e.relative_error, e.fraction, e.trusted, _width(e)) for e in ask(run)
        ]
        seconds = looks[-1][0]
        answer = question.text(map(tuple, run.to_df().collect())) if run.complete else None
        score = run.score() if run.complete else None
        notes = {
            "looks": looks,
            "answer": answer,
            "shown": score.shown if score else None,
            "held": score.held if score else None,
        }
        return {"seconds": seconds, "first_seconds": looks[0][0], "notes": notes}


def _width(estimate: Any) -> float:
    """The widest of all intervals, also of those that are marked."""
    return float(estimate.cells.relative.max(initial=0.0))


def cascade(stage: Stage) -> dict[str, Any]:
    """Spark's own join of many tables, one after the other."""
    for name, frame in _many(stage).items():
        frame.createOrReplaceTempView(name)
    joined = stage.spark.sql(f"SELECT * FROM {stage.settings['where']}")
    _to_noop(joined)
    return {"seconds": stage.seconds, **_many_found(stage, joined)}


def many_waves(stage: Stage) -> dict[str, Any]:
    """Ours, of many tables at once, every wave's rows written as soon as they are there."""
    with wm.join_many(_many(stage), stage.settings["on"], memory=stage.memory) as run:
        written: list[tuple[float, int]] = []
        for wave in run:
            _to_noop(wave.rows)
            written.append((stage.seconds, wave.progress.rows_out))
        return {
            "seconds": written[-1][0],
            "first_seconds": next(second for second, rows in written if rows),
            "notes": {"written": written, **_notes(run)},
            **_many_found(stage, run.to_df()),
        }


def many_whole(stage: Stage) -> dict[str, Any]:
    """Ours, of many tables at once, as one DataFrame."""
    with wm.join_many(_many(stage), stage.settings["on"], memory=stage.memory) as run:
        rows = run.to_df()
        _to_noop(rows)
        seconds = stage.seconds
        return {"seconds": seconds, "notes": _notes(run), **_many_found(stage, rows)}


def _many(stage: Stage) -> dict[str, DataFrame]:
    folders = stage.settings["folders"]
    return {name: stage.spark.read.parquet(folder) for name, folder in folders.items()}


def _many_found(stage: Stage, rows: DataFrame) -> dict[str, Any]:
    if not stage.check:
        return {}
    found = rows.selectExpr("count(*) AS count", f"{stage.settings['check']} AS total").first()
    assert found is not None
    return {"rows": int(found["count"]), "checksum": int(found["total"])}


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


PEERS: dict[str, Callable[[Stage], dict[str, Any]]] = {
    peer.__name__: peer
    for peer in (
        written_by_spark,
        spark_table,
        spark_plan,
        spark_first,
        spark_count,
        waves,
        waves_of_plan,
        whole_of_plan,
        waves_of_rows,
        waves_computed,
        first_wave,
        whole,
        our_streams,
        our_streams_by_rows,
        spark_streams,
        our_enrich,
        spark_static,
        spark_broadcast,
        spark_aggregate,
        our_aggregate,
        our_percent,
        our_exact,
        cascade,
        many_waves,
        many_whole,
    )
}


@contextmanager
def settings(spark: SparkSession, chosen: dict[str, str]) -> Iterator[None]:
    """A session with these settings, for a while."""
    before = {name: spark.conf.get(name) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


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


def _to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _waves(stage: Stage, tables: tuple[DataFrame, DataFrame], *, way: str) -> dict[str, Any]:
    with wm.join(*tables, on=stage.on, memory=stage.memory) as run:
        written: list[tuple[float, int]] = []
        for wave in run:
            _to_noop(wave.rows)
            written.append((stage.seconds, wave.progress.rows_out))
        total = written[-1][1]
        result = {
            "seconds": written[-1][0],
            "first_seconds": next(second for second, rows in written if rows),
            "half_seconds": next(second for second, rows in written if 2 * rows >= total),
            "notes": {"written": written, **_notes(run)},
            "rows": total,
            # The rows of the waves that were written, read again.
            **stage.found(run.to_df()),
        }
        if run.explain().count(way) != 2:
            raise RuntimeError(f"Not both tables take the {way}:\n{run.explain()}")
        return result


def _notes(run: Any) -> dict[str, Any]:
    names = ("rows_read", "rows_out", "scan_seconds", "join_seconds", "bytes_spilled", "kept")
    waves = run.metrics.as_dict()["waves"]
    return {
        "explain": run.explain().splitlines(),
        "waves": [{name: wave[name] for name in names} for wave in waves],
    }


def _join_name(joined: DataFrame) -> str:
    """Which of its joins Spark chose."""
    executed = joined._jdf.queryExecution().executedPlan().toString()
    return next((word for word in executed.split() if word.endswith("Join")), "unknown")


# How often a query is asked whether its first micro-batch is done.
_LOOK_EVERY_S = 0.05


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
