"""Joins of many tables in one step, against Spark's cascades of joins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.streams.running import counted
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.spark.hypercube import Cube, Dimension, HypercubeRouter, dimensions_of
from watersmeet.spark.tables.run import JoinRun

pytestmark = pytest.mark.spark

ROWS = 400
# All key types of one kind of join; nulls, NaN, both zeros, padding.
TABLES = {
    "a": "SELECT nullif(id * 7 % 101, 3) AS k, cast(id % 97 AS string) AS s, id AS na",
    "b": "SELECT cast(id * 5 % 101 AS int) AS k, cast(id * 3 % 89 AS char(6)) AS c, "
    "CASE id % 40 WHEN 0 THEN double('nan') WHEN 1 THEN -0.0D ELSE (id % 91) / 4D END AS d, "
    "timestamp_micros(id * 900000) AS t, id AS nb",
    "c": "SELECT cast(id % 83 AS varchar(9)) AS c, timestamp_micros(id * 1100000) AS t, "
    "cast(id % 53 AS decimal(9,2)) AS m, id AS nc",
    "d": "SELECT CASE id % 40 WHEN 0 THEN double('nan') WHEN 1 THEN 0.0D ELSE (id % 91) / 4D END "
    "AS d, cast(id % 61 AS decimal(12,4)) AS m, id AS nd",
}
TREES: dict[str, tuple[list[str], Any, str]] = {
    "chain": (
        ["a", "b", "d"],
        ["a.k = b.k", "b.d = d.d"],
        "SELECT na, nb, nd FROM a JOIN b ON a.k = b.k JOIN d ON b.d = d.d",
    ),
    "padded texts and decimals": (
        ["b", "c", "d"],
        ["c.m = d.m", "b.c = c.c"],
        "SELECT nb, nc, nd FROM b JOIN c ON b.c = c.c JOIN d ON c.m = d.m",
    ),
    "star with a band": (
        ["a", "b", "c", "d"],
        ["a.k = b.k", "b.D = d.d", wm.within(("b.t", "c.t"), "1 second")],
        "SELECT na, nb, nc, nd FROM a JOIN b ON a.k = b.k JOIN d ON b.d = d.d "
        "JOIN c ON abs(unix_micros(b.t) - unix_micros(c.t)) <= 1000000",
    ),
    "bands alone": (
        ["b", "c"],
        wm.within(("b.t", "c.t"), "2 seconds"),
        "SELECT nb, nc FROM b JOIN c ON abs(unix_micros(b.t) - unix_micros(c.t)) <= 2000000",
    ),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Tables that Spark has written as Parquet, with several row groups."""
    folder = tmp_path_factory.mktemp("many")
    found = {}
    for name, query in TABLES.items():
        spark.sql(f"{query} FROM range({ROWS})").repartition(2).write.parquet(f"{folder}/{name}")
        schema = spark.sql(f"{query} FROM range(1)").schema
        found[name] = spark.read.schema(schema).parquet(f"{folder}/{name}")
        found[name].createOrReplaceTempView(name)
    return found


def numbers(run: JoinRun | DataFrame, names: list[str]) -> Counter[tuple[Any, ...]]:
    rows = run.to_df() if isinstance(run, JoinRun) else run
    return counted(rows.select(*(f"n{name}" for name in names)))


@pytest.mark.parametrize(
    ("tree", "instances"),
    [
        *((tree, 6) for tree in TREES),
        ("chain", None),
        *(
            pytest.param(tree, instances, marks=pytest.mark.slow)
            for tree in TREES
            for instances in (None, 1)
            if (tree, instances) != ("chain", None)
        ),
    ],
)
def test_the_result_is_that_of_a_cascade(
    spark: SparkSession, tables: dict[str, DataFrame], tree: str, instances: int | None
) -> None:
    names, on, query = TREES[tree]
    expected = numbers(spark.sql(query), names)
    with wm.join_many({name: tables[name] for name in names}, on, instances=instances) as run:
        assert numbers(run, names) == expected
    assert expected


def test_rows_of_the_row_path_and_of_files_come_in_waves(
    spark: SparkSession, tables: dict[str, DataFrame], in_waves: None
) -> None:
    names, on, query = TREES["star with a band"]
    computed = tables["b"].withColumn("extra", sf.rand(seed=1)).drop("extra").distinct()
    given = {name: computed if name == "b" else tables[name] for name in names}
    with wm.join_many(given, on, instances=4) as run:
        waves = list(run)
        assert len(waves) > 1
        assert waves[-1].progress.fraction == 1
        total = Counter[tuple[Any, ...]]()
        for wave in waves:
            total += numbers(wave.rows, names)
        text = " ".join(run.explain().split())
    assert total == numbers(spark.sql(query), names)
    assert "a.k = b.k and b.d = d.d and b.t within 1 second of c.t" in text
    assert "c rows to 4 instances each" in text
    assert "rows sent for each row read" in text
    assert "b row path" in text


