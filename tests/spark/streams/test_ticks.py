"""Ticks: stalls are used, and `availableNow` still ends after several batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.streams.running import LEFT, RIGHT, Streams
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.ticks import TickPlan, TickReader
from watersmeet.spark.microbatches.wire import Tags

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_with_available_now_the_query_ends_after_several_batches(streams: Streams) -> None:
    assert streams.run(ticks="10 milliseconds") == streams.expected()
    assert [record["batch"] for record in stream_metrics(streams.path / "state")] == [0, 1, 2, 3]
    # Time goes on after a restart.
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


NAMES = ("left", "right")


def reader(directory: Path, interval: float | None = 0.5) -> TickReader:
    return TickReader(TickPlan(str(directory), 2, 0.0, interval, NAMES), width=3)


DEFAULT, ALL = ReadMaxRows(2), ReadAllAvailable()


def owing(directory: Path, *, rows: int = 0, settled: bool = False, owed: int = 5) -> None:
    """Another version of a state that owes something."""
    instance = StateDirectory(str(directory)).instance(0)
    version = len(instance.versions())
    instance.begin(version)
    contents = {"rows": [rows, 0]}
    standing = {"owed": [owed, 0], "rows_came": 0.0, "contents": contents, "settled": settled}
    instance.commit(version, standing | {"batches": []})


def test_without_a_debt_there_are_no_ticks(tmp_path: Path) -> None:
    ticks = reader(tmp_path)
    past = {"tick": 0}
    assert ticks.latestOffset(past, DEFAULT) == past
    owing(tmp_path)
    assert ticks.latestOffset(past, DEFAULT)["tick"] > 0
    owing(tmp_path, owed=0)
    assert ticks.latestOffset(past, DEFAULT) == past


def test_ticks_wait_as_long_as_the_join_would(tmp_path: Path) -> None:
    patient = TickReader(TickPlan(str(tmp_path), 2, 1e12, 0.5, NAMES), width=3)
    owing(tmp_path)
    assert patient.latestOffset({"tick": 0}, DEFAULT) == {"tick": 0}


def test_offsets_never_go_back(tmp_path: Path) -> None:
    ticks = reader(tmp_path)
    owing(tmp_path)
    ahead = {"tick": ticks.initialOffset()["tick"] + 10**6}
    assert ticks.latestOffset(ahead, DEFAULT) == ahead
    assert ticks.partitions({"tick": 3}, ahead) == []


def test_after_the_last_rows_everything_is_settled_and_then_it_ends(tmp_path: Path) -> None:
    for interval in (0.5, None):
        place = tmp_path / str(interval)
        ticks = reader(place, interval)
        ticks.prepareForTriggerAvailableNow()
        at = {"tick": 3}
        assert ticks.latestOffset(at, DEFAULT) == at
        owing(place, rows=9)
        then = ticks.latestOffset(at, DEFAULT)
        assert then == {"tick": 4}
        owing(place)
        last = ticks.latestOffset(then, DEFAULT)
        assert last == {"tick": 5, "settle": True}
        owing(place, settled=True)
        assert ticks.latestOffset(last, DEFAULT) == last
        assert len(ticks.partitions(then, last)) == 1
        assert ticks.partitions(last, last) == []


def test_the_only_batch_of_the_trigger_once_settles(tmp_path: Path) -> None:
    ticks = reader(tmp_path, None)
    assert ticks.latestOffset({"tick": 3}, ALL) == {"tick": 4, "settle": True}
    (partition,) = ticks.partitions({"tick": 3}, {"tick": 4, "settle": True})
    rows = list(ticks.read(partition))
    instances, kinds = Tags(2).split(pa.array([row[0] for row in rows], pa.int32()))
    assert instances.tolist() == [0, 1]
    assert set(kinds.tolist()) == {Tags(2).settle}
    assert {row[1:] for row in rows} == {(None, None)}


def test_what_is_owed_is_told_to_spark(tmp_path: Path) -> None:
    owing(tmp_path)
    assert reader(tmp_path).reportLatestOffset() == {"owed_left": 5, "owed_right": 0}
