"""A small stream and a master table, new ones for each test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.enrich.running import Enrichment


@pytest.fixture
def enrichment(spark: SparkSession, tmp_path: Path) -> Enrichment:
    from tests.spark.enrich.running import Enrichment
    from tests.spark.streams.running import LEFT, RIGHT

    made = Enrichment(spark, tmp_path)
    made.write(LEFT, RIGHT, batches=2)
    return made
