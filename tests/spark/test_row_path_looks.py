"""Aggregates over DataFrames that only Spark can compute: looks at some partitions at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import watersmeet as wm
from benchmarks.coverage_partitions import ORDERS, measured
from tests.aggregates.oracle import assert_same, by_group
from tests.aggregates.readings import blocks_of
from watersmeet.aggregates import allowance
from watersmeet.aggregates.sampling import planner
from watersmeet.aggregates.sampling.designs import COMPLETE, FOUND_RANGES, RIPPLE
from watersmeet.errors import InputChanged
from watersmeet.spark.aggregates import cuts, engine, tasks
from watersmeet.spark.aggregates.aggregate import SparkAggregate
from watersmeet.spark.aggregates.blocks import PartitionBlocks
from watersmeet.spark.aggregates.cuts import Cut
from watersmeet.spark.jobs import Partitions
from watersmeet.spark.scans.relation import StagedRows, open_relation
from watersmeet.spark.text_partitions import Place
from watersmeet.store.exchange import ExchangeDir

pytestmark = pytest.mark.spark

ROWS, FILES, KEYS = 6_400, 64, 3_000
SCHEMA = "k long, g int, v double"
ASKED: dict[str, Any] = {"n": wm.count(), "s": wm.sum("v * w"), "m": wm.avg("v")}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in the order of their key, in as many files as an early look needs partitions."""
    folder = tmp_path_factory.mktemp("row-path")
    random = np.random.default_rng(0)
    rows = {
        "k": np.sort(random.integers(0, KEYS, ROWS)),
        "g": random.integers(0, 3, ROWS),
        "v": random.integers(1, 900, ROWS) / 4,
    }
    for form in ("csv", "parquet", "orc", "json", "mixed"):
        (folder / form).mkdir()
    mixed = random.permutation(ROWS)
    for number in range(FILES):
        part = slice(number * ROWS // FILES, (number + 1) * ROWS // FILES)
        table = pa.table({name: values[part] for name, values in rows.items()})
        pyarrow.csv.write_csv(table, folder / f"csv/{number:03}.csv")
        pq.write_table(table, folder / f"parquet/{number:03}.parquet")
        pyarrow.orc.write_table(table, str(folder / f"orc/{number:03}.orc"))
        pyarrow.csv.write_csv(
            pa.table({name: values[mixed[part]] for name, values in rows.items()}),
            folder / f"mixed/{number:03}.csv",
        )
        lines = (f"{json.dumps(row)}\n" for row in table.to_pylist())
        (folder / f"json/{number:03}.json").write_text("".join(lines))
    keys = np.arange(KEYS)
    right = pa.table({"k": keys, "w": random.integers(1, 9, KEYS)})
    pq.write_table(right, folder / "right.parquet", row_group_size=50)
    return folder


@pytest.fixture
def right(spark: SparkSession, places: Path) -> DataFrame:
    return spark.read.parquet(str(places / "right.parquet"))


def text(spark: SparkSession, places: Path, name: str = "csv") -> DataFrame:
    """With an option that our tasks do not know, so that Spark reads it."""
    reader = spark.read.option("maxColumns", 20480)
    return reader.csv(str(places / name), header=True, schema=SCHEMA)


def with_udf(spark: SparkSession, places: Path) -> DataFrame:
    frame = spark.read.parquet(str(places / "parquet"))
    # Our tasks call only functions that Spark gives their rows by Arrow.
    return frame.withColumn("v", sf.udf(lambda v: 3 * v, "double", useArrow=False)("v"))


PLANS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "csv": text,
    "json": lambda spark, places: (
        spark.read.option("lineSep", "\n").schema(SCHEMA).json(str(places / "json"))
    ),
    "orc": lambda spark, places: spark.read.schema(SCHEMA).orc(str(places / "orc")),
    "udf": with_udf,
    "union": lambda spark, places: text(spark, places).union(
        text(spark, places).selectExpr("k + 7", "g", "v / 2")
    ),
    "exploded": lambda spark, places: text(spark, places).withColumn(
        "g", sf.explode(sf.array("g", sf.lit(9)))
    ),
    "filtered": lambda spark, places: text(spark, places).where("g > 0"),
}


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The partitions that jobs were run for, job by job."""
    jobs: list[list[int]] = []
    run = Partitions.run

    def watched(self: Partitions[Any], partitions: Sequence[int], **settings: Any) -> list[Any]:
        jobs.append(list(partitions))
        return run(self, partitions, **settings)

    monkeypatch.setattr(Partitions, "run", watched)
    return jobs


def own(frame: DataFrame, right: DataFrame) -> DataFrame:
    joined = frame.join(right, "k")
    return joined.groupBy("g").agg(
        sf.count("*").alias("n"), sf.sum(sf.expr("v * w")).alias("s"), sf.avg("v").alias("m")
    )


def check(run: SparkAggregate, frame: DataFrame, right: DataFrame, jobs: list[list[int]]) -> None:
    """Several looks, each partition once and in a random order, and Spark's own answer at the
    end. The planted mistakes below must fail here."""
    looks = list(run)
    assert len(looks) > 1
    assert 0 < looks[0].fraction < 0.5
    doubts = {reason for reason in looks[0].cells.reason.ravel().tolist() if reason}
    assert not any("no random sample" in reason for reason in doubts), doubts
    taken = [partition for job in jobs for partition in job]
    assert sorted(taken) == list(range(blocks_of(run).engine._partitions.count))  # type: ignore[union-attr]
    assert taken != sorted(taken)
    expected = own(frame, right).toArrow().to_pylist()
    assert_same(by_group(looks[-1].answer.to_pylist(), ["g"]), by_group(expected, ["g"]))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.slow]
            if name in ("json", "orc", "exploded", "union", "filtered")
            else [],
        )
        for name in PLANS
    ],
)
def test_narrow_plans_give_looks(
    spark: SparkSession, places: Path, right: DataFrame, asked_for: list[list[int]], name: str
) -> None:
    frame = PLANS[name](spark, places)
    with wm.aggregate(frame, right, on="k", group_by="g", **ASKED) as run:
        assert "row path, computed by Spark some partitions" in " ".join(run.explain().split())
        check(run, frame, right, asked_for)


def test_cached_rows_give_looks_by_their_own_partitions(
    spark: SparkSession, places: Path, right: DataFrame, asked_for: list[list[int]]
) -> None:
    frame = text(spark, places).repartition(60).cache()
    try:
        with wm.aggregate(frame, right, on="k", group_by="g", **ASKED) as run:
            check(run, frame, right, asked_for)
    finally:
        frame.unpersist(blocking=True)


def test_another_seed_is_another_order(
    spark: SparkSession, places: Path, right: DataFrame, asked_for: list[list[int]]
) -> None:
    frame = text(spark, places)
    for seed in (0, 1, 0):
        with wm.aggregate(frame, right, on="k", seed=seed, **ASKED) as run:
            next(run.until(fraction=0.1))
    first, second, again = asked_for
    assert first == again
    assert set(first) != set(second)


# ---- mistakes ------------------------------------------------------------------------------------


def twice(partitions: Sequence[int]) -> list[int]:
    return [*partitions[:-1], partitions[0]]


def left_out(partitions: Sequence[int]) -> list[int]:
    return list(partitions[1:])


@pytest.mark.parametrize("mistake", [twice, left_out])
def test_a_partition_too_many_or_too_few_is_noticed(
    spark: SparkSession,
    places: Path,
    right: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    asked_for: list[list[int]],
    mistake: Callable[[Sequence[int]], list[int]],
) -> None:
    run_them = Partitions.run

    def wrong(self: Partitions[Any], partitions: Sequence[int], **settings: Any) -> list[Any]:
        return run_them(self, mistake(partitions), **settings)

    monkeypatch.setattr(Partitions, "run", wrong)
    frame = text(spark, places)
    with (
        wm.aggregate(frame, right, on="k", group_by="g", **ASKED) as run,
        pytest.raises(AssertionError),
    ):
        check(run, frame, right, asked_for)


def test_an_order_that_is_not_random_is_noticed(
    spark: SparkSession,
    places: Path,
    right: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    asked_for: list[list[int]],
) -> None:
    monkeypatch.setattr(planner, "random_order", lambda count, seed: list(range(count)))
    frame = text(spark, places)
    with wm.aggregate(frame, right, on="k", group_by="g", **ASKED) as run:
        first = next(iter(run))
        assert not first.cells.trusted.any()
        assert "no random sample" in str(first.cells.reason[0, 0])
        with pytest.raises(AssertionError):
            check(run, frame, right, asked_for)


def test_partitions_that_are_others_when_they_are_read(
    spark: SparkSession, places: Path, right: DataFrame, tmp_path: Path
) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    for file in sorted((places / "csv").iterdir()):
        (folder / file.name).write_bytes(file.read_bytes())
    frame = spark.read.option("maxColumns", 20480).csv(str(folder), header=True, schema=SCHEMA)
    with wm.aggregate(frame, right, on="k", **ASKED) as run:
        source = blocks_of(run).engine._sources[0]  # type: ignore[union-attr]
        object.__setattr__(source, "partitions", source.partitions - 1)
        with pytest.raises(InputChanged, match="64 now"):
            run.exact()


# ---- how many partitions -------------------------------------------------------------------------


def test_large_files_are_cut_into_many_partitions(
    spark: SparkSession, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(nbytes: int, name: str = "csv") -> int:
        monkeypatch.setattr(cuts, "source_bytes", lambda dataframe: nbytes)
        form = spark.read.schema(SCHEMA).format("csv" if name == "csv" else "parquet")
        return Cut.of(form.load(str(places / name))).many

    assert asked(10) == 64
    assert asked(2**30) == 256
    assert asked(2**40) == 1024
    # A partition that is smaller than a row group has no rows.
    monkeypatch.setattr(cuts, "_PARTITION_BYTES", 1)
    group = (places / "parquet/000.parquet").stat().st_size
    assert asked(300 * group, "parquet") in range(90, 111)


def with_groups(folder: Path, groups: Callable[[int], list[int]]) -> Path:
    """Thirteen Parquet files with row groups of so many rows."""
    random, schema = np.random.default_rng(0), pa.schema({"k": pa.int64(), "v": pa.float64()})
    for number in range(13):
        with pq.ParquetWriter(folder / f"{number:02}.parquet", schema) as writer:
            for rows in groups(number):
                values = [random.integers(0, 2**60, rows), random.random(rows)]
                writer.write_table(pa.table(values, schema), row_group_size=rows)
    return folder


def nowhere() -> ExchangeDir:
    raise AssertionError("these rows need no storage")


def rows_of_partitions(frame: DataFrame) -> list[int]:
    """As Spark has cut them."""
    relation = open_relation(frame, argument="left")
    assert isinstance(relation, StagedRows)
    counted = PartitionBlocks.of(relation).open(
        lambda batches, _: sum(map(len, batches)),
        Place(frame.sparkSession, "q", 2, nowhere),
        what="rows",
    )
    return counted.run(range(counted.count), what="rows")


def test_parquet_files_are_cut_between_row_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "_LEAST_PIECE", 1)
    folder = with_groups(tmp_path, lambda number: [1_500 + number] * 5)
    tripled = sf.udf(lambda v: 3 * v, "double", useArrow=False)
    frame = spark.read.parquet(str(folder)).withColumn("v", tripled("v"))
    rows = rows_of_partitions(frame)
    assert sorted(rows) == sorted([*range(1_500, 1_513)] * 5)


def test_row_groups_that_are_not_alike_are_cut_anywhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "_LEAST_PIECE", 1)
    folder = with_groups(tmp_path, lambda number: [400 * (number + 1), 90, 2_500, 700, 40])
    assert Cut.of(spark.read.parquet(str(folder))).nbytes is None


# ---- keys that are looked for --------------------------------------------------------------------


@pytest.fixture
def too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One side does not fit, as it does not at a thousand times the size."""
    monkeypatch.setattr(allowance, "SMALLEST_MEMORY", 0)


