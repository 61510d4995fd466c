"""Spark's own watermark, of streams whose rows it does not see.

What follows the join may go by the watermarks that columns have from `withWatermark`. Spark takes
the largest time of each such column in a micro-batch, less its delay, and of these the least (or
the largest, if its settings say so). Here the instances do, which see all rows, and Spark hears it
in a row of its own, which is left out behind. One row, since Spark refuses a second watermark above
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType, TimestampType

_COLUMN = "watersmeet_time"
_MILLISECOND = 1_000
_KIND = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Clock:
    """The watermarks of all streams, by their places in the order of streams and columns."""

    delays: tuple[int, ...]
    """In milliseconds."""
    by_latest: bool
    """Whether the largest of the watermarks counts, and not the least."""

    def moment(self, times: Mapping[str, int]) -> int | None:
        """What Spark's watermark is after these times, in microseconds; None if it has none yet.
        Times are in microseconds, by the place of their watermark as text."""
        moments = [
            times[str(place)] // _MILLISECOND - delay
            for place, delay in enumerate(self.delays)
            if str(place) in times
        ]
        if not moments or (not self.by_latest and len(moments) < len(self.delays)):
            return None
        return (max(moments) if self.by_latest else min(moments)) * _MILLISECOND


def with_time(columns: StructType) -> StructType:
    """The columns of a result that says what time it is."""
    # Rows that do so have nothing else, even where the result is never null.
    rows = [StructField(each.name, each.dataType) for each in columns]
    return StructType([*rows, StructField(_COLUMN, TimestampType())])


def emit_time(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, moment: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a result with a column for the time, and a row that has it."""
    rows = [field.with_nullable(True) for field in schema]
    whole = pa.schema([*rows, pa.field(_COLUMN, _KIND)])
    for batch in batches:
        none = pa.nulls(len(batch), _KIND)
        yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=whole)
    if moment is not None:
        row = [pa.nulls(1, field.type) for field in schema]
        yield pa.RecordBatch.from_arrays([*row, pa.array([moment], _KIND)], schema=whole)


def heard(frame: DataFrame) -> DataFrame:
    """The result without rows that say what time it is, which Spark has heard."""
    timed = frame.withWatermark(_COLUMN, "0 seconds")
    return timed.where(sf.col(_COLUMN).isNull()).drop(_COLUMN)
