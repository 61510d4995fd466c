"""Random plans, most of which only Spark can compute: the rows of its own join, always."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.sql_types import texts
from watersmeet.policies.order import random_order
from watersmeet.spark.tables import partitions as partitions_of_sides
from watersmeet.spark.tables.inputs import PartitionInput
from watersmeet.spark.tables.partitions import StagedPartitions
from watersmeet.spark.tables.run import JoinRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS, PARTITIONS = 720, 12
# Lines of CSV files that only Spark reads.
STRANGE = ["+5,7", '"6",8,more', "7", "x,9", "1e2,3"]
HOWS = {"inner": "inner", "left": "left", "full": "full", "semi": "left_semi", "anti": "left_anti"}


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plans")
    rows = numbered(spark)
    for form in ("parquet", "csv", "orc"):
        rows.write.format(form).save(str(made / form))
    few = spark.range(0, 90, 1, 1).selectExpr("id", "CAST(id % 4 AS int) AS k")
    few.write.partitionBy("k").parquet(str(made / "paths"))
    (made / "lines").mkdir()
    for number, file in enumerate(sorted((made / "csv").glob("*.csv"))):
        strange = STRANGE[number % len(STRANGE) :: 2]
        (made / f"lines/{number}.csv").write_text("\n".join([*strange, file.read_text()]))
    return made


def numbered(spark: SparkSession) -> DataFrame:
    """Rows whose partitions nobody changes: where a row is decides its random number."""
    return spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id", "CAST(id * 7 % 100 AS int) AS k")


def others(spark: SparkSession) -> DataFrame:
    return spark.range(0, 240, 1, 3).selectExpr("CAST(id % 120 AS int) AS k", "id AS other")


def first_of_each(rows: DataFrame) -> DataFrame:
    place = sf.row_number().over(Window.partitionBy("k").orderBy("id"))
    return rows.withColumn("place", place).where("place <= 3").drop("place")


Step = Callable[["DataFrame"], "DataFrame"]
# Which rows a sample has depends on the partitions, so it comes before what divides rows anew.
FIRST: dict[str, Step] = {
    "sample": lambda rows: rows.sample(fraction=0.6, seed=11),
    "seeded": lambda rows: rows.where(sf.rand(seed=3) > 0.3),
    "all": lambda rows: rows,
}
STEPS: dict[str, Step] = {
    "filter": lambda rows: rows.where("id % 3 <> 1"),
    "projection": lambda rows: rows.selectExpr("id + 1 AS id", "k"),
    "sqrt": lambda rows: rows.where("cbrt(id) < 8"),
    "union": lambda rows: rows.union(rows.selectExpr("id + 10000", "(k + 1) % 100")),
    "udf": lambda rows: rows.withColumn("k", sf.udf(lambda k: (k * 3) % 100, "int")("k")),
    "udf by Spark": lambda rows: rows.where(
        sf.udf(lambda k: k != 7, "boolean", useArrow=False)("k")
    ),
    "window": first_of_each,
    "limit": lambda rows: rows.orderBy("id", "k").limit(300),
    "distinct": lambda rows: rows.distinct(),
    "exploded": lambda rows: rows.select(sf.explode(sf.array("id", sf.lit(5))).alias("id"), "k"),
    "repartition": lambda rows: rows.repartition(9, "id"),
    "cache": lambda rows: rows.cache(),
}


def planned(spark: SparkSession, places: Path, chosen: random.Random) -> tuple[str, DataFrame]:
    """A plan, and its steps in words."""
    source = chosen.choice(["numbers", "parquet", "csv", "orc"])
    if source == "numbers":
        first = chosen.choice(list(FIRST))
        rows = FIRST[first](numbered(spark))
        source = f"numbers, {first}"
    else:
        reader = spark.read.schema("id bigint, k int").format(source)
        if source == "csv" and chosen.random() < 0.5:
            source, reader = "csv by Spark", reader.option("maxColumns", 20480)
        rows = reader.load(str(places / source.split()[0]))
    steps = chosen.sample(list(STEPS), chosen.randint(1, 4))
    for step in steps:
        rows = STEPS[step](rows)
    return ", ".join([source, *steps]), rows


# What our tasks do to the rows of files themselves, below unions and above them.
PLAIN: dict[str, Step] = {
    "filter": lambda rows: rows.where("id % 3 <> 1"),
    "keys": lambda rows: rows.where("k BETWEEN 1 AND 70 OR k IS NULL"),
    "projection": lambda rows: rows.selectExpr("id + 1 AS id", "k"),
    "computed": lambda rows: rows.selectExpr("id", "CAST(id * 3 % 100 AS int) AS k"),
    "wider": lambda rows: rows.selectExpr("id", "CAST(k AS bigint) AS k"),
    "nulls": lambda rows: rows.selectExpr("id", "IF(id % 11 = 0, NULL, k) AS k"),
    "called": lambda rows: rows.withColumn(
        "k", sf.udf(lambda k: None if k is None else (k * 7) % 100, "int")("k")
    ),
    "constant": lambda rows: rows.withColumn("id", sf.lit(8).cast("bigint")),
    "key": lambda rows: rows.selectExpr("id", "5 AS k"),
    "missing": lambda rows: rows.select("k"),
    "order": lambda rows: rows.orderBy("id"),
    "repartition": lambda rows: rows.repartition(5),
}


def united(spark: SparkSession, places: Path, chosen: random.Random) -> tuple[str, DataFrame]:
    """A union of scans, or of such unions, and its steps in words."""
    told, rows = _branch(spark, places, chosen)
    for _ in range(chosen.randint(1, 3)):
        nested = united if chosen.random() < 0.2 else _branch
        words, branch = nested(spark, places, chosen)
        told, rows = f"{told} + ({words})", rows.unionByName(branch, allowMissingColumns=True)
    if "id" not in rows.columns:
        rows = rows.withColumn("id", sf.lit(9).cast("bigint"))
    return _steps(told, rows, chosen, without="missing")


def _branch(spark: SparkSession, places: Path, chosen: random.Random) -> tuple[str, DataFrame]:
    source = chosen.choice(["parquet", "parquet", "paths", "csv", "lines"])
    if source in ("csv", "lines"):
        rows = spark.read.schema("id bigint, k int").csv(str(places / source))
    else:
        rows = spark.read.parquet(str(places / source))
    return _steps(source, rows, chosen)


def _steps(
    told: str, rows: DataFrame, chosen: random.Random, without: str = ""
) -> tuple[str, DataFrame]:
    # Last, since others look at what is missing then.
    names = [name for name in PLAIN if name not in ("missing", without)]
    steps = chosen.sample(names, chosen.randint(0, 3))
    if without != "missing" and chosen.random() < 0.15:
        steps.append("missing")
    for step in steps:
        rows = PLAIN[step](rows)
    return ", ".join([told, *steps]), rows


@pytest.fixture
def uncached(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


@pytest.mark.usefixtures("in_waves", "uncached")
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))]
)
def test_a_random_plan_in_waves(spark: SparkSession, places: Path, seed: int) -> None:
    chosen = random.Random(seed)
    told, left = planned(spark, places, chosen)
    how, right = chosen.choice(list(HOWS)), others(spark)
    with wm.join(left, right, "k", how, seed=seed) as run:
        found = [text for wave in run for text in texts(wave.rows)]
    assert sorted(found) == texts(left.join(right, "k", HOWS[how])), f"{how}: {told}"


@pytest.mark.usefixtures("small", "uncached")
@pytest.mark.parametrize(
    "seed",
    [*range(50, 54), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(54, 90))],
)
def test_a_random_plan_that_is_small(spark: SparkSession, places: Path, seed: int) -> None:
    chosen = random.Random(seed)
    told, left = planned(spark, places, chosen)
    how, right = chosen.choice(list(HOWS)), others(spark)
    with wm.join(left, right, "k", how, seed=seed) as run:
        found = run.to_df() if chosen.random() < 0.5 else next(iter(run)).rows
        assert texts(found) == texts(left.join(right, "k", HOWS[how])), f"{how}: {told}"
        words = " ".join(run.explain().split())
        # The driver calls no function of the user's.
        assert ("in the driver's process" in words) != ("computed as <lambda>" in words), told


def assert_united_alike(run: JoinRun, rows: list[str], own: DataFrame, told: str) -> None:
    assert sorted(rows) == texts(own), told
    words = " ".join(run.explain().split())
    # Spark leaves out a branch of which it sees that it has no row.
    assert "left file path: " in words, f"{told}: {words}"


@pytest.fixture
def all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV files are on the file path however many of their lines are not plain."""
    monkeypatch.setattr("watersmeet.spark.scans.text_plan._MOST_REFUSED", 1.0)


