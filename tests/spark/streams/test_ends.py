"""Streams that say when they are complete: outer joins, and all three stages on Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from tests.spark.streams.running import LEFT, RIGHT, Streams
from watersmeet.spark.microbatches.metrics import stream_metrics

pytestmark = pytest.mark.spark

ENDS = ("a < 0", "b < 0")


def mark(side: str) -> pa.Table:
    table, value = (LEFT, "a") if side == "left" else (RIGHT, "b")
    row = {"k": [None], value: [-1], f"{value}_text": [None]}
    return pa.table(row, schema=table.schema)


@pytest.mark.parametrize(
    "how",
    [
        "full",  # does all that inner, left and right joins do
        *(
            pytest.param(h, marks=pytest.mark.slow)
            for h in ("inner", "left", "right", "semi", "anti")
        ),
    ],
)
def test_all_is_there_when_both_have_ended(brief: Streams, how: str) -> None:
    expected = brief.expected(how)
    brief.options |= {"how": how, "ends": ENDS, "memory": "2MB", "ticks": None}
    before = brief.run()
    assert before <= expected
    brief.add("left", mark("left"), "zz-end")
    brief.run()
    brief.add("right", mark("right"), "zz-end")
    assert brief.run() == expected


@pytest.mark.slow
def test_what_was_spilled_comes_in_the_clean_up(streams: Streams) -> None:
    wide = Streams(streams.spark, streams.path / "wide", {"on": "k", "ends": ENDS})
    text = pa.array(["x" * 2000] * len(LEFT))
    wide.write(LEFT.append_column("wide", text), RIGHT, batches=2)
    expected = wide.expected()
    # So patient that no stall is used before the end.
    wide.options |= {"memory": "2MB", "instances": 2, "wait_threshold": 3600.0}
    last = mark("left").append_column("wide", pa.array(["x"]))
    wide.add("left", last, "zz-end")
    wide.add("right", mark("right"), "zz-end")
    assert wide.run() == expected
    batches = stream_metrics(wide.path / "state")
    assert batches[-1]["results"]["cleanup"] > 0
    assert sum(batch["rows_spilled"] for batch in batches) > 0
    assert sum(batch["rows_out"] for batch in batches) == expected.total()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shj", "pmj"])
def test_algorithms_that_do_not_use_stalls(brief: Streams, name: str) -> None:
    expected = brief.expected()
    for side in ("left", "right"):
        brief.add(side, mark(side), "zz-end")
    assert brief.run(algorithm=name, ends=ENDS) == expected


def test_marks_and_rows_in_one_batch(streams: Streams) -> None:
    """The rows come first, in whatever order the batch brings them."""
    expected = streams.expected("full")
    streams.options |= {"how": "full", "ends": (sf.col("a") < 0, sf.col("b") < 0)}
    streams.add("left", mark("left"), "000-first")
    streams.add("right", mark("right"), "000-first")
    left, right = streams.stream("left", 9), streams.stream("right", 9)
    from watersmeet.spark.streams.join import join_streams

    joined = join_streams(left, right, state=streams.path / "state", ticks=None, **streams.options)
    streams.start(joined).awaitTermination()
    assert streams.output() == expected


def test_rows_after_the_end_are_an_error(brief: Streams) -> None:
    brief.options |= {"ends": ENDS}
    brief.add("left", mark("left"), "zz-end")
    brief.run()
    found = brief.output()
    brief.add("left", LEFT.slice(0, 10), "zzz-late")
    with pytest.raises(StreamingQueryException, match="left stream ended in batch 2"):
        brief.run()
    assert brief.output() == found


@pytest.mark.slow
def test_batches_after_the_end_do_no_harm(streams: Streams) -> None:
    expected = streams.expected()
    streams.options |= {"ends": ENDS}
    for side in ("left", "right"):
        streams.add(side, mark(side), "zz-end")
    assert streams.run() == expected
    streams.add("left", mark("left"), "zzz-again")
    assert streams.run() == expected
    assert stream_metrics(streams.path / "state")[-1]["rows_out"] == 0
