"""What a peer is given: a session, tables or streams of it, a clock, and what is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from benchmarks.relations import Relations, Table
from benchmarks.spark_checksum import added_up
from benchmarks.spark_plans import PLANS


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


Peer = Callable[[Stage], dict[str, Any]]
"""Returns what it measured."""


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


def to_noop(rows: DataFrame) -> None:
    """Have Spark make all rows, and keep none."""
    rows.write.format("noop").mode("overwrite").save()
