"""The memory of the Python workers, measured from outside, against what the join was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.streams.running import Streams
from tests.spark.workers import watched, workers

pytestmark = pytest.mark.spark

MEMORY = 48 * 2**20
# Of one worker: its own part of the interpreter and the libraries, and batches on their way.
A_WORKER = 96 * 2**20


def wide_rows(value: str, seed: int) -> pa.Table:
    rows = 60_000
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "k": random.integers(0, rows, rows),
            value: np.arange(rows),
            f"{value}_text": pa.array(["x" * 1000]).take(pa.array(np.zeros(rows, np.int64))),
        }
    )


def test_workers_stay_inside_the_memory(spark: SparkSession, tmp_path: Path) -> None:
    """Two streams of 60 MB each, in 48 MB."""
    streams = Streams(spark, tmp_path, {"on": "k", "memory": MEMORY})
    streams.write(wide_rows("a", 1), wide_rows("b", 2), batches=3)
    with watched(spark) as seen:
        streams.start().awaitTermination()
    batches = wm.stream_metrics(tmp_path / "state")
    assert sum(batch["rows_spilled"] for batch in batches) > 30_000
    assert max(batch["memory_peak"] for batch in batches) <= MEMORY / 2
    assert [batch["restored"] for batch in batches] == [0] * len(batches), "instances have homes"
    alive = {worker: peak for worker, peak in seen.peaks.items() if worker in workers(spark)}
    assert alive
    assert max(alive.values()) > MEMORY / 4, "so little that the measurement must be wrong"
    for peak in alive.values():
        assert peak <= MEMORY / 2 + A_WORKER, alive
