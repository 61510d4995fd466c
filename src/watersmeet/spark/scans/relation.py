"""Is a DataFrame a plain scan of files that we can read ourselves, or must Spark give us its rows?

A plain scan is Parquet files, a choice of their columns, and a filter and computed columns that
translate exactly; or a union of such. Its values equal what Spark would have read, or it is not
called one. A text scan is the same of CSV files, but lines that are not plain are left to Spark. A
union scan consists of both kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
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
from watersmeet.spark.scans.plan import Branch, LogicalPlan
from watersmeet.spark.scans.pruning import matching, may_hold
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.scan import PlainScan, RowGroup, Split
from watersmeet.spark.scans.selection import inside
from watersmeet.spark.scans.text import TextScan
from watersmeet.spark.scans.text_plan import open_text
from watersmeet.spark.scans.union import UnionScan

__all__ = [
    "DataFile",
    "PlainScan",
    "Relation",
    "RowGroup",
    "Split",
    "StagedRows",
    "TextRelation",
    "TextScan",
    "UnionScan",
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


TextRelation = TextScan | UnionScan
"""What our tasks read by partitions, with lines that they leave to Spark."""
FileRelation = PlainScan | TextRelation
Relation = FileRelation | StagedRows


def open_relation(dataframe: DataFrame, *, argument: str) -> Relation:
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
        plan = LogicalPlan.of(dataframe)
        return _open(plan, plan.branches(schema))
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


def _open(plan: LogicalPlan, branches: Sequence[Branch]) -> FileRelation:
    """A union of Parquet files is one scan, as far as waves and estimates ask for footers."""
    if all(branch.text is None for branch in branches):
        return _open_parquet(branches)
    scans: list[PlainScan | TextScan] = []
    for branch in branches:
        with branch.place.named():
            is_text = branch.text is not None
            scans.append(open_text(plan, branch) if is_text else _open_parquet([branch]))
    return scans[0] if len(scans) == 1 else UnionScan(tuple(scans))


def _open_parquet(branches: Sequence[Branch]) -> PlainScan:
    files = [(number, file) for number, branch in enumerate(branches) for file in matching(branch)]
    footers = _footers(branches, files)
    conditions = [branch.selection.conditions for branch in branches]
    row_groups = [
        RowGroup(place, group, rows, nbytes)
        for place, ((number, _), footer) in enumerate(zip(files, footers, strict=True))
        for group, rows, nbytes in footer.row_groups()
        if may_hold(footer, group, conditions[number])
    ]
    return PlainScan(
        schema=branches[0].selection.schema,
        files=tuple(file for _, file in files),
        row_groups=tuple(row_groups),
        selections=tuple(branch.selection for branch in branches),
        branches=tuple(number for number, _ in files),
        footers=tuple(footers),
    )


def _footers(branches: Sequence[Branch], files: Sequence[tuple[int, DataFile]]) -> list[FileFooter]:
    """Of each file of a branch. One that is in several branches is opened once."""
    readers: dict[DataFile, list[int]] = {}
    for number, file in files:
        readers.setdefault(file, []).append(number)
    found = each_footer(
        lambda each: _opened(each[0], [branches[number] for number in each[1]]), readers.items()
    )
    known = {
        (number, file): footer
        for (file, numbers), footers in zip(readers.items(), found, strict=True)
        for number, footer in zip(numbers, footers, strict=True)
    }
    return [known[each] for each in files]


def _opened(file: DataFile, branches: Sequence[Branch]) -> list[FileFooter]:
    """What a file says of itself, once every column reads as in Spark; for each of its branches."""
    try:
        with open_file(file.path) as opened:
            footer = Footer.of(opened)
            return [_footer(opened, footer, branch) for branch in branches]
    except (OSError, pa.ArrowException) as error:
        with branches[0].place.named():
            raise Refused(f"{file.path} cannot be read from here ({error})") from error


def _footer(opened: pq.ParquetFile, footer: Footer, branch: Branch) -> FileFooter:
    columns = inside(branch.selection.columns)
    with branch.place.named():
        found = readings(opened, columns, dialect=branch.selection.dialect)
    return FileFooter(footer, {each.name: how for each, how in zip(columns, found, strict=True)})
