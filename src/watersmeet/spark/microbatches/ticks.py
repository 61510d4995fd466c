"""Ticks: micro-batches at regular times, although no row has come, while something is owed.

A stalled stream makes no micro-batches, and without one nothing of ours runs. This source has new
offsets as time goes by, which is all it takes, and as long as the join's state says that something
is owed: an idle query makes no batches.

Spark's own `rate` source would do for other triggers, but beside it `availableNow` takes in all
that the other sources have as one batch, whatever their limits (seen with Spark 4.3).
"""

from __future__ import annotations

import math
import re
import time
from ast import literal_eval
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructField, StructType

from watersmeet.errors import InvalidArgument
from watersmeet.spark.interpreter import our_python
from watersmeet.spark.microbatches.standing import Watch
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.wire import Tags

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


def tick_stream(
    spark: SparkSession, wire: StructType, plan: TickPlan, source: type[Ticks]
) -> DataFrame:
    """A stream that makes a micro-batch due as long as something is owed."""
    with our_python(spark):
        spark.dataSource.register(source)
    nullable = StructType([StructField(field.name, field.dataType) for field in wire])
    reader = spark.readStream.format(source.name()).schema(nullable)
    return reader.options(**{name: repr(value) for name, value in asdict(plan).items()}).load()


@dataclass(frozen=True)
class TickPlan:
    """What the source needs to know about its join. Options of a source are texts."""

    state: str
    instances: int
    wait_threshold: float
    interval: float | None
    """Seconds between two ticks; None for none but those that a trigger asks for."""
    names: tuple[str, ...]
    """What the streams are called."""
    markers: int = 0
    """How many promises have marker rows."""

    @property
    def tags(self) -> Tags:
        return Tags(len(self.names), self.markers)


class Ticks(DataSource):
    @classmethod
    def name(cls) -> str:
        return "watersmeet-ticks"

    def streamReader(self, schema: StructType) -> TickReader:
        # Names of options come in any case.
        options = {name.lower(): literal_eval(text) for name, text in self.options.items()}
        plan = TickPlan(**{field.name: options[field.name] for field in fields(TickPlan)})
        return self._reader(plan, width=len(schema))

    def _reader(self, plan: TickPlan, *, width: int) -> TickReader:
        return TickReader(plan, width=width)


class Settle(InputPartition):
    """One row for each instance: everything owed shall come out with this batch."""


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets from the clock, in milliseconds, as long as something is owed.

    An offset that says `settle` brings the word to all instances, and a batch that is made again
    from its offsets brings it again. It goes with the last batches of the trigger availableNow,
    when the other sources have nothing more, and with the only batch of the trigger once.
    """

    def __init__(self, plan: TickPlan, *, width: int) -> None:
        self._plan = plan
        self._width = width
        self._watch = Watch(StateDirectory(plan.state), plan.wait_threshold)
        self._available_now = False

    def initialOffset(self) -> dict[str, Any]:
        return {"tick": self._now()}

    def getDefaultReadLimit(self) -> ReadLimit:
        # Any but ReadAllAvailable, which is what the trigger once asks for instead.
        return ReadMaxRows(self._plan.instances)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        following = start["tick"] + 1
        if isinstance(limit, ReadAllAvailable):
            return {"tick": following, "settle": True}
        if self._available_now:
            standing = self._watch.look()
            # Had the settling left something, it would do so again.
            if standing.settled or not (standing.owes or standing.is_late):
                return start
            # The others may have more: only after a batch without rows is it known that they do
            # not, and to settle after every batch would read the whole state as often.
            return {"tick": following} | ({} if standing.had_rows else {"settle": True})
        # A clock that was set back must not take offsets back.
        if self._plan.interval is None or (now := self._now()) <= start["tick"]:
            return start
        return {"tick": now} if self._watch.look().is_due else start

    def reportLatestOffset(self) -> dict[str, Any]:
        """What Spark shows as the latest offset in a query's progress: what is owed."""
        names = self._plan.names
        owed = self._watch.glance().owed or (0,) * len(names)
        return {f"owed_{name}": rows for name, rows in zip(names, owed, strict=True)}

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Settle(0)] if end.get("settle") and end != start else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return self._words(self._plan.tags.settle)

    def _words(self, kind: int) -> Iterator[tuple[Any, ...]]:
        """A row of a kind for each instance."""
        nothing = (None,) * (self._width - 1)
        tags = self._plan.tags
        return ((tags.number(instance, kind), *nothing) for instance in range(self._plan.instances))

    def _now(self) -> int:
        interval = self._plan.interval or 1.0
        return int(int(time.time() / interval) * interval * 1000)
