"""What `join_streams` refuses at the call, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.streams.running import Streams
from watersmeet.errors import InvalidArgument, MemoryTooSmall, SchemaError, StateError
from watersmeet.spark.microbatches.ticks import parse_interval
from watersmeet.spark.streams.join import join_streams

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"on": "nope"}, SchemaError, "'nope'"),
        ({"on": {"k": "b_text"}}, SchemaError, "cannot be compared"),
        ({"how": "sideways"}, InvalidArgument, "sideways"),
        ({"how": "left"}, InvalidArgument, "without end"),
        ({"how": "semi"}, InvalidArgument, "`ends`"),
        ({"how": "anti", "ends": ("a < 0", None)}, InvalidArgument, "without end"),
        ({"ends": "a < 0"}, InvalidArgument, "pair of conditions"),
        ({"algorithm": "magic"}, InvalidArgument, "magic"),
        ({"memory": "1MB"}, MemoryTooSmall, "2 instances"),
        ({"memory": "lots"}, InvalidArgument, "lots"),
        ({"wait_threshold": -1}, InvalidArgument, "wait_threshold"),
        ({"ticks": "often"}, InvalidArgument, "often"),
        ({"ticks": 0}, InvalidArgument, "ticks=0"),
        ({"instances": 0}, InvalidArgument, "instances=0"),
        ({"state": ""}, InvalidArgument, "state"),
        ({"state": "nowhere://x/y"}, InvalidArgument, "nowhere"),
        ({"suffixes": ("", "")}, SchemaError, "suffixes"),
    ],
)
def test_wrong_arguments_fail_at_the_call(
    streams: Streams, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    if "suffixes" in changes:
        streams.options["on"] = {"k": "k2"}
        right = streams.stream("right").withColumnRenamed("k", "k2").withColumnRenamed("b", "a")
    else:
        right = streams.stream("right")
    options = {"state": streams.path / "state"} | streams.options | changes
    with pytest.raises(error, match=words):
        join_streams(streams.stream("left"), right, **options)


def test_tables_are_sent_elsewhere(streams: Streams) -> None:
    table = streams.spark.read.parquet(str(streams.path / "left"))
    with pytest.raises(InvalidArgument, match=r"left .*wm\.join"):
        join_streams(table, streams.stream("right"), on="k", state=streams.path / "state")
    with pytest.raises(InvalidArgument, match="right is a str"):
        join_streams(streams.stream("left"), "right", on="k", state=streams.path)  # type: ignore[arg-type]


def test_streams_of_spark_connect_are_refused(streams: Streams) -> None:
    class Connected:
        """What a DataFrame of Spark Connect looks like from here."""

        mapInArrow = isStreaming = True

    with pytest.raises(InvalidArgument, match="right is a DataFrame of Spark Connect"):
        join_streams(streams.stream("left"), Connected(), on="k", state=streams.path / "state")  # type: ignore[arg-type]


def test_a_state_that_cannot_be_written(streams: Streams) -> None:
    (streams.path / "file").write_text("in the way")
    with pytest.raises(StateError, match="cannot be written"):
        streams.joined(state=streams.path / "file" / "state")


def test_keys_with_a_collation_are_refused(streams: Streams) -> None:
    left = streams.stream("left").selectExpr("collate(a_text, 'UTF8_LCASE') as t", "a")
    right = streams.stream("right").selectExpr("b_text as t", "b")
    with pytest.raises(SchemaError, match="UTF8_LCASE"):
        join_streams(left, right, on="t", state=streams.path / "state")


def test_times_between_ticks(tmp_path: Path) -> None:
    assert parse_interval("2 minutes") == 120
    assert parse_interval("250ms") == 0.25
    assert parse_interval(3) == 3.0
    assert parse_interval(None) is None
