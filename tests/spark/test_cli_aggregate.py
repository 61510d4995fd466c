"""`watersmeet aggregate --spark`, and how a run on Spark explains itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def files(tmp_path: Path) -> Path:
    orders = pa.table({"id": range(200), "kind": ["a", "b"] * 100})
    items = pa.table({"order_id": [n * 7 % 200 for n in range(30_000)], "price": [2.5] * 30_000})
    pq.write_table(orders, tmp_path / "orders.parquet")
    pq.write_table(items, tmp_path / "items.parquet", row_group_size=300)
    return tmp_path


@pytest.mark.slow
def test_the_command_answers_from_spark_and_leaves_nothing(files: Path) -> None:
    question = "items.parquet orders.parquet --on order_id=id --group-by kind --count n"
    ran = subprocess.run(
        [sys.executable, "-m", "watersmeet.cli", "aggregate", *question.split(), "--sum",
         "total=price", "--json", "--spark", "--explain"],
        cwd=files,
        env=os.environ | {"TMPDIR": str(files)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["rows"] == [
        {"kind": "a", "n": 15_000, "total": 37_500.0},
        {"kind": "b", "n": 15_000, "total": 37_500.0},
    ]
    assert "file path: 1 Parquet file, 100 row groups, 30,000 rows" in " ".join(ran.stderr.split())
    # Looks and the explanation, and no word of Spark's own.
    assert all(
        line.startswith("after ") or line[:11].strip() in WORDS for line in ran.stderr.splitlines()
    )
    assert sorted(path.name for path in files.iterdir()) == ["items.parquet", "orders.parquet"]


WORDS = (
    "", "aggregate", "left", "right", "design", "rows", "sample", "looks", "memory", "read",
    "forecast",
)  # fmt: skip


def test_a_path_that_is_not_there_is_named_before_spark_starts(files: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "watersmeet.cli", "aggregate", "items.parquet", "nothing.parquet",
         "--on", "id", "--count", "n", "--spark"],
        cwd=files,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.startswith("watersmeet: right='nothing.parquet' does not exist. Give ")
    assert ran.stderr.count("\n") == 1


def test_explain_says_which_way_rows_come_and_why(spark: SparkSession, files: Path) -> None:
    items = spark.read.parquet(str(files / "items.parquet"))
    computed = "CAST(round(DOUBLE(id)) AS bigint) % 1000 AS id"
    orders = spark.read.parquet(str(files / "orders.parquet")).selectExpr(computed, "kind")
    with wm.aggregate(items, orders, on={"order_id": "id"}, n=wm.count()) as run:
        text = " ".join(run.explain().split())
    assert "file path: 1 Parquet file, 100 row groups" in text
    assert "row path, computed by Spark once, before all else, because column 'id' is" in text
    with wm.aggregate(orders, items, on={"id": "order_id"}, how="left", n=wm.count()) as run:
        text = " ".join(run.explain().split())
    assert "row path, computed by Spark some partitions at a time, because" in text
