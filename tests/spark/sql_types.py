"""Every type of Spark SQL with some values, in tables that Spark itself wrote, and a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm

# Name -> type in DDL, and three values: one of both sides, one of the left, one of the right.
TYPES: dict[str, tuple[str, tuple[str, str, str]]] = {
    "boolean": ("boolean", ("true", "false", "true")),
    "tinyint": ("tinyint", ("1", "-128", "127")),
    "smallint": ("smallint", ("1", "-32768", "300")),
    "int": ("int", ("1", "16777217", "-2147483648")),
    "bigint": ("bigint", ("1", "-9223372036854775808", "16777217")),
    "float": ("float", ("1", "double('NaN')", "16777216")),
    "double": ("double", ("1", "double('-0.0')", "double('Infinity')")),
    "decimal_small": ("decimal(9,2)", ("1", "-9999999.99", "0.01")),
    "decimal": ("decimal(10,2)", ("1", "12345678.99", "0.5")),
    "decimal_finer": ("decimal(12,4)", ("1", "0.0001", "0.5")),
    "decimal_wide": ("decimal(38,18)", ("1", "0.000000000000000001", "10000000000000000000")),
    "decimal_whole": ("decimal(38,0)", ("1", "99999999999999999999999999999999999999", "3")),
    "string": ("string", ("'1'", "''", "'1  '")),
    "char": ("char(3)", ("'1'", "'ab'", "'xyz'")),
    "char_longer": ("char(5)", ("'1'", "'ab c'", "'xyz'")),
    "varchar": ("varchar(3)", ("'1'", "'ab '", "'xyz'")),
    "varchar_longer": ("varchar(8)", ("'1'", "'ab'", "'xyz     '")),
    "collated": ("string collate UTF8_LCASE", ("'1'", "'A'", "'a'")),
    "trimmed": ("string collate UTF8_BINARY_RTRIM", ("'1'", "'a '", "'a'")),
    "binary": ("binary", ("X'31'", "X''", "X'00ff'")),
    "date": ("date", ("DATE'2024-02-29'", "DATE'0001-01-01'", "DATE'1582-10-04'")),
    "timestamp": (
        "timestamp",
        ("TIMESTAMP'2024-02-29 00:00:00'", "TIMESTAMP'1900-01-01'", "TIMESTAMP'2024-03-31 02:30'"),
    ),
    "timestamp_ntz": (
        "timestamp_ntz",
        ("TIMESTAMP_NTZ'2024-02-29 00:00:00'", "TIMESTAMP_NTZ'0001-01-01'", "TIMESTAMP_NTZ'1969'"),
    ),
    "months": (
        "interval year to month",
        ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '0-1' YEAR TO MONTH", "INTERVAL '9' YEAR"),
    ),
    "days": ("interval day", ("INTERVAL '1' DAY", "INTERVAL '-7' DAY", "INTERVAL '3' DAY")),
    "hours": (
        "interval day to hour",
        ("INTERVAL '1 00' DAY TO HOUR", "INTERVAL '0 01' DAY TO HOUR", "INTERVAL '5' HOUR"),
    ),
    "seconds": (
        "interval day to second",
        ("INTERVAL '1 00:00:00' DAY TO SECOND", "INTERVAL '0.5' SECOND", "INTERVAL '7' HOUR"),
    ),
    "array": ("array<int>", ("array(1, NULL)", "array()", "array(2)")),
    "map": ("map<string,int>", ("map('a', 1)", "map()", "map('b', NULL)")),
    "struct": (
        "struct<x:int,y:string>",
        (
            "named_struct('x', 1, 'y', 'q')",
            "named_struct('x', NULL, 'y', '')",
            "named_struct('x', 2, 'y', NULL)",
        ),
    ),
    "struct_of_char": (
        "struct<x:int,y:char(3)>",
        (
            "named_struct('x', 1, 'y', 'q')",
            "named_struct('x', NULL, 'y', '')",
            "named_struct('x', 2, 'y', NULL)",
        ),
    ),
    "array_of_char": ("array<char(3)>", ("array('a')", "array()", "array('b', NULL)")),
    "variant": ("variant", ("parse_json('1')", "parse_json('{}')", "parse_json('[2]')")),
}
# By name, why a join refuses them: as a key, and as payload.
REFUSED_KEYS = {
    "collated": "has the collation",
    "trimmed": "has the collation",
    "months": "would not come back",
    "array": "not supported as a key",
    "array_of_char": "not supported as a key",
    "map": "not supported as a key",
    "variant": "would not come back",
}
REFUSED_PAYLOADS = {"months", "variant"}

Joining = Callable[[DataFrame], DataFrame]
PATHS: dict[str, Joining] = {
    "file path": lambda frame: frame,
    # A limit that is never reached: Spark computes the rows.
    "row path": lambda frame: frame.limit(1_000),
}


def write_tables(spark: SparkSession, database: str) -> None:
    """`lefts` has an id and a column of each type, `rights` the same under other ids."""
    spark.sql(f"CREATE DATABASE {database}")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    for table, chosen in (("lefts", (0, 1, None, 0)), ("rights", (0, 2, None))):
        spark.sql(f"CREATE TABLE {database}.{table} (id int, {columns}) USING parquet")
        rows = [
            ", ".join(
                [str(number)]
                + ["NULL" if place is None else values[place] for _, values in TYPES.values()]
            )
            for number, place in enumerate(chosen)
        ]
        spark.sql(
            f"INSERT INTO {database}.{table} " + " UNION ALL ".join(f"SELECT {row}" for row in rows)
        )


def side(spark: SparkSession, table: str, column: str, *, key: str = "k") -> DataFrame:
    """One column of a table as `key`, and the table's id."""
    frame = spark.table(table)
    word = table.rsplit(".", 1)[-1]
    return frame.select(frame["id"].alias(f"{word}_id"), frame[column].alias(key))


def texts(frame: DataFrame) -> list[str]:
    """Rows as texts, in which NaN is NaN and -0.0 is not 0.0."""
    return sorted(map(str, frame.collect()))


def columns(frame: DataFrame) -> list[tuple[str, Any, Any]]:
    return [(field.name, field.dataType, field.metadata) for field in frame.schema.fields]


def assert_as_spark(left: DataFrame, right: DataFrame, on: Any, how: str) -> None:
    """Our rows and columns are those of Spark's own join."""
    own = left.join(right, on, how)
    with wm.join(left, right, on, how, instances=2) as run:
        ours = run.to_df()
        assert columns(ours) == columns(own)
        assert texts(ours) == texts(own)


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    names = {name: "spark.sql." + name.replace("__", ".") for name in values}
    before = {name: spark.conf.get(name) for name in names.values()}
    for name, value in values.items():
        spark.conf.set(names[name], value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, old or "")
