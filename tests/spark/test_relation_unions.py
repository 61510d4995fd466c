"""Unions of plain scans are plain scans: read as Spark reads them, each branch from its files."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tests.parquet.opens import count_opens
from tests.spark import sql_types
from tests.spark.scans import assert_read_alike, plain, read, refused, rows
from watersmeet.errors import InputChanged
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.spark.scans.plan import _Node
from watersmeet.spark.scans.ranges import ends_of, facts_of, ranges_of
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.relation import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Four tables that Spark wrote: two alike, one with wider types and columns in another order,
    and one whose year is in the paths of its files."""
    folder = tmp_path_factory.mktemp("unions")
    columns = "id", "CAST(id % 7 AS int) AS k", "concat('t', id) AS text", "id / 4 AS part"
    made = {
        "a": spark.range(0, 300, 1, 3).selectExpr(*columns),
        "b": spark.range(200, 400, 1, 2).selectExpr(*columns),
        "wide": spark.range(0, 90, 1, 1).selectExpr(
            "id / 2 AS part", "CAST(id % 5 AS bigint) AS k", "CAST(id AS int) AS id",
            "CAST(id AS string) AS text",
        ),
        "years": spark.range(0, 120, 1, 1).selectExpr(*columns, "CAST(2020 + id % 3 AS int) AS y"),
    }  # fmt: skip
    for name, frame in made.items():
        writer = frame.write.partitionBy("y") if name == "years" else frame.write
        writer.parquet(str(folder / name))
    return {name: spark.read.parquet(str(folder / name)) for name in made}