def test_copies_of_staged_rows_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of unknown number are staged for a cube that turns out to be another: those that were
    copied to several cells are divided again once."""
    for name in ("a", "b"):
        rows = spark.range(0, 900).selectExpr("id % 600 AS k", f"id AS {name}")
        rows.write.parquet(str(tmp_path / name))
    left, right = (spark.read.parquet(str(tmp_path / name)) for name in ("a", "b"))
    third = spark.createDataFrame([(n % 700, n) for n in range(900)], "k bigint, c bigint")
    frames = {"left": left, "right": right, "third": third}
    own = left.join(right, left.a == right.b).join(third, right.k == third.k)
    with wm.join_many(frames, ["left.a = right.b", "right.k = third.k"]) as run:
        before = run._plan.cube
        found = run.to_df().select("a", "b", "c")
        assert run._plan.cube != before
        assert counted(found) == counted(own.select("a", "b", "c"))
        assert run.metrics.rows_read == (900, 900, 900)


def test_small_memory(spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path) -> None:
    """Operators spill, and are built again in every wave."""
    names, on, query = TREES["chain"]
    with wm.join_many(
        {name: tables[name] for name in names}, on, memory="4MB", spill_dir=tmp_path
    ) as run:
        assert numbers(run, names) == numbers(spark.sql(query), names)


def test_a_condition_and_names_of_columns(tables: dict[str, DataFrame]) -> None:
    names, on, _ = TREES["chain"]
    given = {name: tables[name] for name in names}
    with wm.join_many(given, on, condition="na < nd") as run:
        rows = run.to_df()
        assert rows.columns == ["k", "d", "s", "na", "c", "t", "nb", "m", "nd"]
        assert rows.where("na >= nd").count() == 0
        assert rows.count() > 0


def test_bad_questions_are_refused_at_the_call(tables: dict[str, Any]) -> None:
    given = {name: tables[name] for name in ("a", "b", "d")}
    with_a_list: Any = {**given, "d": [1]}
    with pytest.raises(SchemaError, match="The b input has no column 'nope'"):
        wm.join_many(given, ["a.k = b.nope", "b.d = d.d"])
    with pytest.raises(InvalidArgument, match="does not connect 'd'"):
        wm.join_many(given, ["a.k = b.k"])
    with pytest.raises(InvalidArgument, match="no Spark DataFrame"):
        wm.join_many(with_a_list, ["a.k = b.k", "b.d = d.d"])
    with pytest.raises(InvalidArgument, match="is a Column"):
        wm.join_many(given, ["a.k = b.k", "b.d = d.d"], condition=sf.col("na") > 1)
    with pytest.raises(InvalidArgument, match="mjoin"):
        wm.join_many(given, ["a.k = b.k", "b.d = d.d"], algorithm="mjoin")


# ---- the cube -----------------------------------------------------------------------------------

X, Y = pa.schema({"x": pa.int64()}), pa.schema({"y": pa.int64()})
CHAIN = (Dimension({0: X, 1: X}), Dimension({1: Y, 2: Y}))


def test_every_combination_meets_in_exactly_one_instance() -> None:
    """Rows of all inputs, brute force: the instances that the rows of a result have in common."""
    router = HypercubeRouter(Cube((3, 2)), CHAIN)
    batches = [
        pa.record_batch({"x": list(range(20))}),
        pa.record_batch({"x": [n % 20 for n in range(60)], "y": [n % 7 for n in range(60)]}),
        pa.record_batch({"y": list(range(7))}),
    ]
    places = []
    for input, batch in enumerate(batches):
        order, starts = router.group(input, batch)
        cells: list[set[int]] = [set() for _ in range(len(batch))]
        for instance in range(router.instances):
            for row in order[starts[instance] : starts[instance + 1]]:
                assert instance not in cells[row], "the same row twice in one instance"
                cells[row].add(instance)
        places.append(cells)
    assert {len(cells) for cells in places[0]} == {2}
    assert {len(cells) for cells in places[1]} == {1}
    assert {len(cells) for cells in places[2]} == {3}
    for n in range(60):
        assert len(places[0][n % 20] & places[1][n] & places[2][n % 7]) == 1


def test_rows_with_a_null_in_a_key_go_nowhere() -> None:
    router = HypercubeRouter(Cube((3, 2)), CHAIN)
    order, starts = router.group(1, pa.record_batch({"x": [1, None, 3], "y": [1, 2, None]}))
    assert order.tolist() == [0]
    assert starts[-1] == 1


def test_shares_send_as_few_rows_as_possible() -> None:
    assert Cube.of(4, [1000, 1000, 1], CHAIN).shares == (4, 1)
    assert Cube.of(4, [1, 1000, 1000], CHAIN).shares == (1, 4)
    assert Cube.of(6, [1000, 1000, 1000], (Dimension({0: X, 1: X, 2: X}),)).shares == (6,)
    assert Cube((3, 2)).sent([10, 10, 10], CHAIN) == 60


def test_columns_that_are_equal_through_others_are_one_dimension(
    tables: dict[str, DataFrame],
) -> None:
    given = {"a": tables["a"], "b": tables["b"], "e": tables["b"].select("k", "nb")}
    star = wm.join_many(given, ["a.k = b.k", "b.k = e.k"])
    chain = wm.join_many(given | {"d": tables["d"]}, ["a.k = b.k", "b.k = e.k", "b.d = d.d"])
    # a.k is compared with b.k as a long, b.k with e.k as an int: two ways to hash b.k.
    assert len(dimensions_of(star._plan.join)) == 2
    assert len(dimensions_of(chain._plan.join)) == 3
    same = wm.join_many({"b": tables["b"], "e": tables["b"], "f": tables["b"]}, "k")
    assert len(dimensions_of(same._plan.join)) == 1
    assert same._plan.cube is not None
    for run in (star, chain, same):
        run.close()
