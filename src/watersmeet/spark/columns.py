"""The columns of a join's result with the types and the metadata that Spark's own join has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, StructField, StructType

from watersmeet.errors import SchemaError
from watersmeet.model import Side
from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.output import OutputColumn
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.keys import first_line
from watersmeet.spark.sql import quoted


def result_columns(frames: Sequence[DataFrame], join: JoinSchema) -> StructType:
    """The columns with Spark's types, of which several may be one type in Arrow, and metadata."""
    return StructType([_field(frames, column) for column in join.columns])


def _field(frames: Sequence[DataFrame], column: OutputColumn) -> StructField:
    own, *others = (frames[side].schema[place] for side, place in column.suppliers)
    if others:
        own = _merged(frames, column)
    return StructField(column.field.name, own.dataType, column.field.nullable, own.metadata)


def _merged(frames: Sequence[DataFrame], column: OutputColumn) -> StructField:
    """The field of a shared key of a full join, which may come from either side."""
    keys = [
        frames[side].select(sf.col(quoted(frames[side].columns[place])).alias("key"))
        for side, place in column.suppliers
    ]
    try:
        field = keys[Side.LEFT].join(keys[Side.RIGHT], "key", "full").schema["key"]
        alike = to_arrow_type(field.dataType, timezone="UTC") == column.field.type
        reason = f"Spark gives it the type {field.dataType.simpleString()}"
    except PySparkException as error:
        alike, reason = False, first_line(error)
    if not alike:
        raise SchemaError(
            f"Key column {column.field.name!r} of a full join would be {column.field.type}, but: "
            f"{reason}.",
            remedy="Give both DataFrames a key of one type, with cast or withColumn.",
        )
    return field


def with_markers(columns: StructType, marked: MarkedOutput) -> StructType:
    """The columns of a result that has marker rows."""
    ends = [StructField(name, columns[column].dataType) for name, column in marked.more]
    rows = [StructField(each.name, each.dataType, True, each.metadata) for each in columns]
    return StructType([*rows, *ends, StructField(marked.name, BooleanType(), False)])


def plain(columns: StructType) -> StructType:
    """The columns without metadata, because Spark changes values by it when it reads them."""
    return StructType([StructField(each.name, each.dataType, each.nullable) for each in columns])


def with_metadata(dataframe: DataFrame, columns: StructType) -> DataFrame:
    """The same DataFrame with the metadata of these columns, such as that a text was CHAR(5)."""
    if not any(each.metadata for each in columns):
        return dataframe
    return dataframe.select(
        *(
            sf.col(quoted(each.name)).alias(each.name, metadata=each.metadata)
            if each.metadata
            else sf.col(quoted(each.name))
            for each in columns
        )
    )


def check_names(names: list[str], spark: SparkSession, *, whose: str) -> None:
    """Refuse names that differ only in a way that Spark ignores (upper and lower case)."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    counts = Counter(name.lower() for name in set(names))
    alike = [name for name in names if counts[name.lower()] > 1]
    if alike:
        raise SchemaError(
            f"{whose} columns {', '.join(map(repr, alike))}, which are one name "
            "while spark.sql.caseSensitive is false.",
            remedy="Rename one of them, or set spark.sql.caseSensitive to true.",
        )
