"""A computed column that we compute has Spark's values; any other is left to Spark, and named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.spark import sql_types
from tests.spark.scans import plain, read, refused, rows
from tests.spark.sql_types import texts
from watersmeet.expressions.numbers import ArithmeticFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Column -> type, and values that come in ways that do not repeat within the table.
COLUMNS = {
    "b": ("tinyint", ["-128", "-1", "0", "127", "NULL"]),
    "h": ("smallint", ["-32768", "0", "5", "32767", "NULL"]),
    "i": ("int", ["-2147483648", "-7", "0", "3", "2147483647", "NULL"]),
    "l": ("bigint", ["-9223372036854775808", "-10", "0", "99", "9223372036854775807", "NULL"]),
    "small": ("int", ["-7", "-1", "0", "1", "2", "12", "NULL"]),
    "count": ("bigint", ["1", "2", "3", "-4", "1000000", "NULL"]),
    "f": ("float", ["1.5", "-0.0", "0.1", "float('NaN')", "float('Infinity')", "NULL"]),
    "d": ("double", ["2.5", "-0.0", "0.1", "double('NaN')", "-1e300", "9223372036854775807D",
                     "NULL"]),
    "n": ("decimal(9,2)", ["-1.55", "0.00", "1234567.89", "2.45", "NULL"]),
    "m": ("decimal(18,6)", ["0.000001", "-123456789012.345678", "1", "NULL"]),
    "w": ("decimal(38,10)", ["0.0000000001", "-9999999999999999999999999999.9999999999", "NULL"]),
    "s": ("string", ["''", "'a'", "' ab '", "'žluť'", "'🐎x'", "'1'", "'aXbXc'", "NULL"]),
    "t": ("string", ["'b'", "NULL", "'é'", "'🐎'"]),
    "c": ("char(4)", ["'a'", "'žl'", "'abcd'", "NULL"]),
    "day": ("date", ["DATE'1970-01-01'", "DATE'2024-02-29'", "DATE'0001-01-01'", "DATE'1582-10-04'",
                     "DATE'9999-12-31'", "DATE'2021-01-03'", "date_add(DATE'9999-12-31', 400)",
                     "date_sub(DATE'0001-01-01', 800)", "NULL"]),
    "ts": ("timestamp", ["TIMESTAMP'2024-10-27 00:30:59.999999'", "TIMESTAMP'1600-01-01 12:00:01'",
                         "TIMESTAMP'1969-12-31 23:59:59.5'", "NULL"]),
    "ntz": ("timestamp_ntz", ["TIMESTAMP_NTZ'2024-10-27 02:30:00'", "NULL",
                              "TIMESTAMP_NTZ'1911-11-11 11:11:11.1'"]),
    "yes": ("boolean", ["true", "false", "NULL"]),
    "x": ("binary", ["X''", "X'80'", "NULL"]),
}  # fmt: skip
ROWS = 96

# None of them fails for a row of the table.
NUMBERS = [
    "small + 1", "small - small", "small * 3", "-small", "abs(small)", "small % 5", "small / 4",
    "pmod(small, 5)", "count div 7", "count * 2 - small", "h + 0L", "b * 1.5", "n + m", "n * n",
    "n - small", "n / 3", "m / nullif(n, 0) + 1", "n % 2.5", "f + f", "f * 2", "d + f", "d / 3",
    "try_cast(w AS bigint)", "d % 2", "-d", "abs(f)", "small & 6", "small | 1", "count ^ 5",
    "shiftleft(small, 3)", "~small",
    "shiftleft(count, 65)", "shiftright(small, 1)", "sqrt(d)", "floor(n)", "ceil(m)", "round(n, 1)",
    "round(m, 8)", "round(n)", "cast(small AS bigint)", "cast(small AS tinyint)", "cast(b AS int)",
    "cast(count AS float)", "cast(l AS double)", "cast(l AS float)", "cast(n AS int)",
    "cast(n AS double)", "cast(n AS decimal(12,1))", "cast(i AS decimal(12,2))",
    "cast(w AS double)",
    "cast(small AS decimal(38,18))", "cast(yes AS int)", "cast(yes AS decimal(3,1))",
    "cast(yes AS double)", "cast(f AS double)", "cast(d AS float)",
    "try_add(l, 1)", "try_subtract(i, 1)", "try_multiply(l, 3)", "try_divide(n, small)",
    "try_divide(d, small)", "try_mod(small, count - 1)", "try_cast(l AS int)",
    "try_cast(d AS tinyint)", "try_cast(d AS bigint)",
    "try_cast(n AS decimal(5,2))", "try_cast(l AS smallint)",
    "coalesce(small, count, 0)", "nvl(n, m)", "nullif(small, 0)", "if(small > 0, n, m)",
    "CASE WHEN small <> 0 THEN 12 / small WHEN yes THEN d END", "greatest(small, count, 1)",
    "least(n, m)", "greatest(d, f, 0)", "ifnull(d, 0)", "length(s)", "length(concat(s, t))",
    "year(day)", "month(day)", "day(day)", "quarter(day)", "dayofyear(day)", "dayofweek(day)",
    "weekday(day)", "weekofyear(day)", "hour(ts)", "minute(ts)", "second(ts)", "hour(ntz)",
    "second(ntz)", "year(ts)", "month(ntz)", "datediff(day, DATE'2000-02-29')", "unix_micros(ts)",
    "unix_seconds(ts)", "unix_millis(ts)", "unix_timestamp(ts)", "cast(ts AS bigint)", "7", "1.50",
    "CAST(NULL AS int)", "year(date_add(day, small))",
]  # fmt: skip
TEXTS = [
    "concat(s, '-', t)", "s || s", "substring(s, 2, 3)", "substr(s, 0, 1)", "left(s, 2)",
    "substring(s, 3)", "trim(s)", "ltrim(s)", "rtrim(s)", "lpad(s, 3, '*')", "rpad(s, 4, 'é')",
    "replace(s, 'X', '--')", "cast(l AS string)", "cast(b AS string)", "cast(yes AS string)",
    "cast(n AS string)", "cast(m AS string)", "cast(day AS string)", "coalesce(t, s)",
    "CASE WHEN small > 0 THEN s WHEN yes THEN 'other' END", "if(yes, s, NULL)", "c", "c || '|'",
    "rtrim(c)", "'constant'", "concat(cast(small AS string), '/', cast(count AS string))",
]  # fmt: skip
TIMES = [
    "date_add(day, 3)", "date_sub(day, small)", "day + 1", "last_day(day)", "trunc(day, 'month')",
    "trunc(day, 'YEAR')", "trunc(day, 'week')", "trunc(day, 'quarter')", "date_trunc('hour', ts)",
    "date_trunc('MONTH', ts)", "date_trunc('week', ts)", "date_trunc('second', ntz)",
    "date_trunc('day', ts)", "cast(ts AS date)", "cast(ntz AS date)", "cast(ts AS timestamp_ntz)",
    "cast(ntz AS timestamp)", "ts + INTERVAL '1' HOUR", "ntz - INTERVAL '1 02' DAY TO HOUR",
    "ts + INTERVAL '-3' DAY", "ts - TIMESTAMP'2000-01-01'", "cast(DATE'2024-01-01' AS timestamp)",
    "coalesce(day, DATE'2000-01-01')", "greatest(ts, cast(ntz AS timestamp))",
    "if(yes, day, NULL)", "cast(trunc(day, 'year') AS timestamp)",
]  # fmt: skip
TRUTHS = [
    "small > 2", "s = 'a'", "small IS NULL", "yes AND small > 0", "NOT yes", "s LIKE '%b%'",
    "small IN (1, 2)", "isnan(d)", "cast(small AS boolean)", "cast(d AS boolean)", "n <=> m",
    "CASE WHEN small = 1 THEN yes ELSE NOT yes END", "coalesce(yes, false)", "trim(s) = 'ab'",
    "year(day) = 2024", "c = 'a'", "date_add(day, 1) > DATE'2000-01-01'", "length(s) IN (1, 3)",
    "small + 1 > 2", "small % 2 = 0 AND s || t <> 'ab'", "cast(n AS int) BETWEEN 0 AND 2",
]  # fmt: skip
# With ANSI mode off: what is too large is null, or has the bits that are left.
LENIENT = [
    "l + 1", "i * i", "-l", "abs(i)", "b * b", "h * h", "n / small", "d / small", "small % small",
    "cast(l AS int)", "cast(d AS bigint)", "cast(d AS int)", "cast(d AS tinyint)", "pmod(i, 7)",
    "cast(f AS smallint)", "cast(w AS int)", "cast(w AS bigint)", "cast(n AS tinyint)",
    "cast(n AS decimal(3,1))", "cast(l AS decimal(5,1))", "date_add(day, i)", "cast(m AS string)",
]  # fmt: skip
# Column or filter -> what is said of it.
LEFT_TO_SPARK = {
    "upper(s)": "upper(spark_catalog.default.computed.s)",
    "concat('x', lower(t))": "lower(spark_catalog.default.computed.t)",
    "cast(d AS string)": "CAST(spark_catalog.default.computed.d AS STRING)",
    "cast(s AS int)": "CAST(spark_catalog.default.computed.s AS INT)",
    "round(d, 1)": "round(spark_catalog.default.computed.d, 1)",
    "exp(d)": "EXP(spark_catalog.default.computed.d)",
    "w * w": "(spark_catalog.default.computed.w * spark_catalog.default.computed.w)",
    "substring(s, -2, 1)": "substring(spark_catalog.default.computed.s, -2, 1)",
    "small div small": "div",
    "rand(1)": "rand(1)",
    "monotonically_increasing_id()": "monotonically_increasing_id()",
    "trim(s) COLLATE UTF8_LCASE = 'a'": "collate",
    "cast(d AS decimal(9,2))": "AS DECIMAL(9,2))",
    "array(small)": "array(",
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """Values of every kind in a table that Spark wrote, CHAR columns among them."""
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    spark.sql(f"CREATE TABLE computed (id int, {kinds}) USING parquet")
    columns = []
    for place, (name, (kind, values)) in enumerate(COLUMNS.items(), 1):
        held = "string" if kind.startswith("char") else kind
        choices = ", ".join(f"CAST({value} AS {held})" for value in values)
        chosen = f"CAST((id * {place} + id DIV 7) % {len(values)} AS int)"
        columns.append(f"array({choices})[{chosen}] AS {name}")
    made = spark.range(0, ROWS, 1, 1).selectExpr("CAST(id AS int) AS id", *columns)
    made.write.insertInto("computed")
    return spark.table("computed")


def assert_computed_alike(frame: DataFrame, expressions: Sequence[str]) -> None:
    chosen = frame.selectExpr(
        "id", *(f"({text}) AS v{number}" for number, text in enumerate(expressions))
    )
    # Spark 4.3.0 mixes up what it computes once for several columns when they are many.
    with sql_types.settings(frame.sparkSession, subexpressionElimination__enabled="false"):
        theirs = chosen.toArrow()
    ours = read(plain(chosen), batch_rows=32)
    assert ours.schema.types == theirs.schema.types
    for number, text in enumerate(expressions):
        pair = ["id", f"v{number}"]
        assert rows(ours.select(pair)) == rows(theirs.select(pair)), text


@pytest.mark.parametrize("expressions", [NUMBERS, TEXTS + TIMES + TRUTHS])
def test_computed_columns_have_the_values_of_spark(
    frame: DataFrame, expressions: list[str]
) -> None:
    assert_computed_alike(frame, expressions)


def test_without_ansi_mode_values_that_do_not_fit_are_what_spark_makes_of_them(
    frame: DataFrame,
) -> None:
    with sql_types.settings(frame.sparkSession, ansi__enabled="false"):
        assert_computed_alike(frame, LENIENT)


def put_into(
    kinds: dict[str, st.SearchStrategy[str]],
) -> dict[str, st.SearchStrategy[str]]:
    """Larger expressions of each type, made of these."""
    number, text = kinds["number"], kinds["text"]
    time, truth = kinds["time"], kinds["truth"]
    return {
        "number": st.one_of(
            number,
            st.builds("try_add(try_cast({} AS int), try_cast({} AS tinyint))".format,
                      number, number),
            st.builds("try_divide({}, try_cast({} AS int))".format, number, number),
            st.builds("try_cast(try_cast({} AS bigint) AS decimal(12,3))".format, number),
            st.builds("CASE WHEN {} THEN {} ELSE try_cast({} AS double) END".format,
                      truth, number, number),
            st.builds("length({})".format, text),
            st.builds("datediff({}, {})".format, time, time),
        ),
        "text": st.one_of(
            text,
            st.builds("concat({}, {})".format, text, text),
            st.builds("if({}, {}, rpad({}, 5, '.'))".format, truth, text, text),
            st.builds("substring({}, 1, 3)".format, text),
            st.builds("cast(try_cast({} AS int) AS string)".format, number),
        ),
        "time": st.one_of(
            time,
            st.builds("date_add({}, coalesce(try_cast({} AS tinyint), 1))".format, time, number),
            st.builds("trunc({}, 'quarter')".format, time),
            st.builds("CASE WHEN {} THEN {} END".format, truth, time),
        ),
        "truth": st.one_of(
            truth,
            st.builds("{} > {}".format, number, number),
            st.builds("NOT ({})".format, truth),
            st.builds("(({}) OR ({}))".format, truth, truth),
            st.builds("({} <=> {})".format, text, text),
            st.builds("{} IS NULL".format, time),
        ),
    }  # fmt: skip


_DAYS = [text for text in TIMES if text.startswith(("date_add", "last_day", "trunc", "coalesce"))]
_KINDS = {
    "number": st.sampled_from(["small", "count", "n", "d", *NUMBERS[:12]]),
    "text": st.sampled_from(["s", "t", "c", *TEXTS[:8]]),
    "time": st.sampled_from(["day", *_DAYS]),
    "truth": st.sampled_from(["yes", *TRUTHS]),
}
_LARGE = put_into(put_into(_KINDS))


@settings(max_examples=3)
@given(expressions=st.lists(st.one_of(*_LARGE.values()), min_size=10, max_size=10))
def test_random_expressions_have_the_values_of_spark(
    frame: DataFrame, expressions: list[str]
) -> None:
    assert_computed_alike(frame, expressions)


@pytest.mark.slow
@settings(max_examples=60)
@given(expressions=st.lists(st.one_of(*_LARGE.values()), min_size=15, max_size=15))
def test_many_random_expressions_have_the_values_of_spark(
    frame: DataFrame, expressions: list[str]
) -> None:
    assert_computed_alike(frame, expressions)


def test_columns_that_are_computed_from_computed_columns_and_filters_above_them(
    frame: DataFrame,
) -> None:
    chosen = (
        frame.where("small <> 0 AND n IS NOT NULL")
        .withColumn("k", frame.small * 10)
        .withColumn("k2", frame.n / frame.small)
        .selectExpr("id", "k + k AS k", "k2", "concat(s, t) AS u", "k2 > 0 AS up")
        .where("k > -100 AND u IS NOT NULL OR up")
        .withColumnRenamed("u", "id2")
    )
    scan = plain(chosen)
    assert "k computed as" in scan.describe()
    assert rows(read(scan, batch_rows=32)) == rows(chosen.toArrow())
    fewer = read(scan.only(["up", "id"]), batch_rows=32)
    assert rows(fewer) == rows(chosen.select("up", "id").toArrow())
    (taken,) = scan.only(["id2"]).selections
    assert {each.field.name for each in taken.columns} == {"n", "small", "s", "t"}


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_what_may_differ_outside_spark_is_left_to_it_and_named(frame: DataFrame, text: str) -> None:
    told = refused(frame.selectExpr("id", f"{text} AS v"))
    assert told.startswith("column 'v' is computed with "), told
    assert LEFT_TO_SPARK[text] in told


def test_clocks_of_other_time_zones_are_left_to_spark(frame: DataFrame) -> None:
    with sql_types.settings(frame.sparkSession, session__timeZone="Europe/Berlin"):
        for text in (
            "hour(ts)",
            "cast(ts AS date)",
            "date_trunc('day', ts)",
            "ts + INTERVAL '1' DAY",
        ):
            assert "'v' is computed with" in refused(frame.selectExpr("id", f"{text} AS v"))
        assert_computed_alike(frame, ["hour(ntz)", "unix_micros(ts)", "ts > TIMESTAMP'2000-01-01'"])


@pytest.mark.parametrize(
    ("computed", "condition", "told"),
    [
        ("l + 1", "true", "does not fit"),
        ("12 / small", "true", "by zero"),
        ("cast(l AS int)", "true", "does not fit"),
        ("cast(d AS bigint)", "true", "does not fit"),
        ("id", "small % small = 0", "by zero"),
        ("cast(cast(w AS decimal(38,0)) AS int)", "true", "does not fit"),
    ],
)
def test_what_fails_in_spark_fails_here_with_the_expression(
    frame: DataFrame, computed: str, condition: str, told: str
) -> None:
    scan = plain(frame.selectExpr("id", f"{computed} AS v", "small").where(condition))
    with pytest.raises(ArithmeticFailed, match=told) as caught:
        read(scan)
    assert "cannot be computed" in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    ["small <> 0 AND 12 / small > 2", "CASE WHEN small = 0 THEN false ELSE 12 / small > 2 END",
     "l > 5 AND l < 1000 AND l + 1 > 7", "small = 0 OR 12 / small > 2"],
)  # fmt: skip
def test_a_filter_keeps_the_parts_after_it_from_failing(frame: DataFrame, condition: str) -> None:
    chosen = frame.where(condition).selectExpr("id", "if(l = 99, l + 1, 0) AS more")
    assert rows(read(plain(chosen))) == rows(chosen.toArrow())


# -- In joins and aggregates ---------------------------------------------------------------------


Sides = tuple["DataFrame", "DataFrame"]


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Each in 8 files, with a computed key and a computed value."""
    found = []
    for number, (rows_of, step) in enumerate([(4_000, 7), (1_000, 3)]):
        path = str(tmp_path_factory.mktemp("sides") / str(number))
        text = f"cast(id * {step} % 500 AS int) AS item", f"id % 50 + {number} AS v{number}"
        spark.range(0, rows_of, 1, 8).selectExpr("id", *text).write.parquet(path)
        read_back = spark.read.parquet(path)
        found.append(
            read_back.selectExpr(
                "concat('k', cast(item % 400 AS string)) AS k",
                f"v{number} * 2 AS v{number}",
                f"cast(item AS bigint) AS at{number}",
            ).where(f"v{number} < 90")
        )
    return found[0], found[1]


