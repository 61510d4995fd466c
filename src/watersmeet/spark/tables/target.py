"""Where a whole result is to be written, and whether Spark can write it there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import InvalidArgument, WatersmeetError
from watersmeet.spark.computing import words

_NEW_ONLY = ("error", "errorifexists", "default")
_MODES = (*_NEW_ONLY, "append", "overwrite", "ignore")
# Formats for which a path is a directory of files. For others it may be anything.
_OF_FILES = ("parquet", "orc", "csv", "json", "text", "xml", "avro")


@dataclass(frozen=True)
class Target:
    """A path, a format and a mode as Spark's writer takes them."""

    path: str
    format: str
    mode: str

    @classmethod
    def parse(cls, path: Any, *, format: Any, mode: Any) -> Target:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InvalidArgument(
                f"path={path!r} is no path to write to.", remedy="Give a directory or a URI."
            )
        if not isinstance(format, str) or not format:
            raise InvalidArgument(
                f"format={format!r} is no format.", remedy='Give one, such as format="parquet".'
            )
        if not isinstance(mode, str) or mode.lower() not in _MODES:
            raise InvalidArgument(
                f"mode={mode!r} is no mode of writing.",
                remedy="Give error, append, overwrite or ignore.",
            )
        return cls(str(os.fspath(path)), format, mode.lower())

    def check(self, spark: SparkSession) -> None:
        """Raise an error before the join where Spark would raise one after it."""
        if not _is_known(self.format, spark):
            raise InvalidArgument(
                f"format={self.format!r} is unknown to this Spark.",
                remedy="Give parquet, orc, csv or json, or start Spark with the package that has "
                "the format.",
            )
        is_new = self.mode in _NEW_ONLY and self.format.lower() in _OF_FILES
        if is_new and _is_there(self.path, spark):
            raise InvalidArgument(
                f"path={self.path!r} is there already.",
                remedy='Give another path, or mode="overwrite" or "append".',
            )

    def write(self, rows: DataFrame) -> None:
        try:
            rows.write.format(self.format).mode(self.mode).save(self.path)
        except (PySparkException, Py4JError) as error:
            raise WatersmeetError(
                f"Spark could not write the result to path={self.path!r} as {self.format}: "
                f"{words(error)}",
                remedy="Give a place that every executor can write to, and that the format and "
                "the mode fit.",
            ) from None


def _is_known(format: str, spark: SparkSession) -> bool:
    java: Any = spark.sparkContext._jvm
    state = spark._jsparkSession.sessionState()
    try:
        java.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            format, state.conf()
        )
    except (PySparkException, Py4JJavaError):
        # A format that is written in Python is registered with the session.
        return bool(state.dataSourceManager().dataSourceExists(format))
    return True


def _is_there(path: str, spark: SparkSession) -> bool:
    java: Any = spark.sparkContext._jvm
    try:
        place = java.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return bool(system.exists(place))
    except (PySparkException, Py4JJavaError) as error:
        raise InvalidArgument(
            f"path={path!r} cannot be written to: {words(error)}",
            remedy="Give a place that every executor can write to.",
        ) from None
