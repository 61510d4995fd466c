"""Joins of streams with promises, on Spark, beside Spark's own join with watermarks."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.streams.faults import Fault, Faults
from tests.spark.streams.killing import PLACES
from tests.spark.streams.running import Rows, Streams
from watersmeet.errors import InvalidArgument, PromiseBroken, SchemaError, StateError
from watersmeet.spark.streams.join import join_streams

pytestmark = pytest.mark.spark

MOMENT = pa.timestamp("us", "UTC")
CLICKS = pa.schema({"user": pa.int64(), "clicked": MOMENT, "click": pa.int64()})
VIEWS = pa.schema({"user": pa.int64(), "viewed": MOMENT, "view": pa.int64(), "done": pa.bool_()})
ON = ["user", wm.within(("clicked", "viewed"), "10 minutes")]
NEAR = (
    "user = user_right AND clicked BETWEEN viewed - INTERVAL 10 MINUTES "
    "AND viewed + INTERVAL 10 MINUTES"
)


def moment(minutes: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)


def clicks(*rows: tuple[int, float, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"user": u, "clicked": moment(m), "click": n} for u, m, n in rows], CLICKS
    )


def views(*rows: tuple[int | None, float | None, int | None], done: bool = False) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"user": u, "viewed": None if m is None else moment(m), "view": n, "done": done}
            for u, m, n in rows
        ],
        VIEWS,
    )


_EARLY = 1_700_000_000


class Visits(Streams):
    """Clicks on the left, views on the right, a file of each in a batch."""

    def arrive(self, number: int, left: pa.Table, right: pa.Table) -> None:
        for side, table in (("left", left), ("right", right)):
            (self.path / side).mkdir(parents=True, exist_ok=True)
            self.add(side, table, f"{number:03}")
            # Spark takes files in the order of their times, and those of one moment in any order.
            os.utime(self.path / side / f"{number:03}.parquet", (_EARLY + number, _EARLY + number))

    def joined(self, **changes: Any) -> DataFrame:
        options = {"state": self.path / "state", "ticks": None, "on": ON} | self.options | changes
        delays = options.pop("delays", None)
        left, right = self.stream("left"), self.stream("right")
        if delays is not None:
            left = left.withWatermark("clicked", delays[0])
            right = right.withWatermark("viewed", delays[1])
        return join_streams(left, right, **options)

    def by_spark(self, how: str, delay: str) -> Rows:
        """What Spark's own join of the streams gives, with watermarks on both."""
        left = self.stream("left").withWatermark("clicked", delay)
        right = self.stream("right").withColumnRenamed("user", "user_right")
        right = right.withWatermark("viewed", delay)
        joined = left.join(right, sf.expr(NEAR), how).drop("user_right")
        out, checkpoint = (str(self.path / f"spark-{how}-{name}") for name in ("out", "check"))
        writer = joined.writeStream.option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(out).awaitTermination()
        found = self.spark.read.schema(joined.schema).parquet(out)
        return Counter(tuple(row) for row in found.collect())


@pytest.fixture
def visits(spark: SparkSession, tmp_path: Path) -> Visits:
    return Visits(spark, tmp_path, {"instances": 2})


def pairs(rows: Rows) -> Counter[tuple[Any, Any]]:
    """Click and view of each row."""
    found: Counter[tuple[Any, Any]] = Counter()
    for row, count in rows.items():
        found[row[2], row[4]] += count
    return found