@pytest.mark.usefixtures("too_little_memory")
@pytest.mark.parametrize("how", ["inner", "left"])
def test_blocks_of_the_other_side_are_looked_for_by_key(
    spark: SparkSession, places: Path, right: DataFrame, asked_for: list[list[int]], how: str
) -> None:
    """Neither fits; the files of one follow the key, and so do the rows of the other."""
    frame, some = text(spark, places), right.where("w > 2")
    asked: dict[str, Any] = {"n": wm.count(), "s": wm.sum("v * w")}
    with wm.aggregate(frame, some, on="k", how=how, group_by="g", memory="200kB", **asked) as run:
        assert blocks_of(run).plan.design is FOUND_RANGES
        assert "once it is seen which those are" in " ".join(run.explain().split())
        looks = list(run)
        assert len(looks) > 1
        grouped = frame.join(some, "k", how).groupBy("g")
        expected = grouped.agg(sf.count("*").alias("n"), sf.sum(sf.expr("v * w")).alias("s"))
        assert_same(
            by_group(looks[-1].answer.to_pylist(), ["g"]),
            by_group(expected.toArrow().to_pylist(), ["g"]),
        )


@pytest.mark.usefixtures("too_little_memory")
def test_rows_that_do_not_follow_the_key_are_read_in_parts(
    spark: SparkSession, places: Path, right: DataFrame
) -> None:
    frame = text(spark, places, "mixed")
    with wm.aggregate(frame, right, on="k", group_by="g", memory="200kB", **ASKED) as run:
        assert blocks_of(run).plan.design is FOUND_RANGES
        looks = list(run)
        assert blocks_of(run).plan.design is RIPPLE
        expected = own(frame, right).toArrow().to_pylist()
        assert_same(by_group(looks[-1].answer.to_pylist(), ["g"]), by_group(expected, ["g"]))


