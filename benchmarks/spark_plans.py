"""Plans of Spark's that give the rows of a table: from files of several kinds, or from memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from benchmarks.relations import Table

if TYPE_CHECKING:
    from benchmarks.spark_peers.stage import Stage


def _from_files(stage: Stage, table: Table, format: str, **options: str) -> DataFrame:
    """From files of this format that Spark wrote."""
    folder = stage.settings["folders"][format][Path(table.folder).name]
    reader = stage.spark.read.schema(stage.table(table).schema).options(**options)
    return reader.format(format).load(folder)


def _as_csv(stage: Stage, table: Table) -> DataFrame:
    return _from_files(stage, table, "csv")


def _as_json(stage: Stage, table: Table) -> DataFrame:
    return _from_files(stage, table, "json")


def _few(stage: Stage, table: Table) -> DataFrame:
    """In two partitions, with an option that only Spark knows, so that it reads the files."""
    return _from_files(stage, table, "json", lineSep="\n").coalesce(2)


def _with_udf(stage: Stage, table: Table, *, arrow: bool = True) -> DataFrame:
    """With a function of Python's that gives each value back. Only Spark calls it without Arrow."""
    *others, value = table.columns
    same = sf.udf(lambda value: value, "double", useArrow=arrow)
    return stage.table(table).select(*others, same(value).alias(value))


def _united(stage: Stage, table: Table) -> DataFrame:
    rows, key = stage.table(table), table.columns[0]
    return rows.where(f"{key} % 2 = 0").union(rows.where(f"{key} % 2 = 1"))


def _partly_csv(stage: Stage, table: Table) -> DataFrame:
    """The same rows, half of them from CSV files."""
    rows, text, key = stage.table(table), _as_csv(stage, table), table.columns[0]
    return rows.where(f"{key} % 2 = 0").union(text.where(f"{key} % 2 = 1"))


def _given(stage: Stage, table: Table) -> DataFrame:
    """Rows of the program, which are given to Spark once."""
    return _once(stage, table, lambda rows: stage.spark.createDataFrame(rows.toPandas()))


def _cached(stage: Stage, table: Table) -> DataFrame:
    """In as many partitions as tasks at a time, as they would be anyway. Said so, because Spark
    takes cached rows for every plan that has the same one in it, also for those of other cases."""
    tasks = stage.spark.sparkContext.defaultParallelism
    return _once(stage, table, lambda rows: rows.coalesce(tasks).cache())


def _once(stage: Stage, table: Table, make: Callable[[DataFrame], DataFrame]) -> DataFrame:
    key = (stage.settings["plan"], table.folder)
    if key not in _MADE:
        _MADE[key] = make(stage.table(table))
        _MADE[key].count()
    return _MADE[key]


def _ranged(stage: Stage, table: Table) -> DataFrame:
    """As many rows, with every key once, that Spark makes up."""
    key, number, value = table.columns
    rows = stage.settings["rows"]
    return stage.spark.range(rows).selectExpr(
        f"id AS {key}", f"id AS {number}", f"id / 8 AS {value}"
    )


PLANS: dict[str, Callable[[Stage, Table], DataFrame]] = {
    "parquet": lambda stage, table: stage.table(table),
    "csv": _as_csv,
    "json": _as_json,
    "udf": _with_udf,
    "udf by spark": lambda stage, table: _with_udf(stage, table, arrow=False),
    "union": _united,
    "mixed union": _partly_csv,
    "distinct": lambda stage, table: stage.table(table).distinct(),
    "random": lambda stage, table: stage.table(table).where("rand() >= 0").distinct(),
    "few": _few,
    "limit": lambda stage, table: stage.table(table).limit(stage.relations.rows),
    "cached": _cached,
    "given": _given,
    "range": _ranged,
}
ON_FILE_PATH = ("parquet", "csv", "json", "udf", "union", "mixed union")
"""The plans of these whose files our tasks read themselves."""
_MADE: dict[tuple[str, str], DataFrame] = {}
