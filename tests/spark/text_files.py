"""What the tests of text scans share: a table of all types that are read, and who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from tests.spark.scans import read_text
from tests.spark.sql_types import texts
from watersmeet.spark.scans.text import TextScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "k": "cast(id % 50 as int)",
    "tiny": "cast(id % 100 - 50 as tinyint)",
    "small": "cast(id * 7 as smallint)",
    "wide": "id * 1234567890123",
    "single": "cast(id / 7 as float)",
    "real": "id * 0.37D",
    "money": "cast(id * 1.25 as decimal(12, 2))",
    "long": "cast(id as decimal(38, 5))",
    "odd": "id % 2 = 1",
    "day": "date_add(date'1990-01-01', cast(id % 9000 as int))",
    "name": "concat('näme, ', id)",
    "some": "if(id % 3 = 0, null, if(id % 3 = 1, '', concat('x', id)))",
    "at": "timestamp_seconds(id)",
}
ROWS = 600


def table(spark: SparkSession) -> DataFrame:
    given = [sf.expr(how).alias(name) for name, how in COLUMNS.items()]
    return spark.range(0, ROWS, 1, 3).select(*given)


def others(spark: SparkSession) -> DataFrame:
    return spark.range(0, 40, 1, 2).selectExpr("CAST(id % 25 AS int) AS k", "id AS other")


def read_here(scan: TextScan, *, many: int = 7) -> pa.Table:
    """In this process; all lines must be plain."""
    assert len([part for ranges in scan.cut(many) for part in ranges]) >= many
    return read_text(scan, many=many)


def joined(run: Any) -> list[str]:
    return sorted(text for wave in run for text in texts(wave.rows))
