"""Joins of streams with promises that a driver can be killed in, and what must come of them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.streams.running import Rows
from tests.spark.streams.test_promises import NEAR, Visits, clicks, pairs, views

Numbers = Counter[Any]


class Promised(Visits):
    """Clicks and views, most of which keep the promises about them."""

    changes: ClassVar[dict[str, Any]]
    near = "user = user_right"

    def __init__(self, spark: SparkSession, path: Path) -> None:
        super().__init__(spark, path, {"instances": 2, "how": "left", **self.changes})
        self.broken: Counter[str] = Counter()
        """How many rows break which promise."""
        self.late: set[int] = set()
        """The numbers of those rows."""

    def send(self) -> Promised:
        """Write the files that the streams will take in."""
        raise NotImplementedError

    def expected_pairs(self) -> Numbers:
        """What Spark's own join of all rows gives that keep their promises. Rows with numbers below
        0 only tell that others are decided."""
        left, right = (self.spark.read.parquet(str(self.path / side)) for side in ("left", "right"))
        left = left.where(~sf.col("click").isin(*self.late))
        right = right.where(~sf.col("view").isin(*self.late)).where("NOT done")
        joined = left.join(
            right.withColumnRenamed("user", "user_right"), sf.expr(self.near), "left"
        )
        return decided(joined.select("click", "view"))

    def found_pairs(self) -> Numbers:
        return Counter({pair: n for pair, n in pairs(self.output()).items() if pair[0] >= 0})

    def told_broken(self) -> Numbers:
        """How many rows broke which promise, by the metrics."""
        found: Numbers = Counter()
        for batch in wm.stream_metrics(self.path / "state"):
            found.update(batch["promises"]["broken"])
        return found


class Watermarks(Promised):
    """Times that are close, rows that are late by less than a watermark allows, and some that are
    late by more, which are put aside. No match is told by the watermarks."""

    changes: ClassVar[dict[str, Any]] = {
        "delays": ("35 minutes", "35 minutes"),
        "on_broken": "quarantine",
    }
    near = NEAR

    def send(self) -> Watermarks:
        chance, number = random.Random(1), 0
        for batch in range(5):
            sides: tuple[list[Any], list[Any]] = ([], [])
            names = ("left: watermark(clicked", "right: watermark(viewed")
            for side, name in zip(sides, names, strict=True):
                for place in range(20):
                    number += 1
                    minutes = 30 * batch + chance.uniform(0, 30) - chance.uniform(0, 4)
                    if batch > 2 and place < 3:
                        minutes = 5.0
                        self.late.add(number)
                        self.broken[f"{name}, 35 minutes)"] += 1
                    side.append((chance.randrange(8), minutes, number))
            self.arrive(batch, clicks(*sides[0]), views(*sides[1]))
        self.arrive(5, clicks((99, 1000, -1)), views((98, 1000, -2)))
        return self

    def aside(self) -> Numbers:
        """The numbers of the rows that were put aside."""
        rows = wm.quarantine(self.spark, self.path / "state").collect()
        return Counter(
            row["left"]["click"] if row["left"] else row["right"]["view"] for row in rows
        )


class UniqueAndPunctuated(Promised):
    """One click of a user and many views, until a marker row says that there are no more. Rows in
    memory are looked through after every third promise. Second clicks of a user, and views after
    the marker, are dropped."""

    changes: ClassVar[dict[str, Any]] = {
        "on": "user",
        "promises": [wm.unique("left"), wm.punctuated("right", "done", {"user": "equal"})],
        "on_broken": "drop",
        "purge": 3,
    }

    def send(self) -> UniqueAndPunctuated:
        chance, number = random.Random(2), 0
        for batch in range(6):
            mine: list[Any] = []
            others: list[Any] = []
            # Users of this batch, and of the one before, which is their last.
            for user in range(max(6 * batch - 6, 0), 6 * batch + 6):
                is_new = user >= 6 * batch
                if is_new:
                    number += 1
                    mine.append((user, 0, number))
                for _ in range(chance.randrange(1 + user % 3)):
                    number += 1
                    others.append((user, 0, number))
            over = [(user, None, None) for user in range(max(6 * batch - 6, 0), 6 * batch)]
            # Users whose marker came three files ago. If a driver is killed between Spark's log of
            # files and its log of offsets, the next batch has both files, and then neither is late
            # by the other.
            for user in range(max(6 * batch - 24, 0), 6 * batch - 21):
                self.late |= {number + 1, number + 2}
                mine.append((user, 0, number + 1))
                others.append((user, 0, number + 2))
                number += 2
                self.broken["left: unique(the key)"] += 1
                self.broken["right: punctuated(when done)"] += 1
            tables = [views(*others), views(*over, done=True)]
            self.arrive(batch, clicks(*mine), pa.concat_tables(tables))
        last = [(user, None, None) for user in range(36)]
        self.arrive(6, clicks(), views(*last, done=True))
        return self


class PassedOn(UniqueAndPunctuated):
    """The same, and the result has a marker row for each user it is done with."""

    changes: ClassVar[dict[str, Any]] = UniqueAndPunctuated.changes | {"punctuations": "is_marker"}

    def output(self) -> Rows:
        return Counter({row: n for row, n in super().output().items() if not row[-1]})

    def users_told(self) -> Numbers:
        """The users that marker rows speak of."""
        return Counter({row[0]: n for row, n in super().output().items() if row[-1]})


CASES: dict[str, type[Promised]] = {
    "watermarks": Watermarks,
    "unique-and-punctuated": UniqueAndPunctuated,
    "passed-on": PassedOn,
}


def decided(frame: DataFrame) -> Numbers:
    return Counter(tuple(row) for row in frame.where("click >= 0").collect())
