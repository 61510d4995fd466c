"""Every type of Spark SQL, from tables that Spark wrote, as key and as payload of a join."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.crossing import crossed
from tests.spark.sql_types import (
    PATHS,
    REFUSED_KEYS,
    REFUSED_PAYLOADS,
    TYPES,
    assert_as_spark,
    columns,
    settings,
    side,
    texts,
    write_tables,
)

pytestmark = pytest.mark.spark

DATABASE = "every_type"
LEFTS, RIGHTS = f"{DATABASE}.lefts", f"{DATABASE}.rights"


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    write_tables(spark, DATABASE)
    yield
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


# As keys these are in test_join_types.py, too, with more values.
ELSEWHERE = (
    "tinyint", "smallint", "int", "decimal_small", "decimal", "decimal_whole", "string", "binary",
    "date", "timestamp_ntz", "seconds",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ELSEWHERE else ())
        for name in TYPES
        if name not in REFUSED_KEYS
    ],
)
def test_a_key_of_every_type(spark: SparkSession, name: str) -> None:
    left, right = side(spark, LEFTS, name), side(spark, RIGHTS, name)
    assert_as_spark(left, PATHS["row path"](right), "k", "full")


@pytest.mark.parametrize("name", REFUSED_KEYS)
def test_a_key_that_cannot_be_compared_is_refused_at_the_call(
    spark: SparkSession, name: str
) -> None:
    left, right = side(spark, LEFTS, name), side(spark, RIGHTS, name)
    with pytest.raises(wm.errors.SchemaError, match=REFUSED_KEYS[name]):
        wm.join(left, right, "k")
    with pytest.raises(wm.errors.SchemaError):
        wm.aggregate(left, right, "k", n=wm.count())


@pytest.mark.parametrize(("how", "path"), crossed(["inner", "full", "semi", "anti"], PATHS))
def test_payload_of_every_type(spark: SparkSession, path: str, how: str) -> None:
    left = PATHS[path](spark.table(LEFTS).drop(*REFUSED_PAYLOADS))
    renamed = [f"{name} AS {name}2" for name in TYPES if name not in REFUSED_PAYLOADS]
    right = PATHS[path](spark.table(RIGHTS).selectExpr("id + 1 AS id", *renamed))
    spelled = {"semi": "left_semi", "anti": "left_anti"}.get(how, how)
    own = left.join(right, "id", spelled)
    with wm.join(left, right, "id", how, instances=1) as run:
        ours = run.to_df()
        assert columns(ours) == columns(own)
        assert texts(ours) == texts(own)


@pytest.mark.parametrize("name", sorted(REFUSED_PAYLOADS))
def test_payload_that_would_change_is_refused_at_the_call(spark: SparkSession, name: str) -> None:
    left = side(spark, LEFTS, name).withColumnRenamed("lefts_id", "id")
    with pytest.raises(wm.errors.SchemaError, match="would not come back"):
        wm.join(left, spark.table(RIGHTS).select("id"), "id")


TEXTS = ["char", "char_longer", "string", "varchar", "varchar_longer"]


@pytest.mark.parametrize("pair", [("char", "char_longer"), ("char_longer", "varchar")], ids=str)
@pytest.mark.parametrize("padded", ["true", "false"])
def test_texts_of_different_types_are_compared_as_spark_does(
    spark: SparkSession, pair: tuple[str, str], padded: str
) -> None:
    with settings(spark, readSideCharPadding=padded):
        left, right = side(spark, LEFTS, pair[0]), side(spark, RIGHTS, pair[1])
        assert_as_spark(left, right, "k", "full")
        own = left.join(right, "k").count()
        with wm.aggregate(left, right, "k", n=wm.count()) as run:
            assert run.exact().answer.to_pylist() == [{"n": own}]


def test_a_char_key_groups_by_the_left_sides_text(spark: SparkSession) -> None:
    left, right = side(spark, LEFTS, "char"), side(spark, RIGHTS, "char_longer")
    own = left.join(right, "k").groupBy("k").count()
    with wm.aggregate(left, right, "k", group_by="k", count=wm.count()) as run:
        assert texts(run.to_df(run.exact())) == texts(own)


def test_an_aggregate_does_not_compare_a_char_column_by_itself(spark: SparkSession) -> None:
    left, right = side(spark, LEFTS, "char"), side(spark, RIGHTS, "char_longer")
    with pytest.raises(wm.errors.SchemaError, match=r"is char\(3\), and Spark pads"):
        wm.aggregate(left, right, "k", where="k = 'ab'", n=wm.count())
    with pytest.raises(wm.errors.SchemaError, match=r"is char\(3\), and Spark pads"):
        wm.aggregate(left, right, "k", n=wm.sum("CASE WHEN k IN ('1', 'ab') THEN 1 END"))


def test_a_comparison_that_depends_on_ansi_mode_is_sparks_or_refused(spark: SparkSession) -> None:
    left, right = side(spark, LEFTS, "int"), side(spark, RIGHTS, "float")
    assert_as_spark(left, right, "k", "inner")
    with settings(spark, ansi__enabled="false"):
        assert left.join(right, "k").count() == 3  # 16777217 = 16777216 in 24 bits
        with pytest.raises(wm.errors.SchemaError, match="as float, where watersmeet"):
            wm.join(left, right, "k")
        with pytest.raises(wm.errors.SchemaError, match="as float, where watersmeet"):
            wm.aggregate(left, right, "k", n=wm.count())


NAMES = ["a.b", "a b", "a`b", "`", "UPPER", "select", "ünï", "a-b", "a.b`c d"]


@pytest.mark.parametrize("path", PATHS)
def test_a_column_may_have_any_name(spark: SparkSession, path: str) -> None:
    quoted = ["`" + name.replace("`", "``") + "`" for name in NAMES]
    left = spark.table(LEFTS).select(*(sf.col("id").alias(name) for name in NAMES))
    left.write.mode("overwrite").saveAsTable(f"{DATABASE}.named")
    frame = PATHS[path](spark.table(f"{DATABASE}.named"))
    other = PATHS[path](spark.table(f"{DATABASE}.named").select(*quoted[:3]))
    own = frame.join(other, NAMES[:3])
    with wm.join(frame, other, NAMES[:3], instances=2, condition=f"{quoted[3]} >= 1") as run:
        assert columns(run.to_df()) == columns(own)
        assert texts(run.to_df()) == texts(own.where(f"{quoted[3]} >= 1"))
    with wm.aggregate(frame, other, NAMES[:3], group_by=NAMES[2], count=wm.count()) as counted:
        found = counted.to_df(counted.exact())
        assert texts(found) == texts(own.groupBy(quoted[2]).count())


def test_partitions_and_defaults(spark: SparkSession) -> None:
    table = f"{DATABASE}.parted"
    spark.sql(
        f"CREATE TABLE {table} (x int, c char(4), d date) USING parquet PARTITIONED BY (c, d)"
    )
    spark.sql(
        f"INSERT INTO {table} VALUES (1, 'ab', DATE'2024-01-01'), (2, NULL, DATE'2024-01-02'), "
        "(3, 'ab', NULL), (4, 'abcd', DATE'2024-01-02')"
    )
    spark.sql(f"ALTER TABLE {table} ADD COLUMN (late string DEFAULT 'old')")
    spark.sql(f"INSERT INTO {table} (x, late, c, d) VALUES (5, 'new', 'ab', DATE'2024-01-02')")
    other = spark.sql(
        "SELECT 'ab  ' AS c, DATE'2024-01-02' AS d, 'new' AS late "
        "UNION ALL SELECT 'ab', NULL, 'old'"
    )
    frame = spark.table(table)
    for key in ("c", "d", "late"):
        assert_as_spark(frame, other.select(key), key, "full")


def test_aggregates_count_with_keys_of_every_type(spark: SparkSession) -> None:
    """Several keys at once, all of which must be equal."""
    names = [name for name in TYPES if name not in REFUSED_KEYS and "struct" not in name]
    left = spark.table(LEFTS).select("id", *names)
    right = spark.table(RIGHTS).select(*names)
    own = left.join(right, names).count()
    assert own == 2
    for path in PATHS.values():
        with wm.aggregate(path(left), path(right), names, n=wm.count()) as run:
            assert run.exact().answer.to_pylist() == [{"n": own}]


PAIRS = [(a, b) for place, a in enumerate(TYPES) for b in list(TYPES)[place:]]
MODES = {
    "as set": {},
    "no ANSI": {"ansi__enabled": "false"},
    "unpadded": {"readSideCharPadding": "false"},
    "zoned": {"session__timeZone": "America/New_York"},
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_any_two_types_are_compared_as_spark_does_or_refused(
    spark: SparkSession, mode: str
) -> None:
    refused, compared = set(), set()
    with settings(spark, **MODES[mode]):
        for a, b in PAIRS:
            left, right = side(spark, LEFTS, a), side(spark, RIGHTS, b)
            for how in ("full", "left"):
                try:
                    wm.join(left, right, "k", how).close()
                except wm.errors.WatersmeetError:
                    refused.add((a, b))
                    continue
                refused.discard((a, b))
                compared.add((a, b))
                assert_as_spark(left, right, "k", how)
                break
    assert len(compared) > 60
    assert len(refused) > 100


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
@pytest.mark.parametrize("paths", [("file path", "file path"), ("row path", "row path")], ids=str)
def test_a_key_of_every_type_in_every_join(
    spark: SparkSession, how: str, paths: tuple[str, str]
) -> None:
    for name in TYPES:
        if name not in REFUSED_KEYS:
            left = PATHS[paths[0]](side(spark, LEFTS, name))
            right = PATHS[paths[1]](side(spark, RIGHTS, name))
            assert_as_spark(left, right, "k", how)