@pytest.mark.usefixtures("in_waves", "all_lines")
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))]
)
def test_a_random_union_in_waves(spark: SparkSession, places: Path, seed: int) -> None:
    chosen = random.Random(seed)
    told, left = united(spark, places, chosen)
    how, right = chosen.choice(list(HOWS)), others(spark)
    with wm.join(left, right, "k", how, seed=seed) as run:
        found = [text for wave in run for text in texts(wave.rows)]
        assert_united_alike(run, found, left.join(right, "k", HOWS[how]), f"{how}: {told}")


@pytest.mark.usefixtures("small", "all_lines")
@pytest.mark.parametrize(
    "seed",
    [*range(40, 43), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(43, 90))],
)
def test_a_random_union_that_is_small(spark: SparkSession, places: Path, seed: int) -> None:
    chosen = random.Random(seed)
    told, left = united(spark, places, chosen)
    how, right = chosen.choice(list(HOWS)), others(spark)
    with wm.join(left, right, "k", how, seed=seed) as run:
        own = left.join(right, "k", HOWS[how])
        assert_united_alike(run, texts(run.to_df()), own, f"{how}: {told}")


# ---- mistakes that would be noticed --------------------------------------------------------


def a_partition_joined_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wave begins with the last partition of the one before."""

    def staged(self: PartitionInput, wave: int) -> list[Any]:
        start, stop = self._waves[wave]
        self._partitions.stage(stop)
        return self._partitions.files(max(start - 1, 0), stop)

    monkeypatch.setattr(PartitionInput, "staged", staged)


def a_partition_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last wave ends before the last partition."""

    def staged(self: PartitionInput, wave: int) -> list[Any]:
        start, stop = self._waves[wave]
        self._partitions.stage(stop)
        return self._partitions.files(start, min(stop, PARTITIONS - 1))

    monkeypatch.setattr(PartitionInput, "staged", staged)


