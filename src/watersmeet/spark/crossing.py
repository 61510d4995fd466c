"""How rows cross from Java into Python: in batches, whose size Spark asks for after every row.

Spark ends a batch after so many rows, or when it has so many bytes. To know how many it has, Spark
goes through all columns of the batch again for each row that it adds: that took three quarters of
the time in which 2 M rows of three columns crossed (0.8 s of Java's, and 0.3 s without). Rows of
columns that are all of a fixed width cannot have more bytes than so many times their number. Where
it has to be asked, batches may as well be small: 64 MB of long texts, Spark's default, are more
than some joins are given memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
# Spark takes this, and no other value, as "do not ask".
_NO_LIMIT = 2**31 - 1
# Of rows of any width.
_MOST_BYTES = 4 * 2**20
_FIXED = (
    *(NumericType, BooleanType, DateType, TimestampType, TimestampNTZType),
    DayTimeIntervalType,
)
# The widest of these are decimals; a bit of each value says whether it is null.
_VALUE_BYTES = 17
# Nodes of a plan below which rows cross for a function of the user's.
_FUNCTIONS = re.compile(r"Python|InPandas|InArrow")


@contextmanager
def crossing(dataframe: DataFrame) -> Iterator[None]:
    """Have Spark not ask for the bytes of batches in plans that are made meanwhile, if batches of
    this DataFrame's rows cannot have more than they may; else have it make batches that are small,
    unless functions of the user's are given them, too."""
    spark = dataframe.sparkSession
    has_functions = _has_functions(dataframe)
    if all(_is_bounded(schema, spark) for schema in _crossing(dataframe, has_functions)):
        chosen = _NO_LIMIT
    elif has_functions:
        yield
        return
    else:
        chosen = min(_limits(spark)[1], _MOST_BYTES)
    before = spark.conf.get(_BYTES, None)
    spark.conf.set(_BYTES, str(chosen))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_BYTES)
        else:
            spark.conf.set(_BYTES, before)


def _has_functions(dataframe: DataFrame) -> bool:
    plan: Any = dataframe._jdf.queryExecution().optimizedPlan()
    return _FUNCTIONS.search(plan.toString()) is not None


def _crossing(dataframe: DataFrame, has_functions: bool) -> Iterator[StructType]:
    """Columns that cross: those of the DataFrame, and if it has functions of the user's, which may
    be given any columns, all that it is made of."""
    yield dataframe.schema
    if has_functions:
        plan: Any = dataframe._jdf.queryExecution().optimizedPlan()
        leaves = plan.collectLeaves()
        for place in range(leaves.size()):
            yield StructType.fromJson(json.loads(leaves.apply(place).schema().json()))


def _is_bounded(schema: StructType, spark: SparkSession) -> bool:
    """Whether the number of rows alone keeps batches as small as their bytes may be."""
    width = row_bytes(schema)
    rows, most = _limits(spark)
    return width is not None and 0 < rows * width <= most < _NO_LIMIT


def _limits(spark: SparkSession) -> tuple[int, int]:
    """The most rows and the most bytes of a batch, in this session."""
    conf: Any = spark._jsparkSession.sessionState().conf()
    return int(conf.arrowMaxRecordsPerBatch()), int(conf.arrowMaxBytesPerBatch())


def row_bytes(kind: DataType) -> int | None:
    """How many bytes a value has at most; None if that depends on the value.

    >>> row_bytes(StructType().add("key", "long").add("value", "double"))
    51
    >>> row_bytes(StructType().add("name", "string"))
    """
    if isinstance(kind, _FIXED):
        return _VALUE_BYTES
    if not isinstance(kind, StructType):
        return None
    widths = [row_bytes(field.dataType) for field in kind]
    return None if None in widths else sum(filter(None, widths), start=_VALUE_BYTES)
