"""Ticks: stalls are used, and `availableNow` still ends after several batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.streams.running import LEFT, RIGHT, Streams
from watersmeet.spark.streams.metrics import stream_metrics
from watersmeet.spark.streams.ticks import TickReader

pytestmark = pytest.mark.spark


def test_with_available_now_the_query_ends_after_several_batches(streams: Streams) -> None:
    assert streams.run(ticks="10 milliseconds") == streams.expected()
    assert [record["batch"] for record in stream_metrics(streams.path / "state")] == [0, 1, 2, 3]


def test_time_goes_on_after_a_restart(streams: Streams) -> None:
    streams.run(ticks="10 milliseconds")
    streams.add("left", LEFT.slice(0, 100), "more")
    assert streams.run(ticks="10 milliseconds") == streams.expected()


def test_a_stall_is_used(streams: Streams) -> None:
    """No row comes any more, and yet what was spilled is joined."""
    wide = Streams(streams.spark, streams.path / "wide", {"on": "k", "memory": "2MB"})
    text = pa.array(["x" * 2000] * len(LEFT))
    wide.write(LEFT.append_column("wide", text), RIGHT, batches=2)
    joined = wide.joined(ticks="200 milliseconds", wait_threshold=0.0)
    query = wide.start(joined, {"processingTime": "0 seconds"})
    try:
        wait_until_quiet(query, wide)
    finally:
        query.stop()
    batches = stream_metrics(wide.path / "state")
    stages = {stage: sum(batch["results"][stage] for batch in batches) for stage in ("md", "dd")}
    assert sum(stages.values()) > 0
    assert wide.output() <= wide.expected()


def wait_until_quiet(query: StreamingQuery, streams: Streams) -> None:
    """Until all rows have come and stalls have given something; 200 batches are enough for that."""
    while not query.awaitTermination(1):
        batches = stream_metrics(streams.path / "state")
        late = sum(batch["results"]["md"] + batch["results"]["dd"] for batch in batches)
        if late or (batches and batches[-1]["batch"] > 200):
            return


def test_offsets_never_go_back() -> None:
    reader = TickReader(0.5)
    ahead = {"tick": reader.initialOffset()["tick"] + 10**6}
    assert reader.latestOffset(ahead, None) == ahead  # type: ignore[arg-type]
    reader.prepareForTriggerAvailableNow()
    behind = {"tick": 3}
    assert reader.latestOffset(behind, None) == behind  # type: ignore[arg-type]
    assert reader.partitions(behind, ahead) == []