@pytest.mark.usefixtures("in_waves")
def test_a_join_on_computed_keys_comes_in_waves(sides: Sides) -> None:
    left, right = sides
    with wm.join(left, right, "k", instances=2) as run:
        progress = [wave.progress for wave in run]
        assert 0 < progress[0].rows_out < progress[-1].rows_out
        assert texts(run.to_df()) == texts(sides[0].join(sides[1], "k"))
        told = run.explain()
        assert "left       file path" in told
        assert "right      file path" in told
        assert "k computed as concat" in " ".join(told.split())


def test_a_band_join_over_computed_columns(sides: Sides) -> None:
    left, right = sides[0].where("at0 < 40"), sides[1].where("at1 < 40")
    with wm.join(left.drop("k"), right.drop("k"), wm.band(("at0", "at1"), -1, 1)) as run:
        own = left.drop("k").join(right.drop("k"), left.at0.between(right.at1 - 1, right.at1 + 1))
        assert texts(run.to_df()) == texts(own)


def test_an_aggregate_over_computed_columns(sides: Sides) -> None:
    joined = sides[0].join(sides[1], "k").groupBy("v1").agg({"v0": "sum", "*": "count"})
    expected = {row["v1"]: (row["count(1)"], row["sum(v0)"]) for row in joined.collect()}
    left, right = sides
    with wm.aggregate(left, right, "k", group_by="v1", n=wm.count(), total=wm.sum("v0")) as run:
        found = {row["v1"]: (row["n"], row["total"]) for row in run.exact().answer.to_pylist()}
        assert "file path" in run.explain()
        assert "row path" not in run.explain()
    assert found == expected


def test_a_failure_of_a_computed_column_ends_the_join(sides: Sides) -> None:
    broken = sides[0].selectExpr("k", "v0 div 1 AS v", "12 / (v0 - 2) AS w")
    with wm.join(broken, sides[1], "k") as run, pytest.raises(ArithmeticFailed, match="by zero"):
        run.to_df()


def test_explain_names_what_keeps_a_side_from_its_files(sides: Sides) -> None:
    with wm.join(sides[0].selectExpr("upper(k) AS k"), sides[1], "k") as run:
        told = " ".join(run.explain().split())
    assert "because column 'k' is computed with upper(" in told
    assert "write the DataFrame to Parquet files" in told
