"""Every type of a file that we read comes out as Spark reads it, and no other is read."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.scans import assert_read_alike, plain, read, refused, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

UTC = "UTC"
MOMENTS = [
    datetime(2024, 2, 29, 12, 34, 56, 789_000),
    datetime(1969, 12, 31, 23, 59, 59, 999_000),
    datetime(1900, 1, 1),
    datetime(1582, 10, 4, 1),
    datetime(9999, 12, 31, 23, 59, 59),
    None,
]
MICROS = [*MOMENTS[:-1], datetime(2024, 3, 31, 1, 30, 0, 123_457), None]
DAYS = [date(2024, 2, 29), date(1969, 12, 31), date(1582, 10, 4), date(1, 1, 1), None]
FLOATS = [0.0, -0.0, 0.1, math.nan, math.inf, -math.inf, 1e-45, None]
POINT = pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.string()})})

ARROW: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "int8": (pa.int8(), [-128, 127, None]),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "uint8": (pa.uint8(), [0, 255, None]),
    "uint16": (pa.uint16(), [0, 2**16 - 1, None]),
    "uint32": (pa.uint32(), [0, 2**31, 2**32 - 1, None]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1, None]),
    "float": (pa.float32(), FLOATS),
    "double": (pa.float64(), [*FLOATS, 5e-324]),
    "small decimal": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.01"), None]),
    "decimal": (pa.decimal128(18, 4), [Decimal("99999999999999.9999"), Decimal(-1), None]),
    "wide decimal": (pa.decimal128(38, 10), [Decimal(-(10**27)), Decimal("0.0000000001"), None]),
    "string": (pa.string(), ["", "a", "žluťoučký 🐎", "\x00", None]),
    "large string": (pa.large_string(), ["", "é", None]),
    "categories": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", None, "x"]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "large binary": (pa.large_binary(), [b"", b"\xfe", None]),
    "date": (pa.date32(), DAYS),
    "instant": (pa.timestamp("us", UTC), MICROS),
    "instant elsewhere": (pa.timestamp("us", "Asia/Tokyo"), MICROS),
    "instant in millis": (pa.timestamp("ms", UTC), MOMENTS),
    "moment": (pa.timestamp("us"), MICROS),
    "moment in millis": (pa.timestamp("ms"), MOMENTS),
    "moment in seconds": (pa.timestamp("s"), [datetime(2024, 1, 1), None]),
    "struct": (POINT, [{"x": 1, "y": {"z": "é"}}, {"x": None, "y": None}, None]),
    "list": (pa.list_(pa.int64()), [[1, None], [], None]),
    "list of structs": (pa.list_(POINT), [[{"x": 1, "y": {"z": None}}, None], [], None]),
    "list of lists": (pa.list_(pa.list_(pa.float64())), [[[0.5], [], None], None]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], None]),
    "map of dates": (pa.map_(pa.int32(), pa.list_(pa.date32())), [[(1, [DAYS[0]])], None]),
}
WRITERS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "without Arrow's schema": {"store_schema": False},
    "old annotations": {"version": "1.0", "store_schema": False},
    "96-bit timestamps": {"use_deprecated_int96_timestamps": True},
    "plain pages": {"use_dictionary": False, "data_page_version": "2.0", "compression": "zstd"},
    "decimals as integers": {"store_decimal_as_integer": True},
    "old names of elements": {"use_compliant_nested_type": False},
}


def table(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """All of them side by side, each repeated to one length."""
    length = max(len(values) for _, values in columns.values())
    return pa.table(
        {
            name: pa.array([values[n % len(values)] for n in range(length)], kind)
            for name, (kind, values) in columns.items()
        }
    )


def written(spark: SparkSession, folder: Path, data: pa.Table, **how: Any) -> DataFrame:
    pq.write_table(data, folder / "data.parquet", **how)
    return spark.read.parquet(str(folder))


@pytest.mark.parametrize("how", WRITERS.values(), ids=WRITERS.keys())
def test_files_of_arrow_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, how: dict[str, Any]
) -> None:
    columns = ARROW
    if how.get("version") == "1.0":
        # This version has no nanoseconds and no unsigned 32 bits; Arrow writes other types.
        columns = {name: column for name, column in columns.items() if name != "uint32"}
    assert_read_alike(written(spark, tmp_path, table(columns), **how))


@pytest.mark.parametrize("zone", ["Europe/Prague", "America/Los_Angeles"])
def test_the_zone_of_a_session_changes_no_instant(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    moments = {name: ARROW[name] for name in ("instant", "moment", "date", "instant in millis")}
    written(spark, tmp_path, table(moments), use_deprecated_int96_timestamps=True)
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        frame = spark.read.parquet(str(tmp_path))
        # In Spark's own number of microseconds, which no zone can touch.
        numbers = frame.selectExpr("unix_micros(instant)", "unix_date(date)").toArrow()
        ours = read(plain(frame.select("instant", "date")))
        assert rows(ours) == rows(numbers)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


SPARK_VALUES = """
SELECT * FROM VALUES
  (1L, 1Y, 1S, 1, 1.5F, 2.5D, 1.25BD, 'é', X'00ff', true, DATE '2024-02-29',
   TIMESTAMP '2024-02-29 12:34:56.123456', TIMESTAMP_NTZ '2024-02-29 12:34:56.123456',
   ARRAY(1, NULL), MAP('a', 1.5D), NAMED_STRUCT('x', 1, 'y', ARRAY(NAMED_STRUCT('z', 'w')))),
  (-9223372036854775808L, -128Y, -32768S, -2147483648, FLOAT('NaN'), DOUBLE('-0.0'), -9.99BD, '',
   X'', false, DATE '0001-01-01', TIMESTAMP '1582-10-04 00:00:00', TIMESTAMP_NTZ '0001-01-01',
   ARRAY(), MAP(), NAMED_STRUCT('x', NULL, 'y', NULL)),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
