"""A filter that we compute keeps exactly the rows that Spark keeps; any other is left to Spark."""

from __future__ import annotations

import math
import pickle
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark.scans import plain, read, refused
from watersmeet.spark.scans.relation import PlainScan, StagedRows, open_relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 0.1, None]
TEXTS = ["", "a", "A", "ab", "b", "ba", "bab", "é", "e", "žluť", "pláž", "🐎", "x🐎", "null", None]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [-128, -1, 0, 1, 127, None]),
    "h": (pa.int16(), [-(2**15), 0, 1, 2**15 - 1, None]),
    "i": (pa.int32(), [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1, None]),
    "j": (pa.int32(), [0, 1, 2, None, None, 3]),
    "l": (pa.int64(), [-(2**63), 0, 1, 2**53, 2**53 + 1, 2**63 - 1, None]),
    "f": (pa.float32(), FLOATS),
    "d": (pa.float64(), FLOATS),
    "e": (pa.float64(), [math.nan, 0.0, 1.5, None, 0.1, -0.0, 2.0]),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), ["a", None, "é", "🐎", "b"]),
    "x": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff", None]),
    "n": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), None]),
    "day": (pa.date32(), [date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1), None]),
    "ts": (pa.timestamp("us", "UTC"), [datetime(2024, 10, 27, 0, 30), datetime(1970, 1, 1), None]),
    "ntz": (pa.timestamp("us"), [datetime(2024, 10, 27, 2, 30), datetime(1970, 1, 1), None]),
    "yes": (pa.bool_(), [True, False, None]),
}
ROWS = 120
MANY = ", ".join(map(str, range(-1, 20)))
MANY_TEXTS = ", ".join(f"'{text}'" for text in [*"abcdefghijkl", "é", "null", "🐎"])

