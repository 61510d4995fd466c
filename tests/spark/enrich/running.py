"""A stream from files, one micro-batch a file, enriched into a directory of Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.streams.running import Streams
from watersmeet.spark.enrich.enrich import enrich
from watersmeet.spark.enrich.masters import Masters
from watersmeet.spark.microbatches.state import StateDirectory

OPTIONS = {"on": "k", "how": "left", "memory": "4MB", "instances": 2, "version_column": "met"}
"""Of a query whose driver is killed, before and after."""


@dataclass
class Enrichment(Streams):
    """The left input is the stream, the right one the master."""

    def master(self) -> DataFrame:
        return self.spark.read.parquet(str(self.path / "right"))

    def joined(self, **changes: Any) -> DataFrame:
        options = {"state": self.path / "state", "ticks": None, "master": self.master()}
        return enrich(self.stream("left"), **options | self.options | changes)

    def replace_master(self, table: pa.Table) -> None:
        """Another version of the master, under another name of a file."""
        for file in (self.path / "right").iterdir():
            file.unlink()
        pq.write_table(table, self.path / "right" / f"{len(table)}-rows.parquet")

    @property
    def versions_laid_down(self) -> list[int]:
        return Masters(StateDirectory.parse(self.path / "state")).numbers()

    def is_done(self, stream: pa.Table) -> bool:
        """Whether all of these rows are in the result."""
        if not self.outputs():
            return False
        found = self.spark.read.parquet(str(self.path / "out")).select("a").distinct().collect()
        return {row.a for row in found} >= set(stream["a"].to_pylist())


def wait_until(query: StreamingQuery, holds: Callable[[], bool]) -> None:
    """Until something holds; a query that has failed raises here."""
    for _ in range(400):
        if holds():
            return
        query.awaitTermination(0.1)  # type: ignore[arg-type]
    raise AssertionError("It did not come to that within 40 seconds.")
