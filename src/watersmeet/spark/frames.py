"""DataFrames as arguments: which can be worked on, and about how many rows they have."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from watersmeet.errors import InvalidArgument
from watersmeet.spark.scans.relation import PlainScan, StagedRows


def check_dataframe(dataframe: Any, side: str) -> None:
    if not hasattr(dataframe, "mapInArrow"):
        raise InvalidArgument(
            f"{side} is a {type(dataframe).__name__}, no Spark DataFrame.",
            remedy="Use wm.local.join for files, tables and iterators without Spark.",
        )
    if not isinstance(dataframe, ClassicDataFrame):
        raise InvalidArgument(
            f"{side} is a DataFrame of Spark Connect, which has no way to run a join's own tasks.",
            remedy="Join in a classic session, such as wm.session() gives.",
        )


def rows_of(relation: PlainScan | StagedRows) -> int:
    """Those of its files, or what Spark's optimizer expects."""
    if isinstance(relation, PlainScan):
        return relation.rows
    return _estimated_rows(relation.dataframe)


def _estimated_rows(dataframe: DataFrame) -> int:
    """What Spark's optimizer expects. A guess decides only how many instances there are."""
    plan = dataframe._jdf
    statistics = plan.queryExecution().optimizedPlan().stats()
    if statistics.rowCount().isDefined():
        return int(str(statistics.rowCount().get()))
    width = int(plan.schema().defaultSize())
    return int(str(statistics.sizeInBytes())) // max(width, 1)


def quoted(name: str) -> str:
    """A column's name where Spark would read a dot or a backtick as a sign."""
    return "`" + name.replace("`", "``") + "`"
