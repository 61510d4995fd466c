"""wm.join against Spark's own join: the same rows as a multiset, whichever way they came."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import (
    InputChanged,
    InvalidArgument,
    MemoryTooSmall,
    SchemaError,
    SpillCorrupted,
    SpillError,
    WatersmeetError,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_waves")]

ROWS = 6_000
KEYS = 2_500

SPARK_TYPES = {
    "inner": "inner", "left": "left", "right": "right", "full": "full",
    "semi": "left_semi", "anti": "left_anti",
}  # fmt: skip


def counted(dataframe: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in dataframe.collect())


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders and payments in several files and row groups, some keys null, some frequent."""
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(7)
    for name, value in (("orders", "total"), ("payments", "paid")):
        keys = random.integers(0, KEYS, ROWS)
        keys[random.random(ROWS) < 0.01] = 7
        table = pa.table(
            {
                "id": pa.array(keys, mask=random.random(ROWS) < 0.02),
                value: random.normal(size=ROWS),
                "note": [f"{name} {number}" for number in range(ROWS)],
            }
        )
        (folder / name).mkdir()
        for part in range(3):
            rows = table.slice(part * ROWS // 3, ROWS // 3)
            pq.write_table(rows, folder / name / f"part-{part}.parquet", row_group_size=700)
    return folder


@pytest.fixture
def orders(spark: SparkSession, tables: Path) -> DataFrame:
    return spark.read.parquet(str(tables / "orders"))


@pytest.fixture
def payments(spark: SparkSession, tables: Path) -> DataFrame:
    return spark.read.parquet(str(tables / "payments")).withColumnRenamed("note", "remark")


def expected(left: DataFrame, right: DataFrame, how: str = "inner") -> Counter[tuple[Any, ...]]:
    return counted(left.join(right, on="id", how=SPARK_TYPES[how]))


def behind_slow(*values: Any) -> list[Any]:
    """What takes the same way as another value of the same parameter."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def aggregated(dataframe: DataFrame) -> DataFrame:
    """The same rows, each of them different, as something that is no plain scan."""
    return dataframe.distinct()


# A full join does all that left and right ones do, and an anti join what a semi join does.
@pytest.mark.parametrize("how", ["full", "anti", *behind_slow("inner", "left", "right", "semi")])
def test_waves_add_up_to_sparks_own_join(orders: DataFrame, payments: DataFrame, how: str) -> None:
    with wm.join(orders, payments, on="id", how=how) as run:
        waves = list(run)
        rows = sum((counted(wave.rows) for wave in waves), Counter())
        assert len(waves) > 2
        assert rows == expected(orders, payments, how)
        last = waves[-1].progress
        assert last.rows_read == last.rows_total == (ROWS, ROWS)
        assert last.rows_out == rows.total()
        assert last.fraction == 1


def test_the_first_wave_reads_little_and_has_rows(orders: DataFrame, payments: DataFrame) -> None:
    with wm.join(orders, payments, on="id") as run:
        first = next(iter(run))
        assert first.rows.count() > 0
        assert sum(first.progress.rows_read) < 2 * ROWS / 10


@pytest.mark.parametrize(
    "algorithm",
    [
        *("shj", "rpj", "pr-join"),
        # Other policies of rpj's mechanism, and of pr-join's.
        *behind_slow("pmj", "xjoin", "hmj", "rpj-md", "rpj-dd", "ripple", "grace"),
    ],
)
def test_every_algorithm_gives_the_same_rows(
    orders: DataFrame, payments: DataFrame, algorithm: str
) -> None:
    with wm.join(orders, payments, on="id", algorithm=algorithm, memory="32MB") as run:
        assert counted(run.to_df()) == expected(orders, payments)


@pytest.mark.parametrize("ways", ["right", "both", *behind_slow("left")])
@pytest.mark.parametrize("how", ["full", *behind_slow("inner")])
def test_dataframes_that_are_no_plain_scan(
    orders: DataFrame, payments: DataFrame, ways: str, how: str
) -> None:
    left = aggregated(orders) if ways in ("left", "both") else orders
    right = aggregated(payments) if ways in ("right", "both") else payments
    with wm.join(left, right, on="id", how=how) as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
        assert rows == expected(orders, payments, how)
        assert "row path" in run.explain()


def test_expressions_and_filters_of_the_user_hold(orders: DataFrame, payments: DataFrame) -> None:
    left = orders.where("id > 100 and note like 'orders 1%'").select("id", "note")
    right = payments.withColumn("double", F.col("paid") * 2).where("paid < 0.5").drop("remark")
    with wm.join(left, right, on="id") as run:
        assert counted(run.to_df()) == expected(left, right)


@pytest.mark.parametrize("instances", [1, *behind_slow(3), 16])
@pytest.mark.parametrize("how", ["left", *behind_slow("inner")])
def test_the_number_of_instances_changes_nothing(
    orders: DataFrame, payments: DataFrame, instances: int, how: str
) -> None:
    with wm.join(orders, payments, on="id", how=how, instances=instances) as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
        assert rows == expected(orders, payments, how)


@pytest.mark.parametrize("algorithm", ["rpj", "pr-join", *behind_slow("pmj", "xjoin", "hmj")])
def test_operators_that_spill_between_waves(
    orders: DataFrame, payments: DataFrame, algorithm: str
) -> None:
    """One instance in a memory that holds a part of the rows: flushed, rebuilt, cleaned up."""
    wide = F.repeat(F.lit("x"), 300)
    left, right = orders.withColumn("wide", wide), payments.withColumn("broad", wide)
    with wm.join(left, right, on="id", algorithm=algorithm, memory="2MB", instances=1) as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
        assert rows == expected(left, right)
        assert sum(wave.rows_spilled for wave in run.metrics.waves) > 0


def test_tables_larger_than_memory_are_joined_in_more_instances(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = 60_000
    for name in "ab":
        table = pa.table({"id": np.arange(rows), name: np.arange(rows)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10_000)
    left, right = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "ab")
    with wm.join(left, right, on="id", memory="2MB") as run:
        assert run.to_df().count() == rows
        assert run.metrics.waves[0].instances > 2


def test_a_wave_can_be_used_twice_and_in_part(orders: DataFrame, payments: DataFrame) -> None:
    with wm.join(orders, payments, on="id") as run:
        rows: Counter[tuple[Any, ...]] = Counter()
        for wave in run:
            assert len(wave.rows.take(1)) == 1
            assert counted(wave.rows) == counted(wave.rows)
            rows += counted(wave.rows)
        assert rows == expected(orders, payments)


def test_waves_then_the_whole(orders: DataFrame, payments: DataFrame) -> None:
    with wm.join(orders, payments, on="id") as run:
        waves = iter(run)
        first = counted(next(waves).rows)
        whole = counted(run.to_df())
        assert whole == expected(orders, payments)
        assert first <= whole
        assert sum((counted(wave.rows) for wave in run), Counter()) == whole


def test_a_run_whose_first_rows_were_enough(orders: DataFrame, payments: DataFrame) -> None:
    run = wm.join(orders, payments, on="id")
    first = next(iter(run))
    run.stop()
    assert first.rows.count() > 0
    assert list(iter(run))[1:] == []
    with pytest.raises(WatersmeetError, match="stopped"):
        run.to_df()
    run.close()


def test_written_by_sparks_own_writer(
    spark: SparkSession, orders: DataFrame, payments: DataFrame, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with wm.join(orders, payments, on="id") as run:
        run.write(out, format="orc")
    assert counted(spark.read.orc(out)) == expected(orders, payments)


def test_the_same_seed_reads_in_the_same_order(orders: DataFrame, payments: DataFrame) -> None:
    def firsts(seed: int) -> Counter[tuple[Any, ...]]:
        with wm.join(orders, payments, on="id", seed=seed) as run:
            return counted(next(iter(run)).rows)

    assert firsts(1) == firsts(1)
    assert firsts(1) != firsts(2)


def test_a_condition_that_pairs_must_meet(orders: DataFrame, payments: DataFrame) -> None:
    with wm.join(orders, payments, on="id", condition=pc.field("paid") > pc.field("total")) as run:
        joined = orders.join(payments, on="id").where("paid > total")
        assert counted(run.to_df()) == counted(joined)


def test_keys_that_are_called_differently_and_names_that_clash(
    orders: DataFrame, tables: Path, spark: SparkSession
) -> None:
    other = spark.read.parquet(str(tables / "payments")).withColumnRenamed("id", "order")
    with wm.join(orders, other, on={"id": "order"}) as run:
        rows = run.to_df()
        assert rows.columns == ["id", "total", "note", "order", "paid", "note_right"]
        joined = orders.join(other, orders.id == other.order)
        assert counted(rows) == counted(joined)


def test_an_empty_side(orders: DataFrame, payments: DataFrame) -> None:
    nothing = payments.where("id < 0")
    with wm.join(orders, nothing, on="id") as run:
        assert run.to_df().count() == 0
    with wm.join(orders, nothing, on="id", how="anti") as run:
        assert sum(wave.rows.count() for wave in run) == ROWS


def test_metrics_tell_what_happened(orders: DataFrame, payments: DataFrame) -> None:
    with wm.join(orders, payments, on="id") as run:
        rows = sum(wave.rows.count() for wave in run)
        metrics = run.metrics
        assert metrics.rows_read == (ROWS, ROWS)
        assert metrics.rows_out == rows == sum(metrics.results.values())
        lines = [json.loads(line) for line in metrics.json_lines().splitlines()]
        assert sum(line["rows_out"] for line in lines) == rows
        assert run.explain().count("file path") == 2


def damaged(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("harm", [damaged, lambda data: data[: len(data) // 2]])
def test_a_harmed_file_between_tasks_is_found(
    orders: DataFrame,
    payments: DataFrame,
    tmp_path: Path,
    harm: Callable[[bytes], bytes],
) -> None:
    with wm.join(aggregated(orders), payments, on="id", storage=tmp_path, instances=3) as run:
        waves = iter(run)
        next(waves)
        for file in tmp_path.rglob("input0-staged-*.arrow"):
            file.write_bytes(harm(file.read_bytes()))
        with pytest.raises(SpillCorrupted, match=r"altered|shorter"):
            list(waves)


def test_a_vanished_file_between_tasks_is_found(
    orders: DataFrame, payments: DataFrame, tmp_path: Path
) -> None:
    with wm.join(aggregated(orders), payments, on="id", storage=tmp_path, instances=3) as run:
        waves = iter(run)
        next(waves)
        for file in tmp_path.rglob("input0-staged-*.arrow"):
            file.unlink()
        with pytest.raises(SpillCorrupted, match="opened"):
            list(waves)


def test_input_files_that_change_during_a_run(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        pq.write_table(
            pa.table({"id": range(5_000), name: range(5_000)}), tmp_path / f"{name}.parquet"
        )
    left, right = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "ab")
    with wm.join(left, right, on="id") as run:
        pq.write_table(pa.table({"id": range(9), "b": range(9)}), tmp_path / "b.parquet")
        with pytest.raises(InputChanged, match=r"b\.parquet"):
            list(run)


def test_storage_that_cannot_be_written_to(orders: DataFrame, payments: DataFrame) -> None:
    with pytest.raises(SpillError, match=r"storage /proc/nowhere .*Choose a `storage` that exists"):
        wm.join(orders, payments, on="id", storage="/proc/nowhere")


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ("s3://nope", r"storage='s3://nope': Spark cannot read there \(No FileSystem for scheme"),
        ("nope://x", r"storage='nope://x': Spark cannot read there"),
        (5, "storage=5 is no path"),
    ],
)
def test_storage_that_is_no_place(
    orders: DataFrame, payments: DataFrame, storage: Any, says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says):
        wm.join(orders, payments, on="id", storage=storage)
    with pytest.raises(InvalidArgument, match=says):
        wm.aggregate(orders, payments, on="id", storage=storage, n=wm.count())


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"on": "key"}, SchemaError, "no column 'key'"),
        ({"on": "id", "how": "sideways"}, InvalidArgument, "sideways"),
        ({"on": "id", "algorithm": "bubble"}, InvalidArgument, "bubble"),
        ({"on": "id", "memory": "1KB"}, MemoryTooSmall, "too little"),
        ({"on": "id", "memory": "1MB"}, InvalidArgument, "each of 2 tasks"),
        ({"on": "id", "instances": 0}, InvalidArgument, "instances=0"),
        ({"on": {"note": "id"}}, SchemaError, "cannot be compared"),
    ],
)
def test_wrong_arguments_fail_at_the_call(
    orders: DataFrame,
    payments: DataFrame,
    arguments: dict[str, Any],
    error: type[Exception],
    says: str,
) -> None:
    with pytest.raises(error, match=says):
        wm.join(orders, payments, **arguments)


def test_names_that_differ_in_case_only(orders: DataFrame, payments: DataFrame) -> None:
    shouting = payments.withColumnRenamed("paid", "TOTAL")
    with pytest.raises(SchemaError, match="'total', 'TOTAL'"):
        wm.join(orders, shouting, on="id")


def test_streams_and_strangers_are_turned_away(spark: SparkSession, orders: DataFrame) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidArgument, match="join_streams"):
        wm.join(stream, orders, on={"value": "id"})
    with pytest.raises(InvalidArgument, match=r"wm\.local\.join"):
        wm.join(pa.table({"id": [1]}), orders, on="id")


def test_tables_in_the_order_of_their_key_give_a_share_of_all_rows_early(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = 40_000
    for name in "ab":
        table = pa.table({"id": np.arange(rows), name: np.arange(rows)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1_000)
    left, right = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "ab")
    with wm.join(left, right, on="id") as run:
        waves = iter(run)
        assert next(waves).rows.count() == rows / 40
        assert "by id, on which both tables are clustered" in run.explain()
        assert run.to_df().count() == rows
