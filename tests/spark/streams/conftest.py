"""Streams of one small join, in a directory of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.streams.running import Streams


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    from tests.spark.streams.running import LEFT, RIGHT, Streams

    return Streams(spark, tmp_path).write(LEFT, RIGHT)
