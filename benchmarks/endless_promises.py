"""Whether a join of streams with watermarks costs the same after a million micro-batches.

As `endless`, the host of streams is driven without Spark. Both streams bring events of one second a
batch, which meet those of the same key within five seconds, and nothing comes more than two seconds
late. Rows come and go: what grows with the batches is what is remembered of them.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from benchmarks.cases import Places
from benchmarks.endless import LOOKS, MOVES, TICK, Drive, endless_claims, row_of, settings
from benchmarks.report import Section
from watersmeet.model import Side
from watersmeet.operators.question import Question
from watersmeet.promises.kinds import Watermark
from watersmeet.rows.spans import within
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.streams.plan import StreamPlan
from watersmeet.spark.streams.promised import Promised

KEYS, WIDTH, DELAY = 8, 5, 2
_SECOND = 1_000_000
_MOMENT = pa.timestamp("us", "UTC")
_SPARK = tuple(
    StructType([StructField(name, kind()) for name, kind in zip(names, kinds, strict=True)])
    for names, kinds in (
        (("k", "t", "number"), (LongType, TimestampType, LongType)),
        (("k", "u"), (LongType, TimestampType)),
    )
)
_ARROW = (
    pa.schema({"k": pa.int64(), "t": _MOMENT, "number": pa.int64()}),
    pa.schema({"k": pa.int64(), "u": _MOMENT}),
)


class PromisedDrive(Drive):
    """One instance of an interval join with watermarks, batch after batch."""

    def _made_plan(self, directory: Path) -> StreamPlan:
        question = Question.parse(
            ["k", within(("t", "u"), timedelta(seconds=WIDTH))],
            "inner",
            algorithm="rpj",
            condition=None,
            suffixes=("", "_right"),
        )
        delay = timedelta(seconds=DELAY)
        promised = Promised((Watermark(Side.LEFT, "t", delay), Watermark(Side.RIGHT, "u", delay)))
        return StreamPlan(
            question=question,
            schemas=_ARROW,
            wire=Wire.of(*_SPARK),
            promised=promised,
            **settings(directory),
        )

    def _known_keys(self) -> pa.RecordBatch:
        return _wire_batch(0, 0)

    def _arriving(self) -> list[pa.RecordBatch]:
        if self._batch % TICK == 0:
            return []
        return [_wire_batch(side, self._batch) for side in (0, 1)]

    def broken(self) -> list[str]:
        """What is wrong with the rows that came out, if anything is."""
        count = total = 0
        seconds = np.arange(self._batch)
        left = seconds[(seconds % TICK != 0) | (seconds == 0)]
        right = seconds[seconds % TICK != 0]
        for apart in range(-WIDTH, WIDTH + 1):
            met = left[np.isin(left + apart, right)]
            count += KEYS * len(met)
            total += KEYS * int(met.sum())
        if self._emitted == [count, total]:
            return []
        return [f"endless: {self._emitted} instead of {[count, total]} rows and sum of numbers"]


def _wire_batch(side: int, second: int) -> Any:
    """Events of one second, one of each key; the number of a left row is its second."""
    moments = pa.array(np.full(KEYS, second * _SECOND), pa.int64()).cast(_MOMENT)
    numbers = pa.array([None if side else second] * KEYS, pa.int64())
    keys = pa.array(np.arange(KEYS), pa.int64())
    tags = pa.array(np.full(KEYS, side), pa.int32())
    return pa.record_batch([tags, keys, moments, numbers], names=["tag", "c0", "c1", "c2"])


def run(places: Places, *, quick: bool) -> Section:
    drive = PromisedDrive(places.scratch / "endless-promises")
    drive.run(LOOKS[:2] if quick else LOOKS)
    return Section(
        name="endless-promises",
        title="Micro-batches without an end, with watermarks",
        note=f"Two streams of events, {KEYS} a second and batch, equal keys and times within "
        f"{WIDTH} seconds, watermarks of {DELAY} seconds on both, through the host of streams "
        f"without Spark. Every {TICK}th batch is empty, and every {MOVES:,}th goes on from the "
        "state on disk. The time is the median of the latest 500 batches, that of the processor "
        "their mean; files and their bytes are all there are, spilled ones too.",
        rows=[row_of(look) for look in drive.looks],
        claims=endless_claims(drive, join="a join with watermarks"),
        measured=drive,
    )
