"""A stream enriched from a master table, against Spark's own join of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.enrich.running import Enrichment
from tests.spark.streams.running import LEFT, RIGHT

pytestmark = pytest.mark.spark


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Enrichment:
    made = Enrichment(spark, tmp_path)
    made.write(LEFT, RIGHT, batches=2)
    return made


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_every_row_comes_once(streams: Enrichment, how: str) -> None:
    expected = streams.expected(how)
    assert streams.run(how=how) == expected
