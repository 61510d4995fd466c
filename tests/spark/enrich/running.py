"""A stream from files, one micro-batch a file, enriched into a directory of Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tests.spark.streams.running import Streams
from watersmeet.spark.enrich.enrich import enrich


@dataclass
class Enrichment(Streams):
    """The left input is the stream, the right one the master."""

    def master(self) -> DataFrame:
        return self.spark.read.parquet(str(self.path / "right"))

    def joined(self, **changes: Any) -> DataFrame:
        options = {"state": self.path / "state", "ticks": None, "master": self.master()}
        return enrich(self.stream("left"), **options | self.options | changes)