# What each column is compared with. Spark rewrites some: a constant out of range, a wider type.
CONSTANTS = {
    "b": ["0", "-128"],
    "h": ["100000"],
    "i": ["1", "2.5", "5000000000", "j"],
    "l": ["9007199254740993", "i"],
    "f": ["0", "float('NaN')", "0.1D", "d"],
    "d": ["double('NaN')", "1.5D", "double('Infinity')", "double('-0.0')", "e", "i"],
    "s": ["''", "'é'", "'🐎'", "t"],
    "x": ["X''", "X'80'"],
    "n": ["1.00", "1.005"],
    "day": ["DATE '2024-02-29'", "'1970-01-01'"],
    "ts": ["TIMESTAMP '2024-10-27 02:30:00+02:00'"],
    "ntz": ["TIMESTAMP_NTZ '2024-10-27 02:30:00'"],
    "yes": ["true"],
}
SIGNS = ["=", "<=>", "<", "<=", ">", ">=", "!="]
COMPARISONS = [
    f"{name} {sign} {other}"
    for name, others in CONSTANTS.items()
    for other, sign in product(others, SIGNS)
]
SPECIAL = [
    "yes",
    "NOT yes",
    "i IS NULL",
    "d IS NOT NULL",
    "isnull(s) OR yes",
    "s LIKE 'a%'",
    "s LIKE '%b'",
    "s LIKE '%lu%'",
    "NOT s LIKE 'ž%'",
    "startswith(s, '🐎')",
    "i IN (1, 2, NULL)",
    "i NOT IN (1, 2, NULL)",
    "i NOT IN (1, 2)",
    "(i NOT IN (1, 2, NULL)) IS NULL",
    "isnan(d)",
    "NOT isnan(f)",
    "l IN (1, i)",
    "s IN ('a', 'é', '')",
    "d IN (double('NaN'), 0.0D)",
    "d NOT IN (double('NaN'), double('-0.0'))",
    "n IN (0, 1)",
    "day IN (DATE '1970-01-01', DATE '2024-02-29')",
    "ts IN (TIMESTAMP '1970-01-01 00:00:00', NULL)",
    "x IN (X'80', X'ff')",
    f"i IN ({MANY})",
    f"i NOT IN ({MANY})",
    f"i NOT IN ({MANY}, NULL)",
    f"l IN ({MANY})",
    f"s IN ({MANY_TEXTS})",
    f"s NOT IN ({MANY_TEXTS}, NULL)",
    f"(s IN ({MANY_TEXTS}, NULL)) IS NULL",
    f"n IN ({MANY})",
    "i BETWEEN 0 AND 2",
    "(i > 0) = yes",
    "(i > 0 AND d < 1) IS NULL",
    "NOT (i > 0 OR d < 1)",
    "NOT (i > 0 AND (s < 'b' OR d >= e))",
    "i > 0 AND s > 'a' AND d > 0 AND yes",
    "year(day) = 2024",
    "day < ts",
    "try_add(i, 1) > 2",
    "CASE WHEN i = 1 THEN yes ELSE NOT yes END",
]


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Values of every kind, combined in ways that do not repeat within the table."""
    data = {"id": pa.array(range(ROWS))} | {
        name: pa.array(
            [values[(n * (place + 1) + n // 7) % len(values)] for n in range(ROWS)], kind
        )
        for place, (name, (kind, values)) in enumerate(COLUMNS.items())
    }
    folder = tmp_path_factory.mktemp("filtered")
    pq.write_table(pa.table(data), folder / "data.parquet", row_group_size=50)
    return spark.read.parquet(str(folder))


def kept_by_spark(frame: DataFrame, conditions: list[str]) -> list[set[int]]:
    """The rows of each condition, found in one job."""
    columns = [f"({condition}) AS c{n}" for n, condition in enumerate(conditions)]
    conf = frame.sparkSession.conf
    try:
        # Spark 4.3.0 mixes up what it computes once for several columns when they are many:
        # `d = 0` beside 37 other conditions was false everywhere, and `d != 0` true for nulls.
        conf.set("spark.sql.subexpressionElimination.enabled", "false")
        answers = frame.selectExpr("id", *columns).toArrow().to_pylist()
    finally:
        conf.unset("spark.sql.subexpressionElimination.enabled")
    return [{row["id"] for row in answers if row[f"c{n}"]} for n in range(len(conditions))]


def kept_by_us(frame: DataFrame) -> set[int]:
    scan = open_relation(frame.select("id"), argument="left")
    if isinstance(scan, StagedRows):
        # Spark sees without reading that no row is kept, and forgets the files.
        assert scan.reason == "its rows were given in the program"
        return set()
    assert isinstance(scan, PlainScan)
    ids: list[int] = read(scan, batch_rows=32).column("id").to_pylist()
    assert len(set(ids)) == len(ids)
    return set(ids)


def assert_kept_alike(frame: DataFrame, conditions: list[str]) -> None:
    for condition, expected in zip(conditions, kept_by_spark(frame, conditions), strict=True):
        assert kept_by_us(frame.where(condition)) == expected, condition


@pytest.mark.parametrize("name", CONSTANTS)
def test_comparisons_keep_the_rows_that_spark_keeps(frame: DataFrame, name: str) -> None:
    assert_kept_alike(frame, [each for each in COMPARISONS if each.split()[0] == name])


def test_other_conditions_keep_the_rows_that_spark_keeps(frame: DataFrame) -> None:
    assert_kept_alike(frame, SPECIAL)


LEAVES = st.sampled_from([*COMPARISONS, *SPECIAL])
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            "({0[0]}) {0[1]} ({0[2]})".format
        ),
        inner.map("NOT ({})".format),
        inner.map("({}) IS NULL".format),
    ),
    max_leaves=5,
)


@settings(max_examples=8)
@given(conditions=st.lists(CONDITIONS, min_size=12, max_size=12))
def test_any_combination_keeps_the_rows_that_spark_keeps(
    frame: DataFrame, conditions: list[str]
) -> None:
    assert_kept_alike(frame, conditions)


def test_filters_of_several_steps_and_renamed_columns_all_hold(frame: DataFrame) -> None:
    chosen = (
        frame.where("i > 0")
        .withColumnRenamed("s", "text")
        .select("id", "text", "d")
        .where("text > 'a'")
        .dropna(subset=["d"])
    )
    (expected,) = kept_by_spark(frame, ["i > 0 AND s > 'a' AND d IS NOT NULL AND NOT isnan(d)"])
    assert expected
    assert kept_by_us(chosen) == expected


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_dropna_counts_nan_as_missing(frame: DataFrame, needed: int) -> None:
    chosen = frame.dropna(thresh=needed, subset=["d", "e", "s"])
    assert kept_by_us(chosen) == {row["id"] for row in chosen.select("id").collect()}


@pytest.mark.parametrize(
    "condition",
    [
        "rand() > 0.5",
        "upper(s) = 'A'",
        "s LIKE 'a%b_'",
        "s RLIKE 'a'",
        "cast(s AS int) = 1",
        "s COLLATE UTF8_LCASE = 'a'",
        "array(i) = array(1)",
        "i = (SELECT max(i) FROM VALUES (1) AS v(i))",
        "length(x) = 1",
        "f IN (" + ", ".join(f"float('{n}')" for n in range(20)) + ")",
    ],
)
def test_what_we_cannot_compute_is_left_to_spark(frame: DataFrame, condition: str) -> None:
    assert "does not translate exactly" in refused(frame.where(condition))


PRUNED = {
    "n = 25": [2],
    "n < 10": [0],
    "n <= 10": [0, 1],
    "n > 29": [3],
    "n >= 29": [2, 3],
    "n IN (5, 35)": [0, 3],
    "day = DATE '1970-01-11'": [1],
    "ts >= TIMESTAMP '1970-01-01 00:00:30'": [3],
    "ms < TIMESTAMP '1970-01-01 00:00:10'": [0],
    "n > 5 AND n < 15 AND day IS NOT NULL": [0, 1],
    "n < 5 OR n > 35": [0, 1, 2, 3],
    "NOT n = 5": [0, 1, 2, 3],
    "u > 25": [0, 1, 2, 3],
    "s = '5'": [0, 1, 2, 3],
    "d < 5": [0, 1, 2, 3],
}


def test_row_groups_that_cannot_hold_a_kept_row_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    numbers = pa.array(range(40))
    seconds = pa.array([number * 1_000_000 for number in range(40)], pa.timestamp("us", "UTC"))
    data = pa.table(
        {
            "id": numbers,
            "n": numbers.cast(pa.int16()),
            "day": numbers.cast(pa.int32()).cast(pa.date32()),
            "ts": seconds,
            "ms": seconds.cast(pa.timestamp("ms", "UTC")),
            "u": numbers.cast(pa.uint32()),
            "s": numbers.cast(pa.string()),
            "d": numbers.cast(pa.float64()),
        }
    )
    pq.write_table(data, tmp_path / "data.parquet", row_group_size=10)
    frame = spark.read.parquet(str(tmp_path))
    for condition, kept in zip(PRUNED, kept_by_spark(frame, list(PRUNED)), strict=True):
        scan = plain(frame.where(condition).select("id"))
        assert [group.number for group in scan.row_groups] == PRUNED[condition], condition
        assert set(read(scan).column("id").to_pylist()) == kept, condition


def test_statistics_of_96_bit_timestamps_are_not_followed(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = pa.table({"id": [1, 2], "ts": pa.array([0, 10**7], pa.timestamp("us", "UTC"))})
    pq.write_table(
        old, tmp_path / "data.parquet", row_group_size=1, use_deprecated_int96_timestamps=True
    )
    chosen = spark.read.parquet(str(tmp_path)).where("ts < TIMESTAMP '1970-01-01 00:00:05'")
    assert len(plain(chosen).row_groups) == 2
    assert kept_by_us(chosen) == {1}


def test_the_deepest_filter_that_we_compute_reaches_a_task(frame: DataFrame) -> None:
    def nested(depth: int) -> DataFrame:
        # Alternating, for Spark balances a long chain of one kind.
        condition = "yes"
        for n in range(depth // 2):
            condition = f"(({condition}) AND i != {n}) OR s = '{n}'"
        return frame.where(condition).select("id")

    scan = plain(nested(90))
    assert read(pickle.loads(pickle.dumps(scan))).equals(read(scan))
    assert "nested more than 100 deep" in refused(nested(110))
