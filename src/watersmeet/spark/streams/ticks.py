"""Ticks: micro-batches at regular times, although no row has come.

A stalled stream makes no micro-batches, and without one nothing of ours runs. This source has new
offsets as time goes by and never a row, which is all it takes. Its offsets are ticks since 1970.

Spark's own `rate` source would do for other triggers, but beside it `availableNow` takes in all
that the other sources have as one batch, whatever their limits (seen with Spark 4.3).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from watersmeet.errors import InvalidArgument
from watersmeet.spark.interpreter import our_python

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?)\s*")
_SHORTEST = 0.01


def parse_interval(ticks: object) -> float | None:
    """Seconds between ticks; None for no ticks.

    >>> parse_interval("500 milliseconds")
    0.5
    """
    if ticks is None:
        return None
    seconds = math.nan
    if isinstance(ticks, str) and (parsed := _DURATION.fullmatch(ticks.lower())):
        unit = parsed[2]
        factor = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit[0] == "m" else 1.0
        seconds = float(parsed[1]) * factor
    elif isinstance(ticks, int | float) and not isinstance(ticks, bool):
        seconds = float(ticks)
    if not _SHORTEST <= seconds < math.inf:
        raise InvalidArgument(
            f"ticks={ticks!r} is no time between ticks.",
            remedy='Use for example ticks="1 second", or None for no ticks.',
        )
    return seconds


def tick_stream(spark: SparkSession, schema: StructType, interval: float) -> DataFrame:
    """A stream without rows that makes a micro-batch due every `interval` seconds."""
    with our_python(spark):
        spark.dataSource.register(Ticks)
    reader = spark.readStream.format(Ticks.name()).schema(schema)
    return reader.option("interval", repr(interval)).load()


class Ticks(DataSource):
    @classmethod
    def name(cls) -> str:
        return "watersmeet-ticks"

    def streamReader(self, schema: StructType) -> TickReader:
        return TickReader(float(self.options["interval"]))


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets from the clock. With `availableNow` time stands still, so that the query ends."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._stands_still = False

    def initialOffset(self) -> dict[str, Any]:
        return {"tick": int(time.time() / self._interval)}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._stands_still:
            return start
        # A clock that was set back must not take offsets back.
        return {"tick": max(int(time.time() / self._interval), start["tick"])}

    def prepareForTriggerAvailableNow(self) -> None:
        self._stands_still = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())
