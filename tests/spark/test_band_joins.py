"""Equal keys and a band on Spark, tables and streams, against Spark's own join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.streams.running import Streams, counted
from watersmeet.errors import InvalidArgument, SchemaError, StateError
from watersmeet.rows.bands import Band

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Case:
    """A value made of the row number, a band, and Spark's condition on l.t and r.t."""

    value: str
    band: Band
    condition: str
    how: str = "inner"


# Around both changes of the clocks in Berlin. Differences of moments are time that has passed.
MOMENT = "timestamp_micros(1711846500000000L + id * 7000000L + if(id % 2 = 0, 0L, 18144000000000L))"
CASES = {
    "timestamp": Case(
        MOMENT, wm.within("t", "1 hour"),
        "abs(unix_micros(l.t) - unix_micros(r.t)) <= 3600000000L", "full",
    ),
    "date": Case(
        "date_add(DATE'2024-02-20', cast(id % 400 as int))", wm.band("t", 0, timedelta(days=3)),
        "datediff(l.t, r.t) >= 0 AND datediff(l.t, r.t) <= 3",
    ),
    "decimal": Case(
        "cast(id * 0.03 as decimal(9,2))", wm.within("t", Decimal("0.25")),
        "abs(l.t - r.t) <= 0.25", "left",
    ),
    "double with NaN": Case(
        "if(id % 11 = 0, double('nan'), if(id % 13 = 0, double('inf'), id / 8D))",
        wm.within("t", 2), "l.t - r.t >= -2 AND l.t - r.t <= 2", "left",
    ),
    "double without an upper end": Case(
        "if(id % 11 = 0, double('nan'), id / 8D)",
        wm.band("t", low=200), "l.t - r.t >= 200", "semi",
    ),
}  # fmt: skip
ROWS = 2_000
QUICK = ("timestamp", "double with NaN")
SPARK_TYPES = {"semi": "left_semi", "anti": "left_anti"}


@pytest.fixture
def summer_time(spark: SparkSession) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def table(spark: SparkSession, value: str, name: str, *, shift: int) -> DataFrame:
    """Rows with a key and a value, some of them null, and a number."""
    return spark.sql(
        f"SELECT if(id % 97 = 5, NULL, id % 5) AS k, if(id % 89 = 7, NULL, {value}) AS t, "
        f"id AS {name} FROM range({shift}, {ROWS + shift})"
    )


@pytest.mark.usefixtures("summer_time", "in_waves")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES],
)
def test_a_key_and_a_band_are_sparks_own_join(name: str, spark: SparkSession) -> None:
    case = CASES[name]
    left, right = (
        table(spark, case.value, column, shift=shift) for column, shift in (("a", 0), ("b", 40))
    )
    left.createOrReplaceTempView("bands_left")
    right.createOrReplaceTempView("bands_right")
    columns = "l.a" if case.how == "semi" else "l.a, r.b"
    how = SPARK_TYPES.get(case.how, case.how)
    expected = counted(
        spark.sql(
            f"SELECT {columns} FROM bands_left l {how.replace('_', ' ')} JOIN bands_right r "
            f"ON l.k = r.k AND {case.condition}"
        )
    )
    assert expected.total() > ROWS / 4
    on: Any = ["k", case.band]
    with wm.join(left, right, on=on, how=case.how, memory="32MB") as run:
        rows: Counter[tuple[Any, ...]] = Counter()
        for wave in run:
            rows += counted(wave.rows.select(*(["a"] if case.how == "semi" else ["a", "b"])))
        assert str(case.band) in run.explain()
    assert rows == expected


@pytest.mark.parametrize(
    ("on", "error", "said"),
    [
        (["k", wm.within("nope", 5)], SchemaError, "'nope'"),
        (["k", wm.within("t", "5 seconds")], SchemaError, "Give a number"),
    ],
    ids=["no such column", "a time for numbers"],
)
def test_what_spark_cannot_join_is_refused_at_the_call(
    spark: SparkSession, on: Any, error: type[Exception], said: str
) -> None:
    left, right = (spark.range(5).selectExpr("id AS k", "id AS t", f"id AS {c}") for c in "ab")
    with pytest.raises(error, match=said):
        wm.join(left, right, on=on)


def test_an_algorithm_for_equal_keys_takes_a_band_beside_them_and_none_alone(
    spark: SparkSession,
) -> None:
    left, right = (
        spark.range(60).selectExpr("id % 7 AS k", "id AS t", f"id AS {name}") for name in "ab"
    )
    with pytest.raises(InvalidArgument, match=r"not a band of values.*diner"):
        wm.join(left, right, on=wm.within("t", 5), algorithm="rpj")
    near: Any = ["k", wm.within("t", 15)]
    with wm.join(left, right, on=near, how="left", algorithm="rpj") as run:
        found = sorted(map(tuple, run.to_df().select("a", "b").collect()))
    pairs = sorted(
        (a, b) for a in range(60) for b in range(60) if b in (a - 14, a - 7, a, a + 7, a + 14)
    )
    assert found == pairs


def test_names_are_spelled_as_spark_spells_them(spark: SparkSession) -> None:
    left, right = (spark.range(9).selectExpr("id AS k", "id AS t", f"id AS {c}") for c in "ab")
    near: Any = ["K", wm.within("T", 0)]
    with wm.join(left, right, on=near) as run:
        assert run.to_df().count() == 9


@pytest.mark.slow  # tests/spark/streams/test_bands.py goes the same way, without keys
def test_streams_with_a_band_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    random = np.random.default_rng(8)

    def side(name: str, rows: int) -> pa.Table:
        return pa.table(
            {
                "k": pa.array(random.integers(0, 9, rows)),
                "t": pa.array(random.integers(0, 10**9, rows)).view(pa.timestamp("us", "UTC")),
                name: np.arange(rows),
            }
        )

    near: Any = ["k", wm.within("t", "4 seconds")]
    streams = Streams(spark, tmp_path, {"on": near})
    condition = "abs(unix_micros(l.t) - unix_micros(r.t)) <= 4000000L"
    check_restart(spark, streams, side, f"l.k = r.k AND {condition}")
    with pytest.raises(StateError, match="made with bands="):
        streams.joined(on=["k", wm.within("t", "5 seconds")])


def check_restart(
    spark: SparkSession, streams: Streams, side: Callable[[str, int], pa.Table], condition: str
) -> None:
    """Two streams, of which one goes on after a restart, have Spark's result both times."""
    streams.write(side("a", 1500), side("b", 1200), batches=2)

    def expected() -> Counter[tuple[Any, ...]]:
        for name in ("left", "right"):
            spark.read.parquet(str(streams.path / name)).createOrReplaceTempView(f"bands_{name}")
        return counted(
            spark.sql(f"SELECT l.a, r.b FROM bands_left l JOIN bands_right r ON {condition}")
        )

    def found() -> Counter[tuple[Any, ...]]:
        return counted(spark.read.parquet(str(streams.path / "out")).select("a", "b"))

    streams.run()
    first = found()
    assert first == expected()
    streams.add("left", side("a", 300), "more")
    streams.run()
    assert found() == expected()
    assert found().total() > first.total() > 0
