"""Streams joined on a band alone: a row may go to several instances, and no result comes twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.streams.running import Streams, counted
from watersmeet.errors import InvalidArgument, StateError
from watersmeet.spark.lanes import LaneRouter

pytestmark = pytest.mark.spark

Rows = Counter[tuple[Any, ...]]
NEAR = wm.within("t", 3)
ENDS = ("a < 0", "b < 0")
TYPES = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}


def side(name: str, rows: int, *, seed: int, first: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    values = random.integers(0, 4000, rows)
    missing = random.random(rows) < 0.02
    return pa.table({"t": pa.array(values, mask=missing), name: np.arange(first, first + rows)})


def expected(streams: Streams, how: str = "inner") -> Rows:
    spark = streams.spark
    for name in ("left", "right"):
        spark.read.parquet(str(streams.path / name)).createOrReplaceTempView(f"streams_{name}")
    columns = "l.a" if how in TYPES else "l.a, r.b"
    return counted(
        spark.sql(
            f"SELECT {columns} FROM (SELECT * FROM streams_left WHERE a >= 0) l "
            f"{TYPES.get(how, how)} JOIN (SELECT * FROM streams_right WHERE b >= 0) r "
            "ON abs(l.t - r.t) <= 3"
        )
    )


def found(streams: Streams, *columns: str) -> Rows:
    return counted(streams.spark.read.parquet(str(streams.path / "out")).select(*columns))


def test_it_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path, {"on": NEAR, "instances": 3})
    streams.write(side("a", 900, seed=1), side("b", 800, seed=2), batches=2)
    streams.run()
    first = expected(streams)
    assert found(streams, "a", "b") == first
    streams.add("right", side("b", 200, seed=3, first=5000), "more")
    streams.run()
    assert found(streams, "a", "b") == expected(streams)
    assert expected(streams).total() > first.total() > 500
    assert len(streams.versions()) == 3
    with pytest.raises(StateError, match="made with bands="):
        streams.joined(on=wm.within("t", 4))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["left", "right", "semi", "anti", "full"])
def test_rows_without_a_partner_come_once(how: str, spark: SparkSession, tmp_path: Path) -> None:
    count = 1 if how == "full" else 3
    streams = Streams(spark, tmp_path, {"on": NEAR, "instances": count, "how": how, "ends": ENDS})
    streams.write(side("a", 600, seed=4), side("b", 500, seed=5), batches=2)
    for name, column in (("left", "a"), ("right", "b")):
        end = pa.table({"t": pa.nulls(1, pa.int64()), column: [-1]})
        streams.add(name, end, "zz-end")
    streams.run()
    columns = ["a"] if how in TYPES else ["a", "b"]
    assert found(streams, *columns) == expected(streams, how)


@pytest.mark.slow
def test_another_rule_of_routing_is_another_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(spark, tmp_path, {"on": NEAR, "instances": 2})
    streams.write(side("a", 50, seed=6), side("b", 50, seed=7), batches=1)
    streams.run()
    monkeypatch.setattr(LaneRouter, "rule", "a rule of a later version")
    with pytest.raises(StateError, match="made with routing='left rows by lanes of 4 bands'"):
        streams.joined()


def test_a_band_with_one_end_needs_one_instance(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path, {"on": wm.band("t", low=3900)})
    streams.write(side("a", 60, seed=8), side("b", 60, seed=9), batches=1)
    with pytest.raises(InvalidArgument, match=r"one end only.*instances=1"):
        streams.joined()
    streams.joined(instances=1)
