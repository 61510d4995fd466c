"""The plan that Spark gets: all that comes on one wire, by instance, through the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from watersmeet.spark.interpreter import our_python
from watersmeet.spark.microbatches.hosted import Hosted
from watersmeet.spark.microbatches.ticks import TickPlan, Ticks, tick_stream
from watersmeet.spark.microbatches.wire import TAG
from watersmeet.spark.worker import settle

Run = Callable[[Hosted, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# Reactive work may take this share of the time between ticks: rows that come meanwhile wait.
_BUDGET_SHARE = 0.5
_BUDGET_WITHOUT_TICKS = 0.5


def hosted(
    wire: DataFrame,
    plan: Hosted,
    ticks: TickPlan,
    *,
    columns: StructType,
    run: Run,
    source: type[Ticks] = Ticks,
) -> DataFrame:
    """What `run` makes of the rows on the wire and the ticks, in a task for each instance."""
    whole = wire.union(tick_stream(wire.sparkSession, wire.schema, ticks, source))

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        return run(plan, batches)

    instance = plan.wire.tags.instance_of(sf.col(TAG))
    parted = whole.repartitionById(plan.instances, instance)
    with our_python(wire.sparkSession):
        return parted.mapInArrow(host, columns)


def budget_of(interval: float | None) -> float:
    """Seconds that one batch may spend on reactive work, if there are so many between ticks."""
    return _BUDGET_WITHOUT_TICKS if interval is None else _BUDGET_SHARE * interval