AS t(l, b, s, i, f, d, n, t, bin, bool, day, instant, moment, list, map, struct)
"""


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_files_of_spark_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    try:
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        spark.sql(SPARK_VALUES).write.parquet(str(tmp_path / "t"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    assert_read_alike(spark.read.parquet(str(tmp_path / "t")))


def test_decimals_of_old_spark_and_hive_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    numbers = "SELECT CAST(id - 500 AS DECIMAL({0})) d FROM range(1000)"
    try:
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
        for digits in ("5,2", "12,3", "30,4"):
            folder = str(tmp_path / digits)
            spark.sql(numbers.format(digits)).write.parquet(folder)
            assert_read_alike(spark.read.parquet(folder))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")


JAVA_TYPES = """message m {
    required binary short_decimal (DECIMAL(10,2));
    optional binary wide_decimal (DECIMAL(30,4));
    optional int32 int_decimal (DECIMAL(5,1));
    optional int64 long_decimal (DECIMAL(15,3));
    optional fixed_len_byte_array(7) fixed_decimal (DECIMAL(12,2));
    optional binary word (ENUM);
    optional binary text (JSON);
    optional binary bytes;
    optional int32 small (UINT_8);
    optional int64 instant (TIMESTAMP_MILLIS);
    repeated int32 bare;
    optional group two_levels (LIST) { repeated int32 array; }
    optional group hive (LIST) { repeated group bag { optional int32 array_element; } }
    optional group avro (LIST) { repeated group array { optional int32 x; } }
    optional group old_map (MAP) {
        repeated group map (MAP_KEY_VALUE) { required binary key (UTF8); optional int32 value; }
    }
}"""
JAVA_REFUSED = {"short_decimal", "word", "bare", "two_levels", "hive", "avro", "old_map"}


def write_with_java(spark: SparkSession, path: Path) -> None:
    """Types that only other programs write, written by Parquet's own library."""
    parquet = spark._jvm.org.apache.parquet  # type: ignore[union-attr]
    message = parquet.schema.MessageTypeParser.parseMessageType(JAVA_TYPES)
    place = spark._jvm.org.apache.hadoop.fs.Path(str(path))  # type: ignore[union-attr]
    writer = parquet.hadoop.example.ExampleParquetWriter.builder(place).withType(message).build()
    row = parquet.example.data.simple.SimpleGroup(message)

    def binary(value: bytes) -> Any:
        return parquet.io.api.Binary.fromConstantByteArray(value)

    row.add("short_decimal", binary(b"\xff\x38"))
    row.add("wide_decimal", binary(b"\xff" + bytes(11)))
    row.add("int_decimal", -12_345)
    row.add("long_decimal", 2**40)
    row.add("fixed_decimal", binary((-5).to_bytes(7, "big", signed=True)))
    for name in ("word", "text", "bytes"):
        row.add(name, binary(b'"w"'))
    row.add("small", 200)
    row.add("instant", -(2**40))
    row.add("bare", 1)
    row.addGroup("two_levels").add("array", 1)
    row.addGroup("hive").addGroup("bag").add("array_element", 1)
    row.addGroup("avro").addGroup("array").add("x", 1)
    row.addGroup("old_map").addGroup("map").add("key", "k")
    empty = parquet.example.data.simple.SimpleGroup(message)
    empty.add("short_decimal", binary(b"\x01"))
    writer.write(row)
    writer.write(empty)
    writer.close()


