"""Ticks of an enrichment: they bring the word that a newer version of the master table is there.

Which batch brings it is decided once, by the offset of this source, and is in Spark's log: a batch
that is made again brings the same word to all instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from watersmeet.spark.enrich.masters import Masters
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.ticks import TickPlan, TickReader, Ticks


class MasterTicks(Ticks):
    @classmethod
    def name(cls) -> str:
        return "watersmeet-master-ticks"

    def _reader(self, plan: TickPlan, *, width: int) -> TickReader:
        return MasterTickReader(plan, width=width)


class Newer(InputPartition):
    """For each instance as many rows as there are newer versions; the last is to be taken over."""


class MasterTickReader(TickReader):
    """Offsets that have, besides the time, the number of the newest version."""

    def __init__(self, plan: TickPlan, *, width: int) -> None:
        super().__init__(plan, width=width)
        self._masters = Masters(StateDirectory(plan.state))
        self._last: int | None = None
        """The version that a run with the trigger availableNow ends with."""

    def initialOffset(self) -> dict[str, Any]:
        # Asked for again if the first batch is made again, so it must always be the same.
        return super().initialOffset() | {"master": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._masters.check()
        found = super().latestOffset(start, limit)
        newest = self._newest()
        if newest > start["master"]:
            found = found | {"tick": max(found["tick"], start["tick"] + 1)}
        return found | {"master": max(newest, start["master"])}

    def prepareForTriggerAvailableNow(self) -> None:
        super().prepareForTriggerAvailableNow()
        self._last = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        newer = end["master"] - start["master"]
        return [*super().partitions(start, end), *([Newer(newer)] if newer else [])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if not isinstance(partition, Newer):
            return super().read(partition)
        kind = self._plan.tags.newer
        return (row for _ in range(partition.value) for row in self._words(kind))

    def _newest(self) -> int:
        if self._last is not None:
            return self._last
        return max(self._masters.numbers(), default=0)
