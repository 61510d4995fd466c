"""Spark's own watermarks, of streams whose rows it does not see.

What follows the join may go by the watermark that a column has from `withWatermark`. Spark takes
the largest time of each micro-batch from the rows that pass; here it passes in a row of its own,
which is left out behind. Each watermark has a column and a row of its own, because Spark moves what
leaves out the rows of one below the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType, TimestampType

from watersmeet.spark.microbatches.state import Manifest

_COLUMN = "watersmeet_time_{}"


def with_times(columns: StructType, count: int) -> StructType:
    """The columns of a result that brings so many times with it."""
    # Rows that say what time it is have nothing else, even where the result is never null.
    rows = [StructField(each.name, each.dataType) for each in columns]
    times = [StructField(_COLUMN.format(n), TimestampType()) for n in range(count)]
    return StructType([*rows, *times])


def emit_times(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, times: Sequence[int | None]
) -> Iterator[pa.RecordBatch]:
    """The rows of a result with columns for times, and a row for each time, in microseconds."""
    kind = pa.timestamp("us", "UTC")
    names = [_COLUMN.format(n) for n in range(len(times))]
    rows = [field.with_nullable(True) for field in schema]
    whole = pa.schema([*rows, *(pa.field(name, kind) for name in names)])
    for batch in batches:
        none = [pa.nulls(len(batch), kind)] * len(times)
        yield pa.RecordBatch.from_arrays([*batch.columns, *none], schema=whole)
    for place, time in enumerate(times):
        if time is not None:
            row = [pa.nulls(1, field.type) for field in schema]
            row += [pa.array([time if n == place else None], kind) for n in range(len(times))]
            yield pa.RecordBatch.from_arrays(row, schema=whole)


def times_of(done: Manifest, count: int) -> list[int | None]:
    """What a version says of the latest times that its batch brought."""
    said = done.get("times", {})
    return [said.get(str(number)) for number in range(count)]


def heard(frame: DataFrame, delays: Sequence[str]) -> DataFrame:
    """The result without the rows that say what time it is, and with Spark having heard them."""
    names = [_COLUMN.format(n) for n in range(len(delays))]
    for name, delay in zip(names, delays, strict=True):
        frame = frame.withWatermark(name, delay)
    rows = reduce(lambda one, other: one & other, (sf.col(name).isNull() for name in names))
    return frame.where(rows).drop(*names)