def test_clicks_with_a_watermark_and_views_with_punctuations(visits: Visits) -> None:
    """Marker rows say of a user, or of a time, that no views come any more, and go to one instance
    or to both. Then the query goes on from its checkpoint, and a late row is put aside."""
    visits.options |= {
        "how": "left",
        "promises": [
            wm.watermark("left", "clicked", "5 minutes"),
            wm.punctuated("right", "done AND user IS NOT NULL", {"USER": "equal"}),
            wm.punctuated("right", sf.expr("done AND user IS NULL"), {"viewed": (None, "viewed")}),
        ],
        "on_broken": "quarantine",
    }
    visits.arrive(0, clicks((1, 0, 10), (2, 1, 20), (3, 2, 30)), views((1, 5, 11), (2, 30, 22)))
    marker = pa.concat_tables([views((1, 6, 12)), views((1, 0, None), done=True)])
    visits.arrive(1, clicks((1, 7, 13)), marker)
    visits.joined()
    told = " ".join(wm.explain_stream(visits.path / "state").split())
    assert "right rows bounded by watermark(clicked, 5 minutes) of the left input" in told
    assert "left rows bounded by punctuated(when done AND user IS NOT NULL) of the right" in told
    assert "; by punctuated(when done AND user IS NULL) of the right input" in told
    found = pairs(visits.run())
    assert found == {(10, 11): 1, (10, 12): 1, (13, 11): 1, (13, 12): 1}
    every = views((None, 75, None), done=True)
    visits.arrive(2, clicks((3, 60, 31), (4, 4, 40)), every)
    assert pairs(visits.run()) - found == {
        (20, None): 1,
        (30, None): 1,
        (31, None): 1,
        (40, None): 1,
    }
    visits.arrive(3, clicks((5, 2, 50)), views())
    visits.run()
    aside = wm.quarantine(visits.spark, visits.path / "state")
    assert [tuple(row) for row in aside.select("side", "batch", "left.click").collect()] == [
        ("left", visits.versions()[0][-1], 50)
    ]
    told = wm.stream_metrics(visits.path / "state")[-1]["promises"]
    assert told["rows_kept"] == 0
    assert told["broken"] == {"left: watermark(clicked, 5 minutes)": 1}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_rows_are_those_of_sparks_own_join_with_watermarks(visits: Visits, how: str) -> None:
    """And those that Spark drops as late are put aside, by name."""
    chance = random.Random(how)
    late: set[int] = set()
    number = 0
    for batch in range(6):
        sides: tuple[list[Any], list[Any]] = ([], [])
        for side in sides:
            for _ in range(40):
                number += 1
                minutes = 30 * batch + chance.uniform(0, 30) - chance.uniform(0, 4)
                side.append((chance.randrange(12), minutes, number))
        if batch > 3:
            # After this much time there is no question for anybody.
            for side in sides:
                number += 1
                late.add(number)
                side.append((chance.randrange(12), 5.0, number))
        visits.arrive(batch, clicks(*sides[0]), views(*sides[1]))
    visits.arrive(6, clicks((99, 1000, -1)), views((98, 1000, -2)))
    visits.arrive(7, clicks((99, 1001, -3)), views((98, 1001, -4)))
    ours = visits.run(how=how, delays=("35 minutes", "35 minutes"), on_broken="quarantine")
    theirs = visits.by_spark(how, "35 minutes")
    assert ours == theirs
    assert ours.total() > 200
    aside = wm.quarantine(visits.spark, visits.path / "state")
    named = {
        row["left"]["click"] if row["left"] else row["right"]["view"] for row in aside.collect()
    }
    assert named == late
    assert wm.stream_metrics(visits.path / "state")[-1]["promises"]["rows_kept"] <= 8


@pytest.mark.slow
@pytest.mark.parametrize("what", ["raise", "worker"])
def test_tasks_that_failed_are_run_again(
    visits: Visits, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(what)
    rows: list[list[Any]] = [[], []]
    for batch in range(5):
        sides: list[list[Any]] = [
            [
                (chance.randrange(9), 20 * batch + chance.uniform(0, 20), 100 * batch + n)
                for n in range(30)
            ]
            for _ in rows
        ]
        visits.arrive(batch, clicks(*sides[0]), views(*sides[1]))
        for side, more in zip(rows, sides, strict=True):
            side += more
    turns = [(batch, instance) for batch in (1, 2, 3) for instance in (0, 1)]
    faults = [
        Fault(where, what, visits.path / f"struck-{where}", batch, instance)
        for where, (batch, instance) in zip(PLACES, turns, strict=False)
    ]
    monkeypatch.setattr("watersmeet.spark.streams.join.run_batch", Faults(faults))
    found = visits.run(delays=("25 minutes", "25 minutes"))
    assert all(fault.marker.exists() for fault in faults)
    left, right = (visits.spark.read.parquet(str(visits.path / side)) for side in ("left", "right"))
    joined = left.join(right.withColumnRenamed("user", "user_right"), sf.expr(NEAR))
    assert pairs(found) == Counter(tuple(row) for row in joined.select("click", "view").collect())


@pytest.mark.slow
def test_a_broken_promise_ends_the_query_and_names_row_and_promise(visits: Visits) -> None:
    """And the query goes on when it is told to do without such rows."""
    options = {"delays": ("5 minutes", "5 minutes")}
    visits.arrive(0, clicks((1, 100, 1)), views((1, 100, 2)))
    visits.arrive(1, clicks((1, 20, 3)), views())
    with pytest.raises(StreamingQueryException) as raised:
        visits.run(**options)
    error = wm.stream_error(raised.value)
    assert isinstance(error, PromiseBroken)
    assert "watermark(clicked, 5 minutes)" in str(error)
    assert "00:20:00" in str(error)
    assert pairs(visits.run(on_broken="drop", **options)) == {(1, 2): 1}
    with pytest.raises(StateError, match="made with promises="):
        visits.joined(delays=("6 minutes", "5 minutes"))


def test_wrong_promises_are_refused_at_the_call(visits: Visits) -> None:
    visits.arrive(0, clicks(), views())
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"promises": ["user"]}, InvalidArgument, "no list of promises"),
        ({"promises": [wm.watermark("left", "nope", "1 minute")]}, SchemaError, "nope"),
        ({"promises": [wm.watermark("left", "viewed", "1 minute")]}, SchemaError, "viewed"),
        ({"promises": [wm.watermark("right", "user", "1 minute")]}, Exception, "user"),
        ({"promises": [wm.punctuated("right", "nope")]}, InvalidArgument, "does not understand"),
        ({"promises": [wm.punctuated("right", "view + 1")]}, InvalidArgument, "no condition"),
        (
            {"promises": [wm.punctuated("right", "done", {"nope": "equal"})]},
            SchemaError,
            "nope",
        ),
        ({"on_broken": "ignore"}, InvalidArgument, "on_broken='ignore'"),
        ({"purge": 0}, InvalidArgument, "purge=0 does not say when"),
        (
            {"how": "left", "promises": [wm.watermark("left", "clicked", "1 minute")]},
            InvalidArgument,
            "right",
        ),
        ({"how": "left"}, InvalidArgument, "promise"),
    ]
    for changes, error, words in wrong:
        with pytest.raises(error, match=words):
            visits.joined(**changes)


