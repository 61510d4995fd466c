"""Checks DataFrames that are given as arguments, and estimates how many rows they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from watersmeet.errors import InvalidArgument
from watersmeet.parquet.footers import Footer
from watersmeet.spark.scans.relation import Relation, StagedRows

MOST_INSTANCES = 4096
# A petabyte. For sources of unknown size Spark gives a number that is larger.
_ABSURD_BYTES = 1 << 50


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
    context = dataframe.sparkSession.sparkContext
    if context._jsc is None or context._jsc.sc().isStopped():
        raise InvalidArgument(
            f"{side} is a DataFrame of a Spark session that was stopped.",
            remedy="Start a session, such as wm.session() gives, and read the DataFrame there.",
        )


def parse_instances(number: Any) -> int:
    """Check the number of instances that the user gave."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InvalidArgument(
            f"instances={number!r} is no number of parts.", remedy="Give 1 or more."
        )
    if number > MOST_INSTANCES:
        raise InvalidArgument(
            f"instances={number} is more than {MOST_INSTANCES:,}, and each takes a few "
            "milliseconds of every wave or micro-batch, with rows or without.",
            remedy="Give a few for each core, or leave it out.",
        )
    return number


def estimated_rows(relation: Relation) -> int | None:
    """The number of rows that its files say, or a guess; None if there is nothing to guess from."""
    if isinstance(relation, StagedRows):
        return _guessed_rows(relation.dataframe)
    return relation.rows


def _guessed_rows(dataframe: DataFrame) -> int | None:
    """As many rows as Spark expects, but not more than all sources of the DataFrame have together.

    For a join Spark expects the product of both sides, and for values that come from Python the
    largest number there is. A wrong guess costs time, but nothing else.
    """
    nbytes = source_bytes(dataframe)
    if nbytes is None:
        return None
    width = max(int(dataframe._jdf.schema().defaultSize()), 1)
    return min(_size(dataframe._jdf.queryExecution().optimizedPlan()), nbytes) // width


def source_bytes(dataframe: DataFrame) -> int | None:
    """What all sources of a DataFrame have together, of files their sizes; None if Spark does not
    know."""
    leaves = dataframe._jdf.queryExecution().optimizedPlan().collectLeaves()
    sizes = [_size(leaves.apply(number)) for number in range(leaves.size())]
    return None if any(size >= _ABSURD_BYTES for size in sizes) else sum(sizes)


def _size(plan: Any) -> int:
    return int(str(plan.stats().sizeInBytes()))


def row_group_bytes(dataframe: DataFrame) -> int:
    """Of Parquet files, about what a row group takes: Spark cuts them where it likes, but a row
    group is in one partition, and partitions that are smaller than one have no rows. 0 of others.
    """
    files = footers_of(dataframe, most=2)
    return max((size // max(footer.row_groups, 1) for size, footer in files), default=0)


def footers_of(dataframe: DataFrame, *, most: int) -> list[tuple[int, Footer]]:
    """The bytes and the footers of some of its files, the first and the last among them; none if
    one of those is of another format than Parquet, or not on this machine."""
    files = dataframe._jdf.inputFiles()
    last = len(files) - 1
    places = sorted({last * number // max(most - 1, 1) for number in range(most)}) if files else []
    found = []
    for place in places:
        path = unquote(urlparse(files[place]).path)
        try:
            found.append((Path(path).stat().st_size, Footer.read(path)))
        except (OSError, pa.ArrowException):
            return []
    return found
