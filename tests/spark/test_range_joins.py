"""Joins of tables on a band alone, against Spark's own join, on both paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.streams.running import counted
from watersmeet.errors import InvalidArgument
from watersmeet.rows.bands import Band
from watersmeet.spark.tables.ranging import MOST_REPLICATION

pytestmark = pytest.mark.spark

ROWS = 600
SPARK_TYPES = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}
HOWS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True)
class Case:
    """A value made of the row number, a band, and Spark's condition on l.t and r.t."""

    value: str
    band: Band
    condition: str
    right: str | None = None
    """The right side's value, if it is of another type."""


MICROS = "abs(unix_micros(l.t) - unix_micros(r.t)) <= 40000000L"
SPECIAL = (
    "CASE id % 12 WHEN 0 THEN double('nan') WHEN 1 THEN double('inf') WHEN 2 THEN double('-inf') "
    "WHEN 3 THEN -0.0D ELSE (id * 37 % 601) / 8D END"
)
CASES = {
    "int": Case(
        "cast(id * 37 % 601 as int)", wm.within("t", 2), "abs(l.t - r.t) <= 2",
    ),
    "bigint": Case(
        "CASE id % 50 WHEN 0 THEN 9223372036854775807L WHEN 1 THEN -9223372036854775807L "
        "ELSE id * 37 % 601 END",
        wm.band("t", -1, 3, low_open=True),
        "try_subtract(l.t, r.t) > -1 AND try_subtract(l.t, r.t) <= 3",
    ),
    "int and bigint": Case(
        "cast(id * 37 % 601 as int)", wm.within("t", 1), "abs(l.t - r.t) <= 1",
        right="id * 31 % 601",
    ),
    "double": Case(SPECIAL, wm.within("t", 0.25), "l.t - r.t >= -0.25 AND l.t - r.t <= 0.25"),
    "float": Case(
        f"cast({SPECIAL} as float)", wm.band("t", 0, 0.5, high_open=True),
        "l.t - r.t >= 0D AND l.t - r.t < 0.5D",
    ),
    "double without an end": Case(SPECIAL, wm.band("t", low=60), "l.t - r.t >= 60D"),
    "int without a lower end": Case(
        "cast(id * 37 % 601 as int)", wm.band("t", high=-590), "l.t - r.t <= -590"
    ),
    "decimal": Case(
        "cast((id * 37 % 601) * 0.01 as decimal(9,2))", wm.within("t", Decimal("0.02")),
        "abs(l.t - r.t) <= 0.02",
    ),
    "date": Case(
        "date_add(DATE'2023-12-20', cast(id * 37 % 601 as int))",
        wm.band("t", 0, timedelta(days=3)),
        "datediff(l.t, r.t) >= 0 AND datediff(l.t, r.t) <= 3",
    ),
    "timestamp": Case(  # Around the change of the clocks in Berlin.
        "timestamp_micros(1711845000000000L + (id * 37 % 601) * 20000000L)",
        wm.within("t", "40 seconds"), MICROS,
    ),
    "timestamp_ntz": Case(
        "TIMESTAMP_NTZ'2024-03-31 01:30:00' + make_dt_interval(0, 0, 0, (id * 37 % 601) * 20)",
        wm.within("t", "40 seconds"),
        "l.t - r.t BETWEEN INTERVAL '-40' SECOND AND INTERVAL '40' SECOND",
    ),
    "all equal": Case("5", wm.within("t", 0), "l.t = r.t AND l.n + r.m < 260"),
}  # fmt: skip
FAST = [("int", "left"), ("double", "right")]
ALL = [(name, how) for name in CASES for how in HOWS]


