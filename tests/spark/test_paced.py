"""Rows of Parquet files come in batches of a wanted size, however long their texts are."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.scans import plain
from watersmeet.spark.scans import paced
from watersmeet.spark.scans.scan import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MB = 2**20
ROWS = 6_000


def test_long_texts_come_in_few_rows_although_footers_say_little_of_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paced, "_widths", {})
    monkeypatch.setattr(paced, "_MOST_KNOWN", 2)
    for turn in range(3):
        table = pa.table({"k": range(ROWS), "text": ["x" * 5_000] * ROWS})
        path = tmp_path / f"{turn}.parquet"
        pq.write_table(table, path, row_group_size=ROWS // 2)
        scan = plain(spark.read.parquet(str(path)))
        assert scan.nbytes < MB
        splits = [Split(each.file, each.number, 0, each.rows) for each in scan.row_groups]
        read = [[*paced.read_paced(scan, each, batch_bytes=MB)] for each in splits]
        batches = [*chain.from_iterable(read)]
        assert pa.Table.from_batches(batches).equals(table.cast(batches[0].schema))
        # Before anything was known of them, rows came as if they were short.
        assert [each.nbytes > MB for each in batches] == [True] + [False] * (len(batches) - 1)
        assert len(paced._widths) <= 2
