"""The Python workers' memory during an aggregate, measured from outside, against its cap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from benchmarks.cases import MB
from tests.memory.aggregates import SHAPES, written
from tests.spark.workers import watched
from watersmeet.errors import MemoryTooSmall

pytestmark = pytest.mark.spark

# Of one worker: its own part of the interpreter and the libraries, and allocators' slack.
A_WORKER = 96 * MB


def check(
    spark: SparkSession, shape: str, folder: Path, *, memory: int, looks: bool, staged: bool
) -> None:
    question = written(shape, folder)
    left, right = (
        spark.read.parquet(str(folder / f"{side}.parquet")) for side in ("left", "right")
    )
    if staged:  # Only Spark can say which rows these are.
        left = left.where("sign(k) >= -1")
    asked: dict[str, Any] = {"n": wm.count()}
    if "sum" in question:
        asked["s"] = wm.sum(question["sum"])
    refused = ""
    with (
        watched(spark) as seen,
        wm.aggregate(
            left, right, on="k", group_by=question.get("group_by"), memory=memory, **asked
        ) as run,
    ):
        try:
            if looks:
                assert list(run)
            assert sum(run.exact().answer["n"].to_pylist()) == question["rows"]
        except MemoryTooSmall as error:
            refused = str(error)
    if refused:
        # Only where the groups of the answer alone take more than there is.
        assert shape in ("text groups", "wide texts aside"), refused
        assert "groups" in refused
    tasks = spark.sparkContext.defaultParallelism
    biggest = sorted(seen.peaks.values())[-tasks:]
    assert biggest
    assert sum(biggest) <= memory + A_WORKER * tasks, seen.peaks


@pytest.mark.parametrize(
    ("shape", "staged"),
    [pytest.param("wide texts", False, marks=pytest.mark.slow), ("hot key", True)],
)
def test_workers_stay_inside_the_memory(
    spark: SparkSession, shape: str, staged: bool, tmp_path: Path
) -> None:
    check(spark, shape, tmp_path, memory=64 * MB, looks=False, staged=staged)


@pytest.mark.slow
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("memory", [16 * MB, 64 * MB, 256 * MB])
@pytest.mark.parametrize("shape", SHAPES)
def test_workers_stay_inside_every_memory(
    spark: SparkSession, shape: str, memory: int, looks: bool, staged: bool, tmp_path: Path
) -> None:
    check(spark, shape, tmp_path, memory=memory, looks=looks, staged=staged)
