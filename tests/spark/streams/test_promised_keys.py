"""Joins of streams on UUIDs, and on texts and numbers together, with promises, on Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.streams.running import Rows, Streams, counted

# Dozens of micro-batches.
pytestmark = [pytest.mark.spark, pytest.mark.slow]

_EARLY = 1_700_000_000
EACH = 40
ORDERS = pa.schema({"id": pa.string(), "part": pa.int64(), "order": pa.int64()})
PAID = pa.schema({"id": pa.string(), "part": pa.int64(), "paid": pa.int64(), "over": pa.bool_()})


def key(number: int) -> dict[str, Any]:
    """UUIDs of which some begin with the same bytes; each is the key of two orders, if the part
    counts as well."""
    return {"id": str(UUID(int=(number // 2 % 3 << 120) + number // 2)), "part": number % 2}


class Orders(Streams):
    """Orders on the left, payments on the right, a file of each in a batch."""

    def arrive(self, turn: int, numbers: list[int], paid: list[int]) -> None:
        """Orders, and payments of other ones, most of them in two parts; then no more is paid."""
        orders = [key(number) | {"order": number} for number in numbers]
        parts = [
            key(number) | {"paid": 10 * number + n}
            for number in paid
            for n in range(2 if number % 5 else 0)
        ]
        over = [key(number) | {"over": True} for number in paid]
        tables = {"left": (orders, ORDERS), "right": (parts + over, PAID)}
        for side, (rows, schema) in tables.items():
            (self.path / side).mkdir(parents=True, exist_ok=True)
            self.add(side, pa.Table.from_pylist(rows, schema), f"{turn:03}")
            os.utime(self.path / side / f"{turn:03}.parquet", (_EARLY + turn, _EARLY + turn))

    def by_spark(self) -> Rows:
        left, right = (self.spark.read.parquet(str(self.path / side)) for side in ("left", "right"))
        right = right.where("over IS NULL")
        return counted(left.join(right, self.options["on"], self.options["how"]))


@pytest.mark.parametrize("on", [["id"], ["id", "part"]], ids=["uuid", "uuid and part"])
def test_orders_that_are_paid_leave_nothing_behind(
    on: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    """The query is stopped and goes on twice. Some orders are never paid."""
    pattern = dict.fromkeys(on, "equal")
    streams = Orders(
        spark,
        tmp_path,
        {
            "instances": 2,
            "on": on,
            "how": "left",
            "promises": [wm.unique("left"), wm.punctuated("right", "over", pattern)],
        },
    )
    step = 2 if on == ["id"] else 1
    for turn in range(24):
        first = step * EACH * turn
        before = range(first - step * EACH, first, step)
        streams.arrive(
            turn,
            list(range(first, first + step * EACH, step)),
            [number for number in before if number >= 0],
        )
        if turn % 8 == 7:
            found = streams.run()
    kept = [each["promises"]["rows_kept"] for each in wm.stream_metrics(tmp_path / "state")]
    assert max(kept) <= 2 * EACH
    # The orders of the last turn may still be paid.
    expected = streams.by_spark()
    assert not found - expected
    assert sum((expected - found).values()) == EACH
