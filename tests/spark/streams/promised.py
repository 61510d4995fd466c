"""Streams with promises through the host without Spark: all instances in turn, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from watersmeet.model import Side
from watersmeet.operators.question import Question
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.rows.spans import within
from watersmeet.spark import cache
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.streams.plan import StreamPlan
from watersmeet.spark.streams.promised import Promised
from watersmeet.testing.oracle import counted

MOMENT = pa.timestamp("us", "UTC")
WIDTH = 5
"""Seconds that two times may be apart."""
LEFT = pa.schema({"k": pa.int64(), "t": MOMENT, "a": pa.int64()})
RIGHT = pa.schema({"k": pa.int64(), "u": MOMENT, "b": pa.int64()})
Row = tuple[int | None, int | None, int]
"""Key, seconds and number of a row."""
Rows = Counter[tuple[Any, ...]]


def moment(seconds: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def spark_schema(time: str, number: str) -> StructType:
    kinds = {"k": LongType(), time: TimestampType(), number: LongType()}
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def make_plan(
    directory: Path, promises: Sequence[PromiseOfValues], how: str = "left", **changes: Any
) -> StreamPlan:
    """An interval join of (k, t, a) with (k, u, b), within 5 seconds."""
    (directory / "spill").mkdir(parents=True, exist_ok=True)
    state = StateDirectory.parse(directory / "state")
    state.create()
    promised = Promised(
        tuple(promises),
        changes.pop("on_broken", "fail"),
        changes.pop("purge", "memory"),
        changes.pop("punctuations", None),
    )
    wire = Wire.of(spark_schema("t", "a"), spark_schema("u", "b"), markers=promised.markers)
    on = ["k", within(("t", "u"), timedelta(seconds=WIDTH))]
    settings: dict[str, Any] = {
        "spill_dir": str(directory / "spill"),
        "instances": 2,
        "memory": 2**20,
        "wait_threshold": 0.0,
        "budget": 0.01,
    }
    return StreamPlan(
        question=Question.parse(on, how, algorithm="rpj", condition=None, suffixes=("", "_right")),
        schemas=(LEFT, RIGHT),
        wire=wire,
        state=state,
        promised=promised,
        **settings | changes,
    )


class Cluster:
    """All instances of a join, one after the other, as Spark's tasks would run them."""

    def __init__(self, plan: StreamPlan, patch: pytest.MonkeyPatch) -> None:
        self.plan = plan
        self.batch = -1
        self._instance = 0
        self._attempts = 0
        patch.setattr(Task, "current", self.task)

    def task(self) -> Task:
        self._attempts += 1
        return Task("query", self.batch, self._instance, f"run {self._attempts}")

    def place(self, key: int | None) -> int:
        """The instance of a key; any rule will do, if it is always the same."""
        return (key or 0) % self.plan.instances

    def rows(self, side: Side, *rows: Row) -> list[pa.RecordBatch]:
        """Rows of a side, each on its way to its instance."""
        return [self.wire_batch(self.place(row[0]), int(side), [row]) for row in rows]

    def marker(self, number: int, row: Row) -> list[pa.RecordBatch]:
        """A marker row: for one instance if it has a key, else for all."""
        kind = self.plan.wire.tags.marker(number)
        places = range(self.plan.instances) if row[0] is None else [self.place(row[0])]
        return [self.wire_batch(place, kind, [row]) for place in places]

    def wire_batch(self, instance: int, kind: int, rows: Sequence[Row]) -> pa.RecordBatch:
        keys, seconds, numbers = zip(*rows, strict=True)
        times = [None if each is None else moment(each) for each in seconds]
        tag = self.plan.wire.tags.number(instance, kind)
        return pa.record_batch(
            [
                pa.array([tag] * len(rows), pa.int32()),
                pa.array(keys, pa.int64()),
                pa.array(times, MOMENT),
                pa.array(numbers, pa.int64()),
            ],
            names=["tag", "c0", "c1", "c2"],
        )

    def run(self, *arriving: list[pa.RecordBatch]) -> Rows:
        """The next batch in all instances; what came out of it."""
        self.batch += 1
        return self.again(*arriving)

    def again(self, *arriving: list[pa.RecordBatch]) -> Rows:
        """The same batch, in all instances."""
        batches = [batch for part in arriving for batch in part]
        found: Rows = Counter()
        for instance in range(self.plan.instances):
            found += self.attempt(instance, batches)
        return found

    def attempt(self, instance: int, batches: Sequence[pa.RecordBatch]) -> Rows:
        """One attempt at the batch by one instance, with what is meant for it."""
        self._instance = instance
        split = self.plan.wire.tags.split
        mine = [batch for batch in batches if split(batch.column(0))[0][0] == instance]
        return counted(run_batch(self.plan, iter(mine)))

    def about(self) -> dict[str, Any]:
        """What the metrics of the last batch say about promises."""
        told: dict[str, Any] = stream_metrics(self.plan.state.uri)[-1]["promises"]
        return told


def close() -> None:
    cache.take(("", 0, 0))
