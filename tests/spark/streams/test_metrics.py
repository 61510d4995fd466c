"""What a user can learn about each batch, from the state and from the log."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.spark.streams.running import LEFT, RIGHT, Streams

pytestmark = pytest.mark.spark


def test_each_batch_is_counted(ran: Streams) -> None:
    found = ran.output()
    batches = wm.stream_metrics(ran.path / "state")
    assert [batch["batch"] for batch in batches] == [0, 1, 2, 3]
    for side, table in enumerate((LEFT, RIGHT)):
        assert sum(batch["rows_in"][side] for batch in batches) == len(table)
    assert sum(batch["rows_out"] for batch in batches) == found.total()
    assert sum(batch["results"]["mm"] for batch in batches) == found.total()
    for batch in batches:
        assert batch["instances"] == 2
        assert 0 < batch["memory_used"] <= 2 * batch["memory_peak"]
        assert batch["memory_peak"] <= 2**28 / 2
        assert batch["memory_limit"] == 2**28
    sizes = [batch["state_bytes"] for batch in batches]
    assert sizes[-1] > sizes[0]
    files = (ran.path / "state").glob("instance-*/files/*")
    assert sizes[-1] <= sum(path.stat().st_size for path in files)


@pytest.mark.slow
def test_flushes_say_why(streams: Streams) -> None:
    wide = Streams(streams.spark, streams.path / "wide", {"on": "k", "memory": "2MB"})
    text = pa.array(["x" * 2000] * len(LEFT))
    wide.write(LEFT.append_column("wide", text), RIGHT, batches=1)
    wide.run()
    batch = wm.stream_metrics(wide.path / "state")[0]
    assert batch["flushes"] > 0
    assert batch["rows_spilled"] > 0
    assert batch["bytes_spilled"] > 2000 * batch["rows_spilled"] / 2
    assert any("instance 1, " in flush and "rows" in flush for flush in batch["latest_flushes"])


def test_a_log_beside_sparks_own_progress(brief: Streams) -> None:
    log = brief.path / "log.jsonl"
    listener = wm.StreamLog(log, state=brief.path / "state")
    brief.spark.streams.addListener(listener)
    try:
        brief.run()
        # Events come on a thread of their own, and a batch's last.
        brief.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        brief.spark.streams.removeListener(listener)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["batch"] for line in lines] == [0, 1]
    assert [line["join"] for line in lines] == wm.stream_metrics(brief.path / "state")
    for line in lines:
        assert line["spark"]["batchId"] == line["batch"]
        assert line["spark"]["id"] == line["query"]


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wm.errors.InvalidArgument, match="cannot be written"):
        wm.StreamLog(tmp_path / "no" / "log", state=tmp_path)


def test_a_state_of_a_query_that_has_not_begun_has_no_batches(streams: Streams) -> None:
    streams.joined()
    state = streams.path / "state"
    assert wm.stream_metrics(state) == []
    words = " ".join(wm.explain_stream(state).split())
    assert "left rows unbounded: all of them stay, because nothing is promised about the" in words
    assert "no batch of a query has been committed" in words