Tables = dict[str, DataFrame]
UNIONS: dict[str, tuple[int, Callable[[Tables], DataFrame]]] = {
    "of two": (2, lambda t: t["a"].union(t["b"])),
    "of a table with itself": (2, lambda t: t["a"].union(t["a"])),
    "of many": (5, lambda t: reduce(DataFrame.union, [t["a"], t["b"], t["a"], t["a"], t["b"]])),
    "nested": (4, lambda t: t["a"].union(t["b"]).union(t["b"].union(t["a"].where("id < 9")))),
    "by name": (2, lambda t: t["a"].unionByName(t["b"].select("part", "text", "id", "k"))),
    "with missing columns": (
        3,
        lambda t: t["a"].drop("text").unionByName(t["b"].drop("k"), allowMissingColumns=True)
        .unionByName(t["years"], allowMissingColumns=True),
    ),
    "whose types are widened": (2, lambda t: t["a"].unionByName(t["wide"])),
    "whose first branch is widened": (2, lambda t: t["wide"].unionByName(t["a"])),
    "with a filter above": (2, lambda t: t["a"].union(t["b"]).where("id > 150 AND k <> 3")),
    "with filters below": (
        2, lambda t: t["a"].where("id < 20 OR k = 1").union(t["b"].where("text LIKE 't3%'"))
    ),
    "with filters on both levels": (
        2, lambda t: t["a"].where("k > 2").union(t["b"].where("k < 5")).where("part > 40"),
    ),
    "of other columns by their places": (
        2, lambda t: t["a"].select("id", "k").union(t["b"].selectExpr("id * 2 AS x", "k + 1 AS y"))
    ),
    "with columns above": (
        2,
        lambda t: t["a"].union(t["wide"].select("id", "k", "text", "part"))
        .selectExpr("text AS name", "k * 2 AS double", "id", "part + k AS sum").drop("id"),
    ),
    "with a filter of what is computed below": (
        2,
        lambda t: t["a"].selectExpr("id", "k * 10 AS v").union(t["b"].selectExpr("id", "k - 1"))
        .where("v > 4").selectExpr("v + id AS v"),
    ),
    "with constants": (
        2,
        lambda t: t["a"].withColumn("year", sf.lit("2024"))
        .union(t["b"].withColumn("year", sf.lit("2025"))),
    ),
    "of constants alone": (2, lambda t: t["a"].selectExpr("1 AS x").union(t["b"].selectExpr("2"))),
    "with constants and columns": (
        3,
        lambda t: t["a"].selectExpr("id", "CAST(NULL AS int) AS y")
        .union(t["b"].selectExpr("id", "7")).union(t["years"].select("id", "y")),
    ),
    "of paths and files": (
        3,
        lambda t: t["years"].select("id", "y").union(t["a"].select("id", "k"))
        .union(t["b"].selectExpr("id", "k + 2000")),
    ),
    "sorted and repartitioned": (
        2,
        lambda t: t["a"].orderBy("id").union(t["b"].repartition(3)).orderBy("part")
        .selectExpr("text", "id % 10 AS last").where("last < 7"),
    ),
    "in SQL": (
        2,
        lambda t: t["a"].sparkSession.sql(
            "SELECT id, text FROM {a} UNION ALL SELECT k, text FROM {b} WHERE k IN (1, 2)",
            a=t["a"], b=t["b"],
        ),
    ),
    "below a union": (
        3,
        lambda t: t["a"].union(t["b"]).selectExpr("id + 1 AS id", "k").where("id % 2 = 0")
        .union(t["wide"].selectExpr("CAST(id AS bigint)", "CAST(k AS int)")).where("k > 0"),
    ),
    "that lost its empty branches": (
        1,
        lambda t: t["b"].limit(0).union(t["a"]).union(t["b"].where("1 = 0")),
    ),
    "whose constants a filter tells apart": (
        1,
        lambda t: t["a"].withColumn("year", sf.lit(2024))
        .union(t["b"].withColumn("year", sf.lit(2025))).where("year = 2025"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNIONS)
def test_a_union_is_read_as_spark_reads_it(tables: Tables, name: str) -> None:
    branches, make = UNIONS[name]
    scan = assert_read_alike(make(tables))
    assert len(scan.selections) == branches
    sent = pickle.loads(pickle.dumps(scan))
    assert read(sent).equals(read(scan))
    for column in scan.schema.names:
        assert rows(read(scan.only([column]))) == rows(read(scan).select([column]))


# With them Spark leaves little above a union, and no union in another.
RULES = ["PushProjectionThroughUnion", "PushDownPredicates", "CombineUnions", "ColumnPruning"]
ABOVE = ["nested", "with a filter above", "with filters on both levels", "with columns above",
         "with a filter of what is computed below", "below a union"]  # fmt: skip


def test_what_spark_leaves_above_a_union_is_done_to_each_branch(
    spark: SparkSession, tables: Tables
) -> None:
    rules = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in RULES)
    tops = []
    with sql_types.settings(spark, optimizer__excludedRules=rules):
        for name in ABOVE:
            branches, make = UNIONS[name]
            frame = make(tables)
            assert len(assert_read_alike(frame).selections) == branches, name
            plan: Any = frame._jdf.queryExecution().optimizedPlan()
            tops.append(plan.getClass().getSimpleName())
    assert {"Project", "Filter"} & set(tops)


def test_a_union_says_what_it_is(tables: Tables) -> None:
    a, b = tables["a"], tables["b"]
    told = plain(a.union(b).where("id > 250")).describe()
    assert told.startswith("a union of 2 branches, 5 Parquet files, ")
    assert told.endswith(" rows, filter ((id IS NOT NULL) AND (id > 250L))")
    marked = [
        frame.selectExpr("id", f"'{n}' AS n").where(f"id <> {n}") for n, frame in enumerate([a, b])
    ]
    told = plain(marked[0].union(marked[1])).describe()
    assert "(NOT (id = 0L))) in branch 1, n computed as '0' in branch 1, filter" in told
    assert told.endswith("(NOT (id = 1L))) in branch 2, n computed as '1' in branch 2")
    many = [a.selectExpr(f"id + {n % 9} AS id") for n in range(40)]
    told = plain(reduce(DataFrame.union, many)).describe()
    assert "id computed as (id + 1L) in 5 branches, " in told
    assert told.endswith(", and 2 more filters and columns")


def test_files_of_several_branches_have_places_of_their_own(tables: Tables) -> None:
    scan = plain(tables["a"].union(tables["b"]).union(tables["a"]))
    assert [Counter(scan.branches)[n] for n in range(3)] == [3, 2, 3]
    assert len({(group.file, group.number) for group in scan.row_groups}) == 8
    assert scan.rows == 800


def test_a_file_that_is_in_several_branches_is_opened_once(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = tables["a"]
    opens = count_opens(monkeypatch)
    plain(a.where("id % 2 = 0").union(a.where("k = 1").selectExpr("id + k", "k", "text", "part")))
    assert len(opens) == 3
    assert set(opens.values()) == {1}


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_many_branches_are_a_plain_scan(spark: SparkSession, tmp_path: Path, count: int) -> None:
    frames = []
    for number in range(count):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": range(number, number + 3)}), path)
        frame = spark.read.schema("id bigint").parquet(str(path))
        frames.append(frame.withColumn("year", sf.lit(number)))
    scan = assert_read_alike(reduce(DataFrame.union, frames))
    assert len(scan.selections) == len(scan.files) == count


# -- What branches need not have in common -------------------------------------------------------


def test_what_paths_say_rules_out_files_of_their_branch_alone(tables: Tables) -> None:
    both = tables["years"].union(tables["a"].selectExpr("*", "k + 2018 AS y")).where("y = 2021")
    scan = assert_read_alike(both)
    assert {file.partition for file in scan.files} == {(2021,), ()}
    assert Counter(scan.branches) == {0: 1, 1: 3}


def test_what_footers_say_is_asked_of_each_branch(tables: Tables) -> None:
    scan = plain(tables["a"].select("id").union(tables["b"].selectExpr("id + 1000")))
    known = ranges_of(scan, "id")
    assert set(known[:3]) == {(0, 99), (100, 199), (200, 299)}
    assert known[3:] == [None, None]
    # The same numbers in wider types.
    scan = plain(tables["wide"].select("id", "k").union(tables["b"].select("id", "k")))
    assert Counter(ranges_of(scan, "id")) == Counter([(0, 89), (200, 299), (300, 399)])
    assert facts_of(scan, "k").extremes == (0.0, 6.0)
    assert ranges_of(plain(tables["a"].selectExpr("try_cast(id AS tinyint) AS t")), "t")[0] is None
    three = (
        tables["years"].selectExpr("y", "id").where("y > 2020")
        .union(tables["a"].selectExpr("CAST(id AS int)", "id"))
        .union(tables["b"].selectExpr("k", "7L"))
        .union(tables["b"].selectExpr("k + 1", "CAST(NULL AS bigint)"))
    )  # fmt: skip
    scan = plain(three)
    ends = ends_of(scan, "y")
    assert Counter(ends[:2]) == Counter([(2021, 2021), (2022, 2022)])
    assert ends[2:] == [None, None, None, (0, 6), (0, 6), None, None]
    assert ends_of(scan, "id")[5:] == [(7, 7), (7, 7), None, None]
    facts = facts_of(scan, "id")
    assert facts.nulls.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert facts.extremes == (0.0, 299.0)


def test_days_in_paths_and_in_files_are_compared_as_days(
    spark: SparkSession, tmp_path: Path
) -> None:
    days = spark.range(6).selectExpr("id", "date_add(DATE'2024-02-28', CAST(id AS int)) AS day")
    days.write.partitionBy("day").parquet(str(tmp_path / "paths"))
    days.coalesce(1).write.parquet(str(tmp_path / "files"))
    frames = [spark.read.parquet(str(tmp_path / name)) for name in ("paths", "files")]
    scan = assert_read_alike(frames[0].union(frames[1]))
    facts = facts_of(scan, "day")
    assert facts.days
    assert (facts.least.min(), facts.most.max()) == (facts.least[-1], facts.most[-1])


@pytest.fixture(scope="module")
def typed(spark: SparkSession) -> Iterator[str]:
    sql_types.write_tables(spark, "united")
    yield "united"
    spark.sql("DROP DATABASE united CASCADE")


# Of the types that a DataFrame may have, those that are left to Spark for another reason.
LEFT_TO_SPARK = {
    *("collated", "trimmed", "days", "hours", "seconds", "struct_of_char", "array_of_char"),
    *sql_types.REFUSED_PAYLOADS,
}


def test_unions_of_every_type_are_read_as_spark_reads_them(spark: SparkSession, typed: str) -> None:
    names = [name for name in sql_types.TYPES if name not in LEFT_TO_SPARK]
    lefts, rights = (spark.table(f"{typed}.{name}") for name in ("lefts", "rights"))
    for frame in (
        lefts.select("id", *names).union(rights.select("id", *names)),
        lefts.select("id", *names).unionByName(rights.select("id"), allowMissingColumns=True),
    ):
        assert len(assert_read_alike(frame).selections) == 2


# Types of two branches -> whether what makes one of them is computed outside Spark.
MIXED = {
    ("int", "bigint"): True,
    ("tinyint", "smallint"): True,
    ("float", "double"): True,
    ("bigint", "double"): True,
    ("decimal_small", "decimal_finer"): True,
    ("int", "decimal"): True,
    ("char", "char_longer"): True,
    ("char", "varchar"): True,
    ("varchar_longer", "string"): True,
    ("date", "timestamp"): True,
    ("timestamp", "timestamp_ntz"): True,
    ("double", "decimal"): True,
    ("int", "string"): False,
    ("date", "string"): False,
    ("boolean", "string"): False,
}


@pytest.mark.parametrize(("first", "second"), MIXED)
def test_types_that_spark_casts_are_cast_alike_or_left_to_it(
    spark: SparkSession, typed: str, first: str, second: str
) -> None:
    for one, other in [(first, second), (second, first)]:
        frame = (
            spark.table(f"{typed}.lefts")
            .selectExpr("id", f"{one} AS v")
            .union(spark.table(f"{typed}.rights").selectExpr("id", f"{other} AS v"))
        )
        if MIXED[first, second]:
            assert_read_alike(frame)
        else:
            place = [one, other].index("string") + 1
            assert refused(frame).startswith(f"branch {place} of 2 in its union is not read")


def test_days_are_no_moments_in_other_time_zones(spark: SparkSession, typed: str) -> None:
    table = spark.table(f"{typed}.lefts")
    with sql_types.settings(spark, session__timeZone="Europe/Berlin"):
        told = refused(table.selectExpr("timestamp AS v").union(table.selectExpr("date AS v")))
    assert told.startswith("branch 2 of 2 in its union is not read from its files: column 'v' is")


def test_fields_of_other_names_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    for name in "xy":
        spark.sql(f"SELECT named_struct('{name}', 1) AS s").write.parquet(str(tmp_path / name))
    frames = [spark.read.parquet(str(tmp_path / name)) for name in "xy"]
    told = refused(frames[0].union(frames[1]))
    assert told.startswith("branch 2 of 2 in its union is not read from its files: ")


# -- What is no union of plain scans -------------------------------------------------------------


def test_one_branch_that_is_no_plain_scan_is_named(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    a, b = tables["a"].select("id"), tables["b"].select("id")
    a.write.orc(str(tmp_path / "orc"))
    other = spark.read.orc(str(tmp_path / "orc"))
    told = "branch {} of {} in its union is not read from its files: {}".format
    assert refused(a.union(b).union(other)) == told(3, 3, "its format is ORC, not plain Parquet")
    assert refused(other.union(a)) == told(1, 2, "its format is ORC, not plain Parquet")
    assert refused(a.union(b.groupBy("id").count().select("id"))) == told(
        2, 2, "its plan has a node Aggregate"
    )
    assert refused(a.union(b.limit(3))) == told(2, 2, "its plan has a node GlobalLimit")
    assert refused(a.union(spark.range(3).toDF("id"))) == told(2, 2, "its plan has a node Range")
    assert refused(a.union(b.selectExpr("hash(id) + 0L"))).startswith(
        told(2, 2, "column '(hash(id) + 0)' is computed with hash(")
    )
    assert refused(a.union(b).where("hash(id) > 0")).startswith(told(1, 2, "the filter "))
    assert refused(a.union(b.where("rand() > 0.5"))).startswith(told(2, 2, "the filter "))


def test_unions_that_drop_rows_are_left_to_spark(tables: Tables) -> None:
    a, b = tables["a"], tables["b"]
    assert refused(a.union(b).distinct()) == "its plan has a node Aggregate"
    spark = a.sparkSession
    united = spark.sql("SELECT id FROM {a} UNION SELECT id FROM {b}", a=a, b=b)
    assert refused(united) == "its plan has a node Aggregate"
    assert refused(a.exceptAll(b)).startswith("its plan has a node ")
    assert refused(a.union(b).limit(3)) == "its plan has a node GlobalLimit"


def test_a_cached_branch_is_left_to_spark(tables: Tables) -> None:
    cached = tables["b"].where("id > 250").cache()
    try:
        told = refused(tables["a"].union(cached))
        assert told == "branch 2 of 2 in its union is not read from its files: it is cached"
        # Spark takes cached rows for every plan that has the same one in it.
        assert refused(tables["a"].union(tables["b"].where("id > 250"))) == told
    finally:
        cached.unpersist(blocking=True)
    assert_read_alike(tables["a"].union(tables["b"].where("id > 250")))


def test_a_file_that_cannot_be_read_is_told_with_its_branch(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": ["text"]}), tmp_path / "data.parquet")
    other = spark.read.schema("id bigint").parquet(str(tmp_path))
    told = "branch 2 of 3 in its union is not read from its files: "
    united = tables["a"].select("id").union(other).union(other)
    assert refused(united).startswith(f"{told}column 'id' is BYTE_ARRAY")
    (tmp_path / "data.parquet").write_bytes(b"PAR1 and nothing else")
    assert refused(united.select("id")).startswith(f"{told}{tmp_path}")


def test_a_plan_that_is_very_deep_is_left_to_spark() -> None:
    class Deep:
        """A plan as py4j would show it, without an end."""

        def __getattr__(self, name: str) -> Any:
            names = {"getName": "org.apache.spark.sql.catalyst.plans.logical.Sort"}
            return lambda: names.get(name, self)

    with pytest.raises(Refused, match="more than 100 nodes deep"):
        _Node.of(Deep())


# -- While they are read -------------------------------------------------------------------------


def test_a_changed_file_of_one_branch_gives_an_error_and_no_row(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "data.parquet")
    scan = plain(tables["a"].select("id").union(spark.read.parquet(str(tmp_path))))
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "data.parquet")
    for group in scan.row_groups:
        split = Split(group.file, group.number, 0, group.rows)
        batches = scan.read(split, batch_rows=10)
        if scan.branches[group.file] == 0:
            assert sum(batch.num_rows for batch in batches) == 100
        else:
            with pytest.raises(InputChanged, match=r"data\.parquet has changed"):
                next(batches)


def test_what_fails_in_one_branch_names_its_expression(tables: Tables) -> None:
    scan = plain(tables["a"].select("part").union(tables["b"].selectExpr("12 / (id - 200)")))
    with pytest.raises(ArithmeticFailed, match=r"12.* / .*id.* cannot be computed"):
        read(scan)