@pytest.mark.parametrize("name", [pytest.param("csv", marks=pytest.mark.slow), "mixed"])
def test_of_a_large_side_that_fits_rows_may_need_some_or_all(
    spark: SparkSession,
    places: Path,
    right: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    asked_for: list[list[int]],
    name: str,
) -> None:
    """Whether rows follow the key shows once they are seen; where they do not, all is kept."""
    monkeypatch.setattr(planner, "_SOON_READ", 0)
    monkeypatch.setattr(engine, "read_partition", only_if(some=name == "csv"))
    frame = text(spark, places, name)
    with wm.aggregate(frame, right, on="k", group_by="g", **ASKED) as run:
        assert "if those are many" in " ".join(run.explain().split())
        check(run, frame, right, asked_for)
        assert blocks_of(run).plan.design is FOUND_RANGES


def only_if(*, some: bool) -> Callable[[Any, int, Any], Any]:
    """Reads a partition, and sees that its worker has some blocks of the other side, or all."""
    as_it_is = tasks.read_partition

    def seen(batches: Any, block: int, work: Any) -> Any:
        found = as_it_is(batches, block, work)
        assert (tasks._WHOLE in work._blocks()) is not some
        return found

    return seen


@pytest.mark.usefixtures("too_little_memory")
def test_a_range_that_is_not_looked_at_is_noticed(
    spark: SparkSession, places: Path, right: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake: nobody looks into the last block of the other side."""
    as_it_is = tasks.read_partition

    def forgetful(batches: Any, block: int, work: Any) -> Any:
        return as_it_is(batches, block, replace(work, ranges=work.ranges[:-1]))

    monkeypatch.setattr(engine, "read_partition", forgetful)
    frame = text(spark, places)
    with wm.aggregate(frame, right, on="k", group_by="g", memory="200kB", **ASKED) as run:
        found = by_group(run.exact().answer.to_pylist(), ["g"])
    with pytest.raises(AssertionError):
        assert_same(found, by_group(own(frame, right).toArrow().to_pylist(), ["g"]))


# ---- intervals -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_intervals_over_partitions_hold_as_often_as_they_say(
    spark: SparkSession, order: str
) -> None:
    """Whatever the order of the rows. What Spark computes of two orders is what is replayed."""
    for outcome in measured(spark, order, runs=600):
        held = outcome.all_held / outcome.cells
        assert held > 0.93, (outcome.aggregate, outcome.look, held)
        if outcome.trusted > 0.1 * outcome.cells:
            assert outcome.coverage > 0.93, (outcome.aggregate, outcome.look, outcome.coverage)


def test_what_is_replayed_for_coverage_is_what_spark_computes(spark: SparkSession) -> None:
    """A partition's totals are the same whenever it is computed, and its order is the seed's."""
    (_, *_) = measured(spark, "by value", runs=3, checked=1)


def test_a_side_that_fits_is_read_first(
    spark: SparkSession, places: Path, right: DataFrame
) -> None:
    with wm.aggregate(text(spark, places), right, on="k", **ASKED) as run:
        assert blocks_of(run).plan.design is COMPLETE
