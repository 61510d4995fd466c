"""Killed in the middle: the rows are those of an undisturbed run."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from tests.spark.streams.faults import Fault, Faults
from tests.spark.streams.killing import PLACES, end, kill_when, start_driver
from tests.spark.streams.running import Rows, Streams
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.streams.plan import StreamPlan

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("spark_reads", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", [pytest.param("raise", marks=pytest.mark.slow), "worker"])
def test_tasks_that_failed_are_run_again(
    streams: Streams, what: str, spark_reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each place once, in one query: another attempt goes on as if nothing had happened."""
    streams.spark_reads = spark_reads
    # From the second batch on, so that each has a version before it to go on from.
    turns = [(batch, instance) for batch in (1, 2, 3) for instance in (0, 1)]
    faults = [
        Fault(where, what, streams.path / f"struck-{where}", batch, instance)
        for where, (batch, instance) in zip(PLACES, turns, strict=False)
    ]
    monkeypatch.setattr("watersmeet.spark.streams.join.run_batch", Faults(faults))
    found = streams.run(instances=2)
    assert all(fault.marker.exists() for fault in faults)
    assert found == streams.expected()
    assert [batch["batch"] for batch in stream_metrics(streams.path / "state")] == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["raise", "worker"])
@pytest.mark.parametrize("where", PLACES)
def test_a_task_that_failed_is_run_again(
    streams: Streams, where: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above with one fault alone, which tells the places apart when one of them fails."""
    fault = Fault(where, what, streams.path / "struck")
    monkeypatch.setattr("watersmeet.spark.streams.join.run_batch", fault)
    found = streams.run()
    assert fault.marker.exists()
    assert found == streams.expected()
    assert [batch["batch"] for batch in stream_metrics(streams.path / "state")] == [0, 1, 2, 3]


def test_a_query_that_failed_is_started_again(
    brief: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(plan: StreamPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if Task.current().batch == 1:
            raise RuntimeError("every time")
        return run_batch(plan, batches)

    with monkeypatch.context() as patched:
        patched.setattr("watersmeet.spark.streams.join.run_batch", fail)
        with pytest.raises(StreamingQueryException, match="every time"):
            brief.run()
    assert brief.run() == brief.expected()


@pytest.mark.slow
@pytest.mark.parametrize("case", ["plain", "rows"])
@pytest.mark.parametrize("where", ["after", "files", "rows", "emit"])
def test_the_driver_is_killed(streams: Streams, where: str, case: str) -> None:
    """In the middle of writing state, and between the commit of state and that of the batch."""
    with start_driver(streams, where, case) as driver:
        try:
            output, _ = driver.communicate(timeout=400)
        finally:
            end(driver)
    assert "done" not in output
    assert (streams.path / "struck").exists()
    assert not (streams.path / "checkpoint" / "commits" / "1").exists()
    assert (1 in streams.versions()[0]) == (where in ("after", "emit"))
    assert streams.run() == streams.expected()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_driver_is_killed_at_any_moment(streams: Streams, seed: int) -> None:
    """The moment is when a random number of files has been written by Spark and by us. Half of the
    queries have their rows from Spark, and go on with those that instances read."""
    moment = random.Random(seed).randrange(2, 80)
    kill_when(streams, moment, "rows" if seed % 2 else "plain")
    expected = streams.expected()
    assert streams.run() == expected


def test_a_batch_is_run_twice(brief: Streams) -> None:
    seen: list[Rows] = [Rows(), Rows()]

    def twice(batch: DataFrame, number: int) -> None:
        for rows in seen:
            rows.update(tuple(row) for row in batch.collect())

    brief.for_each_batch(twice)
    assert seen[0] == seen[1] == brief.expected()


def test_a_sink_that_reads_a_part_of_a_batch_is_told_so(brief: Streams) -> None:
    def look(batch: DataFrame, number: int) -> None:
        batch.show(1)

    with pytest.raises(StreamingQueryException, match=r"(?s)Batch 1 needs version 0.*show\(\)"):
        brief.for_each_batch(look)


@pytest.mark.slow
def test_a_look_after_the_whole_batch_is_fine(streams: Streams) -> None:
    seen: list[int] = []

    def count_and_look(batch: DataFrame, number: int) -> None:
        seen.append(batch.count())
        batch.show(1)

    streams.for_each_batch(count_and_look)
    assert sum(seen) == streams.expected().total()
