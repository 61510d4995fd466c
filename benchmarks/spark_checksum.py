"""What a joined DataFrame adds up to, computed by Spark, to be compared with `relations.expected`.

Whole numbers wrap around in it as they do in NumPy, which Spark allows without its ANSI mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, DecimalType, DoubleType

from benchmarks.relations import DOUBLE_UNIT, FACTOR, SHIFT, Relations

_ANSI = "spark.sql.ansi.enabled"


@contextmanager
def wrapping(spark: SparkSession) -> Iterator[None]:
    """Whole numbers wrap around in queries that are made inside."""
    before = spark.conf.get(_ANSI)
    spark.conf.set(_ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, str(before))


def added_up(rows: DataFrame, relations: Relations) -> tuple[int, int]:
    """How many rows there are, and their checksum."""
    with wrapping(rows.sparkSession):
        found = rows.agg(sf.count(sf.lit(1)), checksum(rows, relations)).collect()[0]
    return int(found[0]), int(found[1] or 0) % 2**64


def checksum(rows: DataFrame, relations: Relations) -> Column:
    """An aggregate over result rows; to be asked for inside `wrapping`."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    weights = []
    for table in (relations.left, relations.right):
        # A result has one key column where both sides call it the same.
        names = [name if name in types else relations.left.columns[0] for name in table.columns]
        weight = sf.lit(0).cast("bigint")
        for name in names:
            weight = _blend(weight, number(name, types[name]))
        weights.append(weight)
    return sf.sum(weights[0] * weights[1])


def number(name: str, kind: DataType) -> Column:
    """A column as whole numbers, the same as `relations._words` makes of it."""
    column = sf.col(name)
    if isinstance(kind, DoubleType):
        return (column * DOUBLE_UNIT).cast("bigint")
    if isinstance(kind, DecimalType):
        return (column * int(10**kind.scale)).cast("bigint")
    if isinstance(kind, DateType):
        return sf.unix_date(column).cast("bigint")
    return column.cast("bigint")


def _blend(weight: Column, column: Column) -> Column:
    """The same as `relations.blend`."""
    product = weight.bitwiseXOR(column) * sf.lit(FACTOR - 2**64)
    return product.bitwiseXOR(sf.shiftrightunsigned(product, SHIFT))
