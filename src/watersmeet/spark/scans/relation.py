"""Is a DataFrame a plain scan of files that we can read ourselves, or must Spark give us its rows?

A plain scan is Parquet files, a choice of their columns, and a filter and computed columns that
translate exactly. Its values equal what Spark would have read, or it is not called one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.parquet.footers import Footer, each_footer
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.footers import FileFooter
from watersmeet.spark.scans.parquet import open_file, readings
from watersmeet.spark.scans.plan import FileScan, read_plan
from watersmeet.spark.scans.pruning import may_hold
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.scan import Computed, PlainScan, RowGroup, Split, inside

__all__ = [
    "DataFile",
    "PlainScan",
    "RowGroup",
    "Split",
    "StagedRows",
    "arrow_schema",
    "open_relation",
]

_TRAVELLING = (
    NumericType,
    BooleanType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType,
)


@dataclass(frozen=True)
class StagedRows:
    """Any other DataFrame. `reason` completes "it is no plain scan: ..."; `remedy`, if there is
    one, "to read it from its files, ..."."""

    dataframe: DataFrame
    schema: pa.Schema
    reason: str
    remedy: str = ""

    def because(self) -> str:
        """Why it is not read from its files, and what would help."""
        return f"{self.reason} ({self.remedy})" if self.remedy else self.reason


def open_relation(dataframe: DataFrame, *, argument: str) -> PlainScan | StagedRows:
    """Find out how the rows of a finite DataFrame are to be read. No job runs."""
    if not isinstance(dataframe, DataFrame):
        raise InvalidArgument(
            f"{argument} is a {type(dataframe).__name__}, not a Spark DataFrame.",
            remedy="Give a DataFrame, or use `watersmeet.local.join` for data in this process.",
        )
    if dataframe.isStreaming:
        raise InvalidArgument(
            f"{argument} is a streaming DataFrame.",
            remedy="Join streams with `wm.join_streams` or `wm.join_many_streams`.",
        )
    schema = arrow_schema(dataframe, argument=argument, collations=True)
    try:
        if not isinstance(dataframe, ClassicDataFrame):
            raise Refused("it comes from Spark Connect, which does not show its plan")
        return _open(read_plan(dataframe), schema)
    except Refused as reason:
        return StagedRows(dataframe, schema, str(reason), reason.remedy)
    except (Py4JError, PySparkException) as error:
        first = str(error).strip().split("\n", 1)[0]
        return StagedRows(dataframe, schema, f"its plan could not be read ({first})")


def arrow_schema(dataframe: DataFrame, *, argument: str, collations: bool = False) -> pa.Schema:
    """A DataFrame's columns in Arrow, or an error that names those that we cannot carry.

    Text that has a collation is carried if `collations`, for who does not compare it.
    """
    repeated = [name for name, count in Counter(dataframe.columns).items() if count > 1]
    if repeated:
        raise SchemaError(
            f"{argument} has several columns named {', '.join(map(repr, sorted(repeated)))}.",
            remedy="Give every column its own name, with `withColumnRenamed` or `toDF`.",
        )
    for field in dataframe.schema.fields:
        stranger = _stranger(field.dataType, collations=collations)
        if stranger is not None:
            raise SchemaError(
                f"Column {field.name!r} of {argument} has the type {stranger.simpleString()}, "
                "which would not come back from Arrow as it was.",
                remedy="Cast it to another type, or leave it out.",
            )
    # What Spark notes beside a column is no part of its values.
    return pa.schema(
        [field.remove_metadata() for field in to_arrow_schema(dataframe.schema, timezone="UTC")]
    )


def _stranger(kind: DataType, *, collations: bool) -> DataType | None:
    """The part of a type that Arrow cannot express, or only as something else."""
    inner: list[DataType] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, StringType):
        return None if collations or kind.isUTF8BinaryCollation() else kind
    else:
        return None if isinstance(kind, _TRAVELLING) else kind
    found = (_stranger(part, collations=collations) for part in inner)
    return next((part for part in found if part is not None), None)


def _open(scan: FileScan, schema: pa.Schema) -> PlainScan:
    kinds = [
        source.tree.kind if isinstance(source, Computed) else scan.columns[source].field.type
        for source in scan.output
    ]
    if kinds != schema.types:
        raise Refused("its columns changed their types on the way to the files")
    files = _matching(scan)
    footers = each_footer(lambda file: _footer(file, scan), files)
    conditions = [] if scan.filter is None else [each.condition for each in scan.filter.conjuncts]
    row_groups = [
        RowGroup(place, number, rows, nbytes)
        for place, footer in enumerate(footers)
        for number, rows, nbytes in footer.row_groups()
        if may_hold(footer, number, conditions)
    ]
    return PlainScan(
        schema=schema,
        files=files,
        row_groups=tuple(row_groups),
        filter=scan.filter,
        columns=scan.columns,
        output=scan.output,
        dialect=scan.dialect,
        footers=tuple(footers),
    )


def _matching(scan: FileScan) -> tuple[DataFile, ...]:
    """Without the files whose every row the filter drops for the values in their path."""
    if scan.filter is None or not scan.files:
        return scan.files
    count = len(scan.files)
    known = {
        column.field.name: pa.array(
            [file.partition[column.partition] for file in scan.files], column.field.type
        )
        for column in scan.columns
        if column.partition is not None
    }
    keep = np.ones(count, dtype=bool)
    for part in scan.filter.conjuncts:
        if part.names and part.names <= known.keys() and not part.can_fail:
            keep &= part.mask(known).fill_null(False).to_numpy(zero_copy_only=False)
    return tuple(file for file, kept in zip(scan.files, keep, strict=True) if kept)


def _footer(file: DataFile, scan: FileScan) -> FileFooter:
    """What a file says of itself, once every column reads as in Spark."""
    columns = inside(scan.columns)
    try:
        with open_file(file.path) as opened:
            found = readings(opened, columns, dialect=scan.dialect)
            names = [column.name for column in columns]
            return FileFooter(Footer.of(opened), dict(zip(names, found, strict=True)))
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"{file.path} cannot be read from here ({error})") from error
