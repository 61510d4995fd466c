"""A Python function of the user's that our tasks call has the values it has in Spark; any other is
left to Spark, and the reason said."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions

from tests.spark import sql_types
from tests.spark.scans import assert_read_alike, plain, read, refused, rows
from watersmeet.errors import FunctionFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Some of them have no types.
sf: Any = functions
pytestmark = pytest.mark.spark

ROWS = 96
# Column -> type, and values that come in ways that do not repeat within the table.
COLUMNS = {
    "b": ("tinyint", ["-128", "0", "127", "NULL"]),
    "h": ("smallint", ["-32768", "0", "5", "NULL"]),
    "i": ("int", ["-2147483648", "3", "2147483647", "NULL"]),
    "l": ("bigint", ["-9223372036854775808", "99", "9223372036854775807", "NULL"]),
    "f": ("float", ["1.5", "-0.0", "0.1", "float('NaN')", "float('-Infinity')", "NULL"]),
    "d": ("double", ["2.5", "-0.0", "0.1", "double('NaN')", "-1e300", "NULL"]),
    "n": ("decimal(9,2)", ["-1.55", "0.00", "1234567.89", "NULL"]),
    "w": ("decimal(38,10)", ["0.0000000001", "-9999999999999999999999999999.9999999999", "NULL"]),
    "s": ("string", ["''", "'a'", "' ab '", "'žluť'", "'🐎x'", "NULL"]),
    "c": ("char(4)", ["'a'", "'žl'", "'abcd'", "NULL"]),
    "v": ("varchar(5)", ["'a '", "'žlutý'", "NULL"]),
    "day": ("date", ["DATE'1970-01-01'", "DATE'2024-02-29'", "DATE'0001-01-01'", "NULL"]),
    "ts": ("timestamp", ["TIMESTAMP'2024-10-27 00:30:59.999999'", "TIMESTAMP'1969-12-31 23:59:59'",
                         "TIMESTAMP'2024-03-31 02:30:00'", "NULL"]),
    "ntz": ("timestamp_ntz", ["TIMESTAMP_NTZ'2024-10-27 02:30:00'", "NULL"]),
    "yes": ("boolean", ["true", "false", "NULL"]),
    "x": ("binary", ["X''", "X'80FF'", "NULL"]),
}  # fmt: skip
_TYPES = {"char(4)": "string", "varchar(5)": "string"}
_PROFILER = "spark.sql.pyspark.udf.profiler"
_FORMS = ("value", "pandas", "arrow")


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """Values of every kind in a table that Spark wrote."""
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    spark.sql(f"CREATE TABLE called (id int, small int, {kinds}) USING parquet")
    columns = []
    for place, (name, (kind, values)) in enumerate(COLUMNS.items(), 1):
        choices = ", ".join(f"CAST({value} AS {_TYPES.get(kind, kind)})" for value in values)
        chosen = f"CAST((id * {place} + id DIV 7) % {len(values)} AS int)"
        columns.append(f"array({choices})[{chosen}] AS {name}")
    made = spark.range(0, ROWS, 1, 1)
    made = made.selectExpr("CAST(id AS int) AS id", "CAST(id % 7 AS int) AS small", *columns)
    made.write.insertInto("called")
    return spark.table("called")


def same_series(values: pd.Series) -> pd.Series:
    return values


def same_array(values: pa.Array) -> pa.Array:
    return values


def going_through(pieces: Iterator[pd.Series]) -> Iterator[pd.Series]:
    yield from pieces


def how_many(values: pa.Array, *_: pa.Array) -> pa.Array:
    return pa.array([len(values)] * len(values), pa.int32())


def same(kind: str, form: str) -> Any:
    """A function that gives back what it is given, in one of three forms."""
    if form == "value":
        return sf.udf(lambda value: value, kind)
    if form == "pandas":
        return sf.pandas_udf(same_series, kind)
    return sf.arrow_udf(same_array, kind)


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("zone", ["UTC", pytest.param("Europe/Prague", marks=pytest.mark.slow)])
def test_values_of_all_types_are_given_and_taken_as_in_spark(
    frame: DataFrame, form: str, zone: str
) -> None:
    chosen = [
        same(_TYPES.get(kind, kind), form)(name).alias(f"r_{name}")
        for name, (kind, _) in COLUMNS.items()
        # Where one is null, pandas has whole numbers as floats, which do not hold these.
        if (name, form) != ("l", "pandas")
    ]
    with sql_types.settings(frame.sparkSession, session__timeZone=zone):
        assert_read_alike(frame.select("id", *chosen))


def types_of(values: pa.Array) -> pa.Array:
    return pa.array([f"{values.type} {value}" for value in values.to_pylist()])


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_moments_are_given_with_the_time_zone_of_the_session(frame: DataFrame, zone: str) -> None:
    told, typed = sf.udf(lambda value: f"{value!r}", "string"), sf.arrow_udf(types_of, "string")
    chosen = [function(name) for name in ("ts", "ntz", "day") for function in (told, typed)]
    with sql_types.settings(frame.sparkSession, session__timeZone=zone):
        assert_read_alike(frame.select([each.alias(f"r{n}") for n, each in enumerate(chosen)]))


# What functions make of values: the function, the type that is said, and a column.
def _returns_other_types() -> dict[str, tuple[Callable[[Any], Any], str]]:
    return {
        "a whole number for a double": (lambda value: 7, "double"),
        "a float for a whole number": (lambda value: 2.0, "int"),
        "a text of digits for a whole number": (lambda value: "12", "int"),
        "a number for a text": (lambda value: value, "string"),
        "nothing": (lambda value: None, "decimal(5,2)"),
        "a decimal of fewer digits": (lambda value: Decimal("1.5"), "decimal(12,4)"),
        "a decimal of more digits": (lambda value: Decimal("1.23456"), "decimal(12,2)"),
        "a truth for a whole number": (lambda value: value is None, "int"),
        "a whole number that is too large": (lambda value: 2**40, "int"),
        "a whole number for a truth": (lambda value: 1, "boolean"),
        "a moment for a day": (lambda value: datetime(2024, 2, 29, 13), "date"),
        "a day for a moment": (lambda value: date(2024, 2, 29), "timestamp"),
        "text for bytes": (lambda value: "é", "binary"),
        "bytes for text": (lambda value: b"\xff", "string"),
        "a list for a text": (lambda value: [value], "string"),
        "not a number": (lambda value: float("nan"), "float"),
        "a number beyond floats": (lambda value: 1e300, "float"),
    }


@pytest.mark.parametrize("case", _returns_other_types())
def test_what_is_of_another_type_than_was_said_is_what_spark_makes_of_it(
    frame: DataFrame, case: str
) -> None:
    function, kind = _returns_other_types()[case]
    chosen = frame.select("id", sf.udf(function, kind)("small").alias("r"))
    scan = plain(chosen)
    try:
        theirs = chosen.toArrow()
    except Exception:
        with pytest.raises(FunctionFailed):
            read(scan)
    else:
        assert rows(read(scan)) == rows(theirs)


def test_what_pyspark_leaves_as_another_type_is_refused_as_by_spark(frame: DataFrame) -> None:
    chosen = frame.select(
        sf.udf(lambda value: 1j, "decimal(5,2)", useArrow=True)("small").alias("r")
    )
    legacy = "legacy__execution__pythonUDF__pandas__conversion__enabled"
    with sql_types.settings(frame.sparkSession, **{legacy: "true"}):
        scan = plain(chosen)
        with pytest.raises(PySparkException):
            chosen.toArrow()
    with pytest.raises(FunctionFailed, match="it returned fixed_size_binary"):
        read(scan)


def weighed(a: pd.Series, b: pd.Series) -> pd.Series:
    return a * 1.5 - b


def doubled(a: pa.Array) -> pa.Array:
    return pc.multiply(a.cast(pa.int64()), 2)


def test_functions_of_functions_of_computed_columns_with_filters_between_them(
    frame: DataFrame,
) -> None:
    more = sf.udf(lambda value, by=1: None if value is None else value + by, "bigint")
    thrice = sf.udf(lambda value: None if value is None else 3 * value, "bigint")
    weigh, double = sf.pandas_udf(weighed, "double"), sf.arrow_udf(doubled, "bigint")
    chosen = (
        frame.where("small <> 3")
        .select(
            "id",
            thrice(more("small", frame.id * 2)).alias("m"),
            more("small", by=frame.id % 5).alias("by"),
            weigh(b=frame.d, a=frame.small + 1).alias("g"),
            double("small").alias("t"),
            more("id", sf.lit(5)).alias("five"),
            "c",
            "n",
        )
        .where("m > 10 AND five < 90")
        .withColumn("later", double("t") + sf.col("m"))
        .where("t <> 4 OR n > 0")
        .selectExpr("id", "m + t AS m", "g", "later", "concat(c, '|') AS c", "five", "by")
    )
    scan = assert_read_alike(chosen)
    assert "g computed as weighed(" in scan.describe()
    assert rows(read(scan.only(["c", "later"]))) == rows(chosen.select("c", "later").toArrow())
    (taken,) = scan.only(["c"]).selections
    # What filters need is called, and nothing else.
    assert [call.text.split("(")[0] for call in taken.steps if hasattr(call, "functions")] == [
        "<lambda>", "doubled",
    ]  # fmt: skip


def test_only_rows_that_filters_have_kept_are_given_to_a_function(frame: DataFrame) -> None:
    picky = sf.udf(lambda value: 12 // value, "int")
    again = sf.udf(lambda value: 12 // (value - 1), "int")
    kept = frame.where("small > 0").select("id", "small", picky("small").alias("p"))
    chosen = kept.where("p < 12").select("id", "p", again("small").alias("q"))
    assert_read_alike(chosen)


def test_a_function_is_given_as_many_rows_at_a_time_as_the_session_says(frame: DataFrame) -> None:
    counted = sf.arrow_udf(how_many, "int")
    chosen = frame.select(counted("id").alias("at once"))
    with sql_types.settings(frame.sparkSession, execution__arrow__maxRecordsPerBatch="10"):
        scan = plain(chosen)
    assert read(scan).column(0).to_pylist() == [10] * 90 + [6] * 6
    with sql_types.settings(frame.sparkSession, execution__arrow__maxRecordsPerBatch="0"):
        scan = plain(chosen)
    assert read(scan).column(0).to_pylist() == [96] * 96


def test_a_function_is_given_few_rows_at_a_time_if_they_are_wide(frame: DataFrame) -> None:
    chosen = frame.select(sf.arrow_udf(how_many, "int")("s", "w").alias("at once"))
    with sql_types.settings(frame.sparkSession, execution__arrow__maxBytesPerBatch="100"):
        scan = plain(chosen)
    at_once = read(scan).column(0).to_pylist()
    assert len(at_once) == ROWS
    # A decimal of 38 digits has 16 bytes.
    assert max(at_once) <= 100 / 16


def named_as(one: pd.Series, other: pd.Series) -> pd.Series:
    return pd.Series([f"{one.name} {other.name} {one is other}"] * len(one))


def filled(values: pd.Series) -> pd.Series:
    values[:] = 7.0
    return values


def test_what_several_functions_are_given_is_one_argument_as_in_spark(frame: DataFrame) -> None:
    named, fill = sf.pandas_udf(named_as, "string"), sf.pandas_udf(filled, "double")
    same_again = same("double", "pandas")
    assert_read_alike(
        frame.select(
            named("id", "id").alias("a"),
            named(frame.small + 1, "id").alias("b"),
            named("small", sf.expr("small + 1")).alias("c"),
            # It changes what the next one is given, and not the column.
            fill("d").alias("f"),
            same_again("d").alias("g"),
            "d",
        )
    )


def test_a_result_has_a_name_that_no_column_has(spark: SparkSession, tmp_path: Any) -> None:
    spark.range(9).selectExpr("id AS `result 1`").write.parquet(str(tmp_path / "named"))
    named = spark.read.parquet(str(tmp_path / "named"))
    doubled_result = sf.udf(lambda value: 2 * value, "bigint")("result 1")
    assert_read_alike(named.select("result 1", doubled_result.alias("r")))


def test_functions_in_branches_of_a_union_and_above_it(frame: DataFrame) -> None:
    more = sf.udf(lambda value: None if value is None else value + 1, "int")
    first = frame.select("id", more("small").alias("k"))
    second = frame.where("id > 40").select("id", "small")
    both = first.union(second).withColumn("m", more("k")).where("m <> 3")
    assert_read_alike(both)


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


_RAISED = {
    "exit": SystemExit("bye"),
    "stop": StopIteration(),
    "interrupt": KeyboardInterrupt(),
    "end": GeneratorExit(),
    "nothing to say": Speechless(),
}


@pytest.mark.parametrize("error", _RAISED.values(), ids=_RAISED)
def test_whatever_a_function_raises_is_an_error_of_ours(
    frame: DataFrame, error: BaseException
) -> None:
    def raising(value):  # type: ignore[no-untyped-def]
        raise error

    with pytest.raises(FunctionFailed, match=r"raising\(id\) cannot be computed"):
        read(plain(frame.select(sf.udf(raising, "int")("id").alias("r"))))


def test_what_an_error_says_at_length_is_cut_and_can_be_printed(frame: DataFrame) -> None:
    def raising(value: int) -> int:
        raise ValueError("\ud800" + "much " * 10_000)

    with pytest.raises(FunctionFailed) as caught:
        read(plain(frame.select(sf.udf(raising, "int", useArrow=True)("id").alias("r"))))
    assert len(str(caught.value).encode()) < 1_000


# -- Left to Spark -------------------------------------------------------------------------------


def _left_to_spark(frame: DataFrame) -> dict[str, tuple[Any, str]]:
    context = frame.sparkSession.sparkContext
    known, counted = context.broadcast({1: 2}), context.accumulator(0)

    def look_up(value: int) -> int:
        return known.value.get(value, 0)

    def count(value: int) -> int:
        counted.add(1)
        return value

    large = bytes(2_000_000) + os.urandom(2_000_000)
    return {
        "rows one by one": (sf.udf(lambda v: v, "int", useArrow=False)("id"), "without Arrow"),
        "something else each time": (
            sf.udf(lambda v: v, "int").asNondeterministic()("id"), "something else each time",
        ),
        "a partition's rows": (
            sf.pandas_udf(going_through, "int")("id"), "goes through the rows of a partition",
        ),
        "a broadcast": (sf.udf(look_up, "int", useArrow=True)("id"), "has a broadcast variable"),
        "an accumulator": (sf.udf(count, "int", useArrow=True)("id"), "adds to an accumulator"),
        "a large one": (sf.udf(lambda v: len(large), "int")("id"), "or is larger than Spark sends"),
        "no argument": (sf.udf(lambda: 1, "int")(), "is called without an argument"),
        "a list": (sf.udf(lambda v: [v], "array<int>")("id"), "takes or returns array<int>"),
        "a struct": (sf.udf(lambda v: 1, "int")(sf.struct("id")), "is given struct("),
        "a task": (
            sf.udf(lambda v: str(TaskContext.get()), "string", useArrow=True)("id"),
            "asks for Spark's TaskContext",
        ),
        "Spark's own": (sf.udf(lambda v: v, "string")(sf.upper("s")), "is given upper("),
    }  # fmt: skip


_CASES = (
    *("rows one by one", "something else each time", "a partition's rows", "a broadcast"),
    *("an accumulator", "a large one", "no argument", "a list", "a struct", "a task"),
    "Spark's own",
)


def test_a_call_is_named_where_its_result_is_used(frame: DataFrame) -> None:
    double = sf.udf(lambda value: 2 * value, "int")
    chosen = frame.where(double("small") > 4).select((double("small") + 1).alias("r"))
    told = plain(chosen).describe()
    assert "filter (<lambda>(small) > 4), r computed as (<lambda>(small) + 1)" in told


@pytest.mark.parametrize("case", _CASES)
def test_what_is_left_to_spark_is_named(frame: DataFrame, case: str) -> None:
    called, told = _left_to_spark(frame)[case]
    assert told in refused(frame.select("id", called.alias("r")))


def test_a_function_of_a_session_with_other_settings_is_left_to_spark(frame: DataFrame) -> None:
    chosen = frame.select(same("int", "value")("id").alias("r"))
    frame.sparkSession.conf.set(_PROFILER, "perf")
    try:
        assert "profiler is set" in refused(chosen)
    finally:
        frame.sparkSession.conf.unset(_PROFILER)
    with sql_types.settings(frame.sparkSession, execution__arrow__useLargeVarTypes="true"):
        assert "useLargeVarTypes is not false" in refused(chosen)
    with sql_types.settings(frame.sparkSession, pyspark__worker__logging__enabled="true"):
        assert "logging.enabled is not false" in refused(chosen)
    environment = frame.sparkSession.sparkContext.environment
    environment["ANOTHER"] = "1"
    try:
        assert "other files or variables" in refused(chosen)
    finally:
        del environment["ANOTHER"]
    plain(chosen)