@pytest.fixture
def summer_time(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def tables(case: Case, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Rows with a value, some of them null, and a number; in two files a side."""
    left, right = (
        spark.range(first, first + ROWS, 1, 2).selectExpr(
            f"if(id % 29 = 7, NULL, {value}) AS t", f"id AS {number}"
        )
        for value, number, first in ((case.value, "n", 0), (case.right or case.value, "m", 211))
    )
    return left, right


def expected(case: Case, how: str, spark: SparkSession) -> Counter[tuple[Any, ...]]:
    columns = "l.n" if how in SPARK_TYPES else "l.n, r.m"
    return counted(
        spark.sql(
            f"SELECT {columns} FROM ranges_left l {SPARK_TYPES.get(how, how)} JOIN ranges_right r "
            f"ON {case.condition}"
        )
    )


def check(
    case: Case, how: str, spark: SparkSession, tmp_path: Path, *, path: str, instances: int
) -> str:
    """Compare with Spark's own join; returns what `explain` says."""
    left, right = tables(case, spark)
    if path == "file":
        for name, side in (("left", left), ("right", right)):
            side.write.parquet(str(tmp_path / name))
        left, right = (spark.read.parquet(str(tmp_path / name)) for name in ("left", "right"))
    left.createOrReplaceTempView("ranges_left")
    right.createOrReplaceTempView("ranges_right")
    condition = "n + m < 260" if case is CASES["all equal"] else None
    chosen = ["n"] if how in SPARK_TYPES else ["n", "m"]
    rows: Counter[tuple[Any, ...]] = Counter()
    asked = 1 if how == "full" else instances
    with wm.join(
        left, right, case.band, how, memory="32MB", instances=asked, condition=condition
    ) as run:
        for wave in run:
            rows += counted(wave.rows.select(*chosen))
        told = run.explain()
        assert run.metrics.rows_read == (ROWS, ROWS)
    assert f"{path} path" in told
    right_rows = expected(case, how, spark)
    assert right_rows.total() > 0
    assert rows == right_rows
    return told


@pytest.mark.usefixtures("summer_time", "in_waves")
@pytest.mark.parametrize(("name", "how"), FAST)
def test_a_band_alone_is_sparks_own_join(
    name: str, how: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = "row" if how == "left" else "file"
    check(CASES[name], how, spark, tmp_path, path=path, instances=3)


@pytest.mark.slow
@pytest.mark.usefixtures("summer_time", "in_waves")
@pytest.mark.parametrize("path", ["row", "file"])
@pytest.mark.parametrize(("name", "how"), ALL)
def test_every_type_and_join_type_on_both_paths(
    name: str, how: str, path: str, spark: SparkSession, tmp_path: Path
) -> None:
    check(CASES[name], how, spark, tmp_path, path=path, instances=4)


INTERVALS = {
    "a point on the left": (wm.between("t", "t", "u"), "l.t BETWEEN r.t AND r.u"),
    "a point on the right": (
        wm.between(("t", "u"), "t", high_open=True), "l.t <= r.t AND r.t < l.u"
    ),
    "two intervals": (wm.overlaps(("t", "u"), ("t", "u")), "l.t <= r.u AND r.t <= l.u"),
}  # fmt: skip


def check_intervals(name: str, how: str, spark: SparkSession, tmp_path: Path, *, path: str) -> None:
    """Lengths of four decades, some below 0, with nulls, NaN and infinity."""
    overlap, condition = INTERVALS[name]
    sides = []
    for side, number, first in (("left", "n", 0), ("right", "m", 211)):
        rows = spark.range(first, first + ROWS, 1, 2).selectExpr(
            "if(id % 29 = 7, NULL, (id * 37 % 601) * 3D) AS t",
            "CASE WHEN id % 31 = 3 THEN double('nan') WHEN id % 37 = 5 THEN double('inf') WHEN "
            "id % 41 = 2 THEN NULL ELSE (id * 37 % 601) * 3D + pow(10, id % 4 - 1) - 1 END AS u",
            f"id AS {number}",
        )
        if path == "file":
            rows.write.parquet(str(tmp_path / side))
            rows = spark.read.parquet(str(tmp_path / side))
        rows.createOrReplaceTempView(f"ranges_{side}")
        sides.append(rows)
    case = Case("", wm.within("t", 0), condition)
    chosen = ["n"] if how in SPARK_TYPES else ["n", "m"]
    instances = 1 if how == "full" else 3
    with wm.join(sides[0], sides[1], overlap, how, memory="32MB", instances=instances) as run:
        rows_found = counted(run.to_df().select(*chosen))
        assert f"{path} path" in run.explain()
    assert rows_found == expected(case, how, spark)


def test_points_in_intervals_are_sparks_own_join(spark: SparkSession, tmp_path: Path) -> None:
    check_intervals("a point on the left", "left", spark, tmp_path, path="file")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["row", "file"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", INTERVALS)
def test_all_intervals_and_join_types_on_both_paths(
    name: str, how: str, path: str, spark: SparkSession, tmp_path: Path
) -> None:
    check_intervals(name, how, spark, tmp_path, path=path)


def test_explain_says_ranges_and_copies(spark: SparkSession) -> None:
    left, right = (spark.range(0, 4000, 1, 2).selectExpr("id AS t", f"id AS {c}") for c in "nm")
    with wm.join(left, right, wm.within("t", 10), "left", instances=4) as run:
        assert "ranges of values that they have, is decided when the run begins" in words(run)
        assert run.to_df().count() == 4000 * 21 - 110
        told = words(run)
    assert "of the left table's t: below 10" in told
    assert "from 2000" in told or "from 19" in told or "from 20" in told
    assert "rows for 8,000 (1.0" in told
    assert "a row of the left table to one instance" in told


def test_a_wide_band_has_fewer_instances_and_says_so(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet.spark.tables.plan._ROWS_IN_CACHE", 40)
    left, right = (spark.range(0, 900, 1, 2).selectExpr("id AS t", f"id AS {c}") for c in "nm")
    with wm.join(left, right, wm.band("t", low=0), "semi", memory="256MB") as run:
        assert run.to_df().count() == 900
        told = words(run)
    assert f"would be sent more than {MOST_REPLICATION:.0f} times the rows" in told


def test_a_full_join_has_one_instance(spark: SparkSession) -> None:
    left, right = (spark.range(0, 50).selectExpr("id AS t", f"id AS {c}") for c in "nm")
    with wm.join(left, right, wm.within("t", 0), "full") as run:
        assert run.to_df().count() == 50
        assert "in a full join no row may be copied" in words(run)
    with pytest.raises(InvalidArgument, match=r"full join without equal keys.*instances=1"):
        wm.join(left, right, wm.within("t", 0), "full", instances=2)


def test_files_in_order_are_read_in_order_and_divided_by_their_footers(
    spark: SparkSession, tmp_path: Path, in_waves: None
) -> None:
    for name in ("left", "right"):
        rows = spark.range(0, 8000, 1, 8).selectExpr("id / 4D AS t", "id AS n")
        rows.write.parquet(str(tmp_path / name))
    left, right = (spark.read.parquet(str(tmp_path / name)) for name in ("left", "right"))
    with wm.join(left, right.where("n >= 0"), wm.within("t", 0.3)) as run:
        first = next(iter(run)).progress
        assert run.to_df().count() == 8000 * 3 - 2
        told = words(run)
    assert "chosen by the files' footers" in told
    assert "by t, on which both tables are clustered" in told
    # A fortieth of both tables in the same stretch of values has about a fortieth of the result.
    assert first.rows_out > 8000 * 3 / 40 / 2


@pytest.mark.slow
@pytest.mark.usefixtures("in_waves")
@pytest.mark.parametrize("how", ["inner", "right"])
def test_operators_that_are_built_again_give_each_row_once(how: str, spark: SparkSession) -> None:
    """Memory is so short that operators are built again from the storage in each wave."""
    left, right = (
        spark.range(0, 60_000, 1, 3).selectExpr(f"id * {odd} % 60013 AS t", f"id AS {name}")
        for odd, name in ((7919, "n"), (104_729, "m"))
    )
    with wm.join(left, right.where("m % 3 = 0"), wm.within("t", 1), how, memory="4MB") as run:
        rows: Counter[tuple[Any, ...]] = Counter()
        for wave in run:
            rows += counted(wave.rows.select("n", "m"))
        told = words(run)
    assert "built again in every wave" in told
    left.createOrReplaceTempView("ranges_left")
    # Spark's own, by an equality for each difference, since it would compare all pairs.
    spark.sql(
        "SELECT explode(array(t - 1, t, t + 1)) AS near, m FROM "
        "(SELECT id * 104729 % 60013 AS t, id AS m FROM range(60000) WHERE id % 3 = 0)"
    ).createOrReplaceTempView("ranges_near")
    pairs = spark.sql("SELECT n, m FROM ranges_left l JOIN ranges_near r ON l.t = r.near")
    pairs.createOrReplaceTempView("ranges_pairs")
    alone = spark.sql(
        "SELECT NULL AS n, id AS m FROM range(60000) WHERE id % 3 = 0 "
        "AND id NOT IN (SELECT m FROM ranges_pairs)"
    )
    assert rows == counted(pairs if how == "inner" else pairs.union(alone))


@pytest.mark.slow
def test_two_bands_are_both_kept(spark: SparkSession) -> None:
    left, right = (
        spark.range(0, 300, 1, 2).selectExpr("id AS t", f"id * {odd} % 101 AS u", f"id AS {name}")
        for odd, name in ((7, "n"), (5, "m"))
    )
    both = [wm.band("u", low=40), wm.within("t", 6)]
    with wm.join(left, right, both, instances=3) as run:
        rows = counted(run.to_df().select("n", "m"))
        assert "of the left table's t:" in words(run) or "of the right table's t:" in words(run)
    left.createOrReplaceTempView("ranges_left")
    right.createOrReplaceTempView("ranges_right")
    condition = "l.u - r.u >= 40 AND abs(l.t - r.t) <= 6"
    text = f"SELECT n, m FROM ranges_left l JOIN ranges_right r ON {condition}"
    assert rows == counted(spark.sql(text))


@pytest.mark.slow
def test_values_that_footers_do_not_tell_are_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    """Times of 96 bits, a column that is in paths only, and a table without rows."""
    moments = spark.range(0, 200, 1, 2).selectExpr("timestamp_seconds(id) AS t", "id AS n")
    before = str(spark.conf.get("spark.sql.parquet.outputTimestampType"))
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    moments.write.parquet(str(tmp_path / "moments"))
    spark.conf.set("spark.sql.parquet.outputTimestampType", before)
    old = spark.read.parquet(str(tmp_path / "moments"))
    with wm.join(old, moments, wm.within("t", "1 second"), "left", instances=3) as run:
        assert run.to_df().count() == 200 * 3 - 2
    days = spark.range(0, 200, 1, 1).selectExpr("id % 20 AS day", "id AS n")
    days.write.partitionBy("day").parquet(str(tmp_path / "days"))
    parts = spark.read.parquet(str(tmp_path / "days"))
    with wm.join(parts.select("day"), days, wm.within("day", 1), "semi", instances=3) as run:
        assert run.to_df().count() == 200
        assert "file path" in run.explain()
    none = parts.where("n < 0")
    for left, right in ((none, days), (days, none)):
        with wm.join(left, right, wm.within("day", 1), "left", instances=3) as run:
            assert run.to_df().count() == left.count()


def words(run: Any) -> str:
    """What `explain` says, as one line."""
    return " ".join(run.explain().split())
