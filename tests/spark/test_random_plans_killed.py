"""Random plans whose workers are killed meanwhile: still the rows of Spark's own join."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import watersmeet as wm
from tests.spark.sql_types import texts
from tests.spark.test_random_plans import HOWS, others, places, planned, uncached
from tests.spark.workers import beside, workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["places", "uncached"]

pytestmark = pytest.mark.spark

# A task may fail so often that Spark gives up, and a worker is killed less often than that.
KILLS = 3


@contextmanager
def killing(spark: SparkSession, chosen: random.Random) -> Iterator[list[int]]:
    """Kill a worker, or a home, now and then while the block runs."""
    killed: list[int] = []

    def kill(done: threading.Event) -> None:
        while len(killed) < KILLS and not done.wait(chosen.uniform(0.01, 0.2)):
            if alive := workers(spark):
                with suppress(ProcessLookupError):
                    os.kill(one := chosen.choice(alive), signal.SIGKILL)
                    killed.append(one)

    with beside(kill):
        yield killed


@pytest.mark.usefixtures("in_waves", "uncached")
@pytest.mark.parametrize(
    "seed", [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(101, 130))]
)
def test_a_random_plan_whose_workers_are_killed(
    spark: SparkSession, places: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    told, left = planned(spark, places, chosen)
    how, right = chosen.choice(list(HOWS)), others(spark)
    expected = texts(left.join(right, "k", HOWS[how]))
    with killing(spark, chosen) as killed, wm.join(left, right, "k", how, seed=seed) as run:
        found = [text for wave in run for text in texts(wave.rows)]
    assert sorted(found) == expected, f"{how}: {told}"
    assert killed, "nobody was killed, and nothing shown"