@pytest.mark.slow
def test_where_late_begins_and_where_it_begins_in_sparks_own_join(visits: Visits) -> None:
    """A row that is late by just the delay keeps its promise, and Spark drops it. Spark goes by the
    times of the batch before the last, and we by those of the last one."""
    visits.arrive(0, clicks((9, 100, 1)), views((9, 100, 2)))
    visits.arrive(1, clicks((9, 100, 3), (1, 89, 10)), views((1, 95, 11)))
    late, just, not_yet = (2, 89.99, 20), (3, 90, 30), (4, 90.01, 40)
    visits.arrive(2, clicks(late, just, not_yet), views((2, 95, 21), (3, 95, 31), (4, 95, 41)))
    ours = pairs(visits.run(delays=("10 minutes", "10 minutes"), on_broken="quarantine"))
    theirs = pairs(visits.by_spark("inner", "10 minutes"))
    both = {(1, 2): 1, (3, 2): 1, (40, 41): 1}
    assert ours == both | {(30, 31): 1}
    assert theirs == both | {(10, 11): 1}
    aside = wm.quarantine(visits.spark, visits.path / "state").select("left.click").collect()
    assert sorted(row.click for row in aside) == [10, 20]


@pytest.mark.slow
def test_one_stream_that_is_behind_holds_sparks_watermark_back_and_not_ours(visits: Visits) -> None:
    """Spark has one watermark for a query, the least of its streams; a promise is about one."""
    visits.arrive(0, clicks((9, 100, 1)), views((9, 10, 2)))
    visits.arrive(1, clicks((9, 100, 3)), views((9, 10, 4)))
    visits.arrive(2, clicks((1, 20, 10)), views((1, 20, 11)))
    ours = pairs(visits.run(delays=("10 minutes", "10 minutes"), on_broken="quarantine"))
    assert not ours
    assert pairs(visits.by_spark("inner", "10 minutes")) == {(10, 11): 1}
    aside = wm.quarantine(visits.spark, visits.path / "state").select("left.click").collect()
    assert [row.click for row in aside] == [10]


def test_marker_rows_of_the_result_say_what_is_over(visits: Visits) -> None:
    """A user of whom no more views come, and how far the times of both streams are; each once."""
    visits.options |= {
        "promises": [
            wm.watermark("left", "clicked", "5 minutes"),
            wm.watermark("right", "viewed", "5 minutes"),
            wm.punctuated("right", "done", {"user": "equal"}),
        ],
        "punctuations": "is_marker",
    }
    visits.arrive(0, clicks((1, 0, 10)), views((1, 5, 11)))
    over = views((1, 0, None), done=True)
    visits.arrive(1, clicks((2, 60, 20)), pa.concat_tables([views((2, 60, 21)), over]))
    assert visits.joined().schema["is_marker"].dataType.simpleString() == "boolean"
    told = " ".join(wm.explain_stream(visits.path / "state").split())
    assert "passed on marker rows; a next join reads them by wm.punctuated(..., when=" in told
    assert "{'user': 'equal', 'clicked': (None, 'clicked'), 'viewed': (None, 'viewed')}" in told
    rows = visits.run()
    assert set(rows.values()) == {1}
    assert {(row[2], row[4]) for row in rows if not row[-1]} == {(10, 11), (20, 21)}
    markers = [row for row in rows if row[-1]]
    assert [row[0] for row in markers if row[0]] == [1]
    last = moment(55) - timedelta(microseconds=1)
    for place in (1, 3):
        assert max(_utc(row[place]) for row in markers if row[place]) == last
    with pytest.raises(InvalidArgument, match="name of a column of the result already"):
        visits.joined(punctuations="click")
    with pytest.raises(InvalidArgument, match="nothing is promised"):
        visits.joined(promises=[], punctuations="is_marker")


def _utc(value: datetime) -> datetime:
    """Spark's rows have times of the session's zone, without saying so."""
    return value if value.tzinfo else value.astimezone(UTC)
