"""Other projects' join tests on Spark: ours gives the rows that Spark's own join gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.suites.examples import EXAMPLES, Example
from watersmeet.model import JoinType
from watersmeet.spark.tables.join import join
from watersmeet.testing.oracle import Rows, assert_same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHARED = [example for example in EXAMPLES if example.spark_knows]


@pytest.mark.parametrize("example", SHARED, ids=str)
def test_what_spark_answers(spark: SparkSession, tmp_path: Path, example: Example) -> None:
    frames = []
    for name, table in (("l", example.left), ("r", example.right)):
        path = str(tmp_path / f"{name}.parquet")
        pq.write_table(table, path)
        frames.append(spark.read.parquet(path))
    left, right = frames
    for how in JoinType:
        expected = _by_spark(example, how, left, right)
        for instances in (None, 2):  # By the driver, and by tasks.
            with join(
                left,
                right,
                on=example.on,
                how=how,
                condition=example.condition,
                instances=instances,
            ) as run:
                assert_same(_plain(run.to_df()), expected)


def _by_spark(example: Example, how: JoinType, left: DataFrame, right: DataFrame) -> Rows:
    left.createOrReplaceTempView("l")
    right.createOrReplaceTempView("r")
    shared = [mine for mine, other in example.pairs if mine == other]
    keys = {
        JoinType.RIGHT: "r.`{0}`",
        JoinType.FULL: "coalesce(l.`{0}`, r.`{0}`)",
    }.get(how, "l.`{0}`")
    columns = [keys.format(name) for name in shared]
    columns += [f"l.`{name}`" for name in left.columns if name not in shared]
    if how.emits_pairs:
        columns += [f"r.`{name}`" for name in right.columns if name not in shared]
    equal = [f"l.`{mine}` = r.`{other}`" for mine, other in example.pairs]
    condition = " AND ".join([*equal, f"({example.sql})"] if example.sql else equal)
    words = f"LEFT {how.value}" if not how.emits_pairs else how.value
    query = f"SELECT {', '.join(columns)} FROM l {words} JOIN r ON {condition}"
    return _plain(left.sparkSession.sql(query))


def _plain(frame: DataFrame) -> Rows:
    """Rows as texts: they hash, NaN equals itself there, and -0.0 differs from 0.0."""
    return Counter(tuple(map(repr, row)) for row in frame.collect())
