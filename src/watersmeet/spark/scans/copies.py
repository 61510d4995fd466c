"""Lines that are not plain, in files of their own: how Spark reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from watersmeet.spark.scans.text import SparkReader

FILE_NAME = "copy"
"""The column that says in which file a row was."""


def read_copies(
    spark: SparkSession, reader: SparkReader, paths: Sequence[str], *, has_header: bool
) -> DataFrame:
    """The columns that a scan reads of copies, and the names of these. Only CSV has headers."""
    options = dict(reader.options) | ({"header": has_header} if reader.format == "csv" else {})
    rows = (
        # A session may be set to ignore files that are missing or damaged.
        spark.read.options(ignoreMissingFiles=False, ignoreCorruptFiles=False, **options)
        .schema(StructType.fromJson(json.loads(reader.schema)))
        .format(reader.format)
        .load(list(paths))
    )
    if reader.where:
        rows = rows.where(reader.where)
    columns = (sf.col(_quoted(name)).alias(alias) for name, alias in reader.columns)
    return rows.select(*columns, sf.col("_metadata.file_name").alias(FILE_NAME))


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
