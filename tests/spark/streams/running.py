"""Streams from files, one micro-batch a file, joined into a directory of Parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from watersmeet.spark.streams.join import join_streams

Rows = Counter[tuple[Any, ...]]
SPARK_TYPES = {"semi": "left_semi", "anti": "left_anti"}


def numbers(rows: int, keys: int, *, seed: int, value: str) -> pa.Table:
    """Rows with keys that repeat, some of them null, a number each, and some text."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, keys, rows)
    return pa.table(
        {
            "k": pa.array(drawn, pa.int64(), mask=random.random(rows) < 0.02),
            value: pa.array(range(rows), pa.int64()),
            f"{value}_text": [f"{value} {number}" for number in range(rows)],
        }
    )


LEFT = numbers(3000, 700, seed=1, value="a")
RIGHT = numbers(2500, 700, seed=2, value="b")


@dataclass
class Streams:
    """Two inputs, a state, a checkpoint and an output below one directory."""

    spark: SparkSession
    path: Path
    options: dict[str, Any] = field(default_factory=lambda: {"on": "k"})
    spark_reads: bool = False
    """Whether Spark reads the rows, because of a filter that only Spark computes."""
    _schemas: dict[str, StructType] = field(default_factory=dict)

    def write(self, left: pa.Table, right: pa.Table, *, batches: int = 4) -> Streams:
        """Lay the inputs out as files, of which each micro-batch takes one of each side."""
        for side, table in (("left", left), ("right", right)):
            folder = self.path / side
            folder.mkdir(parents=True)
            for number in range(batches):
                first, last = (len(table) * n // batches for n in (number, number + 1))
                pq.write_table(table.slice(first, last - first), folder / f"{number:03}.parquet")
        return self

    def add(self, side: str, table: pa.Table, name: str) -> None:
        draft = self.path / f"draft-{name}"
        pq.write_table(table, draft)
        draft.rename(self.path / side / f"{name}.parquet")

    def stream(self, side: str, files: int = 1) -> DataFrame:
        folder = str(self.path / side)
        # Spark looks for it in the files with a job, and it does not change.
        if side not in self._schemas:
            self._schemas[side] = self.spark.read.parquet(folder).schema
        reader = self.spark.readStream.schema(self._schemas[side])
        # Otherwise files are looked for by their age, and all of ours are of one moment.
        stream = reader.option("maxFilesPerTrigger", files).parquet(folder)
        return stream.where("rand() >= 0") if self.spark_reads else stream

    def joined(self, **changes: Any) -> DataFrame:
        options = {"state": self.path / "state", "ticks": None} | self.options | changes
        return join_streams(self.stream("left"), self.stream("right"), **options)

    def start(
        self, joined: DataFrame | None = None, trigger: Mapping[str, Any] | None = None
    ) -> StreamingQuery:
        frame = self.joined() if joined is None else joined
        writer = frame.writeStream.format("parquet").option("path", str(self.path / "out"))
        writer = writer.option("checkpointLocation", str(self.path / "checkpoint"))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, **changes: Any) -> Rows:
        """Take in all there is, and what has come out so far."""
        self.start(self.joined(**changes)).awaitTermination()
        return self.output()

    def output(self) -> Rows:
        return counted(self.spark.read.parquet(str(self.path / "out")))

    def outputs(self) -> list[Path]:
        """Files that the sink has committed."""
        return sorted((self.path / "out" / "_spark_metadata").glob("[0-9]*"))

    def for_each_batch(self, action: Callable[[DataFrame, int], None], **changes: Any) -> None:
        writer = self.joined(**changes).writeStream.foreachBatch(action)
        writer = writer.option("checkpointLocation", str(self.path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def expected(self, how: str = "inner") -> Rows:
        """Spark's own join of all that the streams have."""
        left, right = (self.spark.read.parquet(str(self.path / side)) for side in ("left", "right"))
        return counted(left.join(right, self.options["on"], SPARK_TYPES.get(how, how)))

    def versions(self) -> dict[int, list[int]]:
        """Which versions of the state there are, by instance."""
        found = {}
        for instance in sorted((self.path / "state").glob("instance-*")):
            number = int(instance.name.removeprefix("instance-"))
            found[number] = sorted(int(path.stem) for path in instance.glob("*.json"))
        return found


def counted(frame: DataFrame) -> Rows:
    """Rows by how often they are there. NaN is made equal to itself."""
    return Counter(
        tuple("NaN" if value != value else value for value in row) for row in frame.collect()
    )
