"""What a refusal must be, and the tables and streams that bad inputs are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import WatersmeetError

# Enough for a list of columns. What is longer is somebody else's trace.
_LONGEST, _MOST_LINES = 1_000, 6
_FOREIGN = ("org.apache", "java.lang", "\tat ", "Traceback", "pyspark.", "JVM stacktrace")


Make = Callable[["Inputs"], Any]


@dataclass(frozen=True)
class Bad:
    """A call that cannot be answered, and what the refusal has to speak of."""

    what: str
    call: Make
    words: str

    def __str__(self) -> str:
        return self.what


def check_refused(bad: Bad, inputs: Inputs) -> None:
    with pytest.raises(WatersmeetError, match=bad.words) as caught:
        bad.call(inputs)
    check_words(caught.value)


def check_words(error: WatersmeetError) -> None:
    """A sentence for the cause, one for the remedy, and nobody's stack trace."""
    text = str(error)
    assert error.cause.strip().endswith((".", ":", ")")), text
    assert error.remedy.strip().endswith((".", ")")), text
    assert len(text) <= _LONGEST, text
    assert len(text.splitlines()) <= _MOST_LINES, text
    for word in _FOREIGN:
        assert word not in text, text


@dataclass
class Inputs:
    """Tables and streams with a column of every kind, below one directory."""

    spark: SparkSession
    path: Path

    def write(self) -> Inputs:
        rows = self.spark.range(0, 200, 1, 4)
        rows.selectExpr(
            "id % 20 AS k", "id AS a", "CAST(id AS STRING) AS t", "map(id, id) AS m",
            "array(id) AS l", "named_struct('x', id) AS s", "id / 2D AS x",
            "CAST(id AS DECIMAL(38, 0)) AS d", "id % 2 = 0 AS flag",
            "timestamp_micros(id) AS moment", "date_from_unix_date(int(id)) AS day",
        ).write.parquet(self.folder("left"))  # fmt: skip
        rows.selectExpr(
            "id % 20 AS k", "id AS b", "id AS a", "CAST(id AS STRING) AS t", "map(id, id) AS m",
            "CAST(id AS DECIMAL(38, 20)) AS d", "to_timestamp_ntz('2026-01-01') AS moment",
        ).write.parquet(self.folder("right"))  # fmt: skip
        return self

    def folder(self, name: str) -> str:
        return str(self.path / name)

    @cached_property
    def left(self) -> DataFrame:
        return self.spark.read.parquet(self.folder("left"))

    @cached_property
    def right(self) -> DataFrame:
        return self.spark.read.parquet(self.folder("right"))

    @cached_property
    def left_stream(self) -> DataFrame:
        return self.spark.readStream.schema(self.left.schema).parquet(self.folder("left"))

    @cached_property
    def right_stream(self) -> DataFrame:
        return self.spark.readStream.schema(self.right.schema).parquet(self.folder("right"))

    def vanishing(self, name: str) -> DataFrame:
        """A table whose files are gone by the time it is used."""
        self.spark.range(50).selectExpr("id AS k", "id AS b").write.mode("overwrite").parquet(
            self.folder(name)
        )
        frame = self.spark.read.parquet(self.folder(name))
        for file in Path(self.folder(name)).glob("*.parquet"):
            file.unlink()
        return frame

    def in_the_way(self) -> str:
        """A path below a file, where no directory can be made."""
        (self.path / "file").write_text("in the way")
        return str(self.path / "file" / "below")
