"""Whatever ends a query, it is known what is owed, and with `availableNow` that is nothing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.streams.running import Streams, numbers

pytestmark = pytest.mark.spark

TINY = {"on": "k", "memory": "2MB", "instances": 2}


def wide(rows: int, *, seed: int, value: str) -> pa.Table:
    """Rows of which a tiny memory holds some hundreds."""
    table = numbers(rows, 300, seed=seed, value=value)
    return table.append_column(f"{value}_wide", pa.array(["x" * 1500] * rows))


@pytest.fixture
def spilling(spark: SparkSession, tmp_path: Path) -> Streams:
    streams = Streams(spark, tmp_path, dict(TINY))
    return streams.write(wide(1600, seed=1, value="a"), wide(1600, seed=2, value="b"), batches=2)


def owed(streams: Streams) -> list[int]:
    found: list[int] = wm.stream_metrics(streams.path / "state")[-1]["owed"]
    return found


def test_a_run_with_available_now_ends_with_nothing_owed(spilling: Streams) -> None:
    query = spilling.start()
    query.awaitTermination()
    assert spilling.output() == spilling.expected()
    batches = wm.stream_metrics(spilling.path / "state")
    assert sum(batch["rows_spilled"] for batch in batches) > 0
    assert any(sum(batch["owed"]) for batch in batches)
    assert batches[-1]["owed"] == [0, 0]
    shown = [
        source.latestOffset
        for progress in query.recentProgress
        for source in progress.sources
        if "Python" in source.description
    ]
    assert any('"owed_left"' in offset and '"owed_left": 0' not in offset for offset in shown)
    # Nothing has come and nothing is owed, so there is nothing to do.
    before = batches[-1]["batch"]
    spilling.start().awaitTermination()
    assert wm.stream_metrics(spilling.path / "state")[-1]["batch"] == before


@pytest.mark.slow
def test_the_trigger_once_ends_with_nothing_owed(spilling: Streams) -> None:
    spilling.start(trigger={"once": True}).awaitTermination()
    assert spilling.output() == spilling.expected()
    assert owed(spilling) == [0, 0]


@pytest.mark.slow
def test_ticks_end_when_nothing_is_owed(spilling: Streams) -> None:
    joined = spilling.joined(ticks="50 milliseconds", wait_threshold=0.0)
    query = spilling.start(joined, {"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        while any(owed(spilling)):
            assert not query.awaitTermination(1)
        done = wm.stream_metrics(spilling.path / "state")[-1]["batch"]
        assert not query.awaitTermination(2)
    finally:
        query.stop()
    assert wm.stream_metrics(spilling.path / "state")[-1]["batch"] == done
    assert spilling.output() == spilling.expected()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_runs_in_turn_give_what_sparks_own_join_gives(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Files come at random; runs end with `availableNow`, are stopped, or fail half-way."""
    chance = random.Random(seed)
    streams = Streams(spark, tmp_path, TINY | {"ticks": "20 milliseconds", "wait_threshold": 0.0})
    streams.write(wide(200, seed=8, value="a"), wide(200, seed=9, value="b"), batches=1)
    for step in range(3):
        for number in range(chance.randrange(1, 4)):
            side, value = chance.choice([("left", "a"), ("right", "b")])
            table = wide(chance.randrange(1, 500), seed=100 * step + number, value=value)
            streams.add(side, table, f"{step}-{number}")
        if chance.random() < 0.6:
            query = streams.start(trigger={"processingTime": "0 seconds"})
            while not streams.outputs() and query.lastProgress is None:
                # Spark itself does not go on from a checkpoint whose first batch was being planned.
                query.awaitTermination(1)
            query.awaitTermination(chance.choice([1, 2, 4]))
            query.stop()
            if streams.outputs():  # else it was stopped before its first batch
                assert streams.output() <= streams.expected()
        if chance.random() < 0.6:
            streams.run()
            assert streams.output() == streams.expected()
    streams.run()
    assert streams.output() == streams.expected()
    assert owed(streams) == [0, 0]


def test_a_checkpoint_from_a_backup_is_an_error_that_says_what_to_restore(ran: Streams) -> None:
    checkpoint, backup = ran.path / "checkpoint", ran.path / "backup"
    shutil.copytree(checkpoint, backup)
    ran.add("left", streams_rows(1), "more-1")
    found = ran.run()
    # Spark's file sink would skip a batch whose number it has, so that nothing of ours is asked.
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    ran.add("left", streams_rows(2), "more-0")
    (ran.path / "left" / "more-1.parquet").unlink()
    writer = ran.joined().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    assert ran.output() == found
    error = wm.stream_error(query)
    assert isinstance(error, wm.errors.StateError)
    assert str(error).startswith("Batch 4 came to ")
    assert str(error).endswith("and what the sink got from there on.")
    assert str(wm.stream_error(raised.value)) == str(error)
    # In Spark's own message nothing but where it happened comes before the sentence.
    before = str(raised.value).split("watersmeet.errors.StateError: Batch 4 came to ")[0]
    assert "Traceback" not in before
    assert before.count("\n") <= 1


def streams_rows(seed: int) -> pa.Table:
    return numbers(100, 50, seed=seed, value="a")


def test_errors_of_others_are_not_ours(streams: Streams) -> None:
    def fail(batch: object, number: int) -> None:
        raise RuntimeError("of the sink")

    with pytest.raises(StreamingQueryException) as raised:
        streams.for_each_batch(fail)
    assert wm.stream_error(raised.value) is None
    with pytest.raises(wm.errors.InvalidArgument, match="no query"):
        wm.stream_error("query")


# ---- where a state may be -----------------------------------------------------------------------


@pytest.mark.parametrize("place", ["left", "left/state", "right/a/b", "."])
def test_a_state_in_a_source_or_around_one_is_refused(streams: Streams, place: str) -> None:
    with pytest.raises(wm.errors.InvalidArgument, match="lie one in the other"):
        streams.joined(state=streams.path / place)
    assert not (streams.path / "left" / "state").exists()


def test_a_state_in_the_checkpoint_is_refused_when_the_query_begins(streams: Streams) -> None:
    query = streams.start(streams.joined(state=streams.path / "checkpoint" / "joined"))
    with pytest.raises(StreamingQueryException, match=r"checkpoint .*lie one in the other"):
        query.awaitTermination()
    with pytest.raises(wm.errors.StateError, match="lie one in the other"):
        streams.joined(state=streams.path / "checkpoint")


def test_a_checkpoint_in_the_state_is_refused(streams: Streams) -> None:
    query = streams.start(streams.joined(state=streams.path / "checkpoint" / ".." / "state"))
    query.awaitTermination()
    (streams.path / "checkpoint").rename(streams.path / "state" / "checkpoint")
    with pytest.raises(wm.errors.StateError, match="lie one in the other"):
        streams.joined()