def test_types_of_other_programs_are_read_alike_or_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_with_java(spark, tmp_path / "data.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert_read_alike(frame.drop(*JAVA_REFUSED))
    for name in JAVA_REFUSED:
        assert f"column '{name}" in refused(frame.select(name))


def test_files_of_duckdb_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    duckdb.sql(
        f"""
        COPY (
            SELECT i, i::TINYINT AS t, i::USMALLINT AS us, i::UINTEGER AS ui, i / 3 AS d,
                (i / 3)::FLOAT AS f, (i / 3)::DECIMAL(9, 3) AS small, (i / 3)::DECIMAL(30, 6) AS n,
                'é' || i AS s, DATE '1500-01-01' + i::INTEGER AS date, i % 2 = 0 AS even,
                TIMESTAMPTZ '1960-01-01 00:00:00+00' + i * INTERVAL 1 DAY AS instant,
                TIMESTAMP '1960-01-01 00:00:00' + i * INTERVAL 1 SECOND AS moment,
                CASE WHEN i % 3 > 0 THEN [i, NULL] END AS list,
                {{'x': i, 'y': 's' || i}} AS struct, MAP {{'k' || i: i}} AS map,
                encode('b' || i) AS raw
            FROM range(50) AS r(i)
        ) TO '{path}' (FORMAT parquet)
        """
    )
    assert_read_alike(spark.read.parquet(str(path)))


WIDER = {
    "boolean": "boolean",
    "int8": "tinyint smallint int bigint double",
    "int16": "smallint int bigint double",
    "int32": "int bigint double",
    "int64": "bigint",
    "uint8": "smallint int bigint",
    "uint16": "int bigint",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float double",
    "double": "double",
    "small decimal": "decimal(9,2) decimal(10,2) decimal(18,2) decimal(18,4) decimal(38,6)",
    "decimal": "decimal(18,4) decimal(20,4) decimal(20,6) decimal(38,10)",
    "wide decimal": "decimal(38,10)",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "instant": "timestamp",
    "instant in millis": "timestamp",
    "moment": "timestamp_ntz",
}


@pytest.mark.parametrize("round", range(5))
def test_a_wider_type_in_the_table_is_read_where_spark_reads_it(
    spark: SparkSession, tmp_path: Path, round: int
) -> None:
    written(spark, tmp_path, table({name: ARROW[name] for name in WIDER}))
    kinds = {name: kinds.split()[round : round + 1] for name, kinds in WIDER.items()}
    columns = [f"`{name}` {kind[0]}" for name, kind in kinds.items() if kind]
    assert columns
    assert_read_alike(spark.read.schema(", ".join(columns)).parquet(str(tmp_path)))


REFUSED: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "narrower integer": (pa.int64(), [1], "int"),
    "smaller integer": (pa.int32(), [1], "tinyint"),
    "unsigned as signed": (pa.uint32(), [2**32 - 1], "int"),
    "day as integer": (pa.date32(), [DAYS[0]], "int"),
    "instant as integer": (pa.timestamp("us", UTC), [MOMENTS[0]], "bigint"),
    "wall clock as instant": (pa.timestamp("us"), [MOMENTS[0]], "timestamp"),
    "instant as wall clock": (pa.timestamp("us", UTC), [MOMENTS[0]], "timestamp_ntz"),
    "nanoseconds": (pa.timestamp("ns", UTC), [MOMENTS[0]], "timestamp"),
    "bytes as text": (pa.binary(), [b"a"], "string"),
    "text as bytes": (pa.string(), ["a"], "binary"),
    "integer as decimal": (pa.int32(), [1], "decimal(10,0)"),
    "fewer digits": (pa.decimal128(10, 2), [Decimal(1)], "decimal(9,2)"),
    "fewer places": (pa.decimal128(10, 2), [Decimal(1)], "decimal(12,1)"),
    "fewer places before": (pa.decimal128(10, 2), [Decimal(1)], "decimal(11,4)"),
    "lower precision": (pa.float64(), [0.1], "float"),
    "day as wall clock": (pa.date32(), [DAYS[0]], "timestamp_ntz"),
    "fixed bytes": (pa.binary(4), [b"abcd"], "binary"),
    "half": (pa.float16(), [0.5], "float"),
    "duration": (pa.duration("us"), [timedelta(1)], "interval day to second"),
    "duration as integer": (pa.duration("us"), [timedelta(1)], "bigint"),
    "other fields": (pa.struct({"x": pa.int32()}), [{"x": 1}], "struct<x: int, y: int>"),
    "fields in other order": (POINT, [None], "struct<y: struct<z: string>, x: int>"),
    "fixed list": (pa.list_(pa.int32(), 2), [[1, 2]], "array<int>"),
    "struct as map": (pa.struct({"key": pa.int32()}), [None], "map<string, int>"),
    "narrower element": (pa.list_(pa.int64()), [[1]], "array<int>"),
}


@pytest.mark.parametrize(("kind", "values", "wanted"), REFUSED.values(), ids=REFUSED.keys())
def test_a_type_that_might_differ_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, values: list[Any], wanted: str
) -> None:
    written_as = pa.table({"c": pa.array(values, kind)})
    pq.write_table(written_as, tmp_path / "data.parquet")
    frame = spark.read.schema(f"c {wanted}").parquet(str(tmp_path))
    assert refused(frame).startswith("column 'c")