def records_in_the_order_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave takes partitions by their numbers where they lie in the order of their turns."""

    def files(self: StagedPartitions, start: int, stop: int) -> list[Any]:
        turns = [self.order.index(n) for n in range(start, min(stop, self.count))]
        return [file for turn in turns if turn < len(self._files) for file in self._files[turn]]

    monkeypatch.setattr(StagedPartitions, "files", files)


def computed_again_for_each_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = StagedPartitions.stage

    def stage(self: StagedPartitions, count: int) -> None:
        self._files = []
        whole(self, count)

    monkeypatch.setattr(StagedPartitions, "stage", stage)


def counted(spark: SparkSession) -> tuple[DataFrame, Any]:
    """Rows with a function that counts how often it is called."""
    calls = spark.sparkContext.accumulator(0)

    # Without annotations, by which Spark would choose how it is called.
    def called(id):  # type: ignore[no-untyped-def]
        calls.add(1)
        return id

    counting = sf.udf(called, "bigint").asNondeterministic()
    return numbered(spark).withColumn("id", counting("id")), calls


@pytest.mark.usefixtures("in_waves")
@pytest.mark.parametrize(
    "mistake",
    [
        None,
        a_partition_joined_twice,
        pytest.param(a_partition_forgotten, marks=pytest.mark.slow),
        pytest.param(records_in_the_order_of_numbers, marks=pytest.mark.slow),
        computed_again_for_each_wave,
    ],
)
def test_a_partition_is_computed_and_joined_once(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    left, calls = counted(spark)
    right = others(spark)
    own = texts(numbered(spark).join(right, "k", "left"))
    if mistake is not None:
        mistake(monkeypatch)
    with wm.join(left, right, "k", "left") as run:
        found = sorted(text for wave in run for text in texts(wave.rows))
    assert (found == own and calls.value == ROWS) == (mistake is None)


def are_random(orders: list[list[int]]) -> bool:
    """Whether every partition comes early about as often as others, beside others each time."""
    count, early = len(orders[0]), len(orders[0]) // 4
    often = [sum(n in order[:early] for order in orders) for n in range(count)]
    usual = len(orders) * early / count
    neighbours = sum(b - a == 1 for order in orders for a, b in pairwise(order))
    apart = neighbours < 3 * len(orders)
    return (
        all(sorted(order) == list(range(count)) for order in orders)
        and apart
        and all(usual / 3 < each < usual * 3 for each in often)
    )


@pytest.mark.usefixtures("in_waves")
@pytest.mark.parametrize(
    "mistake",
    [
        None,
        lambda count, seed: list(range(count)),
        lambda count, seed: list(range(seed % count, count)) + list(range(seed % count)),
        lambda count, seed: [n % count for n in range(1, count + 1)],
    ],
)
def test_partitions_come_in_a_random_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mistake: Any
) -> None:
    """Over 200 seeds; with an order that is none, this is noticed."""

    def ordered(count: int, *, seed: int) -> list[int]:
        return random_order(count, seed=seed) if mistake is None else mistake(count, seed)

    monkeypatch.setattr(partitions_of_sides, "random_order", ordered)
    with wm.join(numbered(spark).where("cbrt(id) < 100"), others(spark), "k") as run:
        next(iter(run))
        assert run._opened is not None
        found = run._opened.computed.partitions.values()
        (staged,) = (each for each in found if each.count == PARTITIONS)
        seeds = range(200)
        orders = [ordered(staged.count, seed=seed) for seed in seeds]
        assert staged.order == orders[0]
    assert are_random(orders) == (mistake is None)
