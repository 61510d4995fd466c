"""Files of result rows, which join tasks write and Spark reads."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.parquet.plain import SETTINGS, Layout, PlainWriter
from watersmeet.spark.columns import plain, with_metadata
from watersmeet.spark.tables.plan import Plan

# Bytes of a row group, which is in memory before it is written.
_GROUP_BYTES = 16 * 2**20


class ResultWriter:
    """Writes Parquet files that Spark reads by itself, without Python in between.

    They are read once or twice and then removed, so they have no compression, dictionaries or
    statistics. Columns of simple types are written as they are in memory, others by Arrow's writer.
    """

    def __init__(self, plan: Plan, stem: str) -> None:
        self.files: list[str] = []
        self._storage = plan.storage
        self._stem = stem
        self._schema = plan.join.output
        self._most = min(_GROUP_BYTES, plan.memory // 16)
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self.nbytes = 0
        self._writer: PlainWriter | pq.ParquetWriter | None = None
        self._file: pa.NativeFile | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        self.nbytes += batch.nbytes
        if self._bytes >= self._most:
            self._write()

    def _write(self) -> None:
        if self._writer is None:
            name = self._storage.new_name(self._stem, "parquet")
            self._file = self._storage.open_output(name)
            self.files.append(name)
            layout = Layout.of(self._schema)
            with self._storage.writing():
                if layout is None:
                    self._writer = pq.ParquetWriter(self._file, self._schema, **SETTINGS)
                else:
                    self._writer = PlainWriter(self._file, layout)
        with self._storage.writing():
            if isinstance(self._writer, PlainWriter):
                self._writer.write_group(self._waiting)
            else:
                self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._waiting:
            self._write()
        if self._writer is not None and self._file is not None:
            with self._storage.writing():
                self._writer.close()
                self._file.close()


def read_results(
    spark: SparkSession, plan: Plan, files: Sequence[str], *, columns: StructType
) -> DataFrame:
    """A DataFrame of the rows of these files, with these columns."""
    schema = plain(columns)
    if files:
        # A session may be set to ignore files that are missing or damaged. Here that would lose
        # rows without an error.
        reader = spark.read.options(ignoreMissingFiles=False, ignoreCorruptFiles=False)
        rows = reader.schema(schema).parquet(*map(plan.storage.path_of, files))
    else:
        rows = spark.createDataFrame([], schema)
    return with_metadata(rows, columns)
