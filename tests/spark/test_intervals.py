"""Intervals on Spark: decided as its own comparisons do, and joined beside equal keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.streams.running import Streams, counted
from tests.spark.test_band_joins import check_restart
from tests.spark.test_bands import FLOAT, LONG, MOMENTS, WHOLE
from watersmeet.errors import SchemaError, StateError
from watersmeet.rows.intervals import Overlap

pytestmark = pytest.mark.spark

CENTS = "(0.01), (0.02), (-5.5), (0), (9999999.99)"
DAYS = "('2024-02-28'), ('2024-03-01'), ('1582-10-04'), ('1582-10-15'), ('9999-12-31')"
# The types of a value and of both ends of an interval, and some values.
CASES = {
    "bigint": ("bigint", "bigint", "bigint", LONG),
    "bigint between int and double": ("bigint", "int", "double", WHOLE),
    "double": ("double", "double", "double", FLOAT),
    "float between double and float": ("float", "double", "float", FLOAT),
    "decimal and bigint": ("decimal(9,2)", "bigint", "decimal(12,4)", CENTS),
    "date and timestamp_ntz": ("date", "timestamp_ntz", "date", DAYS),
    "timestamp": ("timestamp", "timestamp", "timestamp", MOMENTS),
}


@pytest.mark.parametrize("name", CASES)
def test_intervals_are_sparks(name: str, spark: SparkSession) -> None:
    *kinds, values = CASES[name]
    sides = ", ".join(
        f"(SELECT CAST(c AS {kind}) AS {column} FROM VALUES {values} AS t(c))"
        for column, kind in zip(("p", "s", "e"), kinds, strict=True)
    )
    rows = spark.sql(
        f"SELECT p, s, e, p BETWEEN s AND e AS closed, s < p AND p < e AS open FROM {sides}"
    ).toArrow()
    p, s, e = (pa.concat_arrays(rows.column(column).chunks) for column in "pse")
    fields = {column: rows.schema.field(column) for column in "pse"}
    for which in ("closed", "open"):
        asked = Overlap(("p", "p"), ("s", "e"), which == "open", which == "open")
        codec = asked.resolve((fields["p"], fields["p"]), (fields["s"], fields["e"]))
        held = codec.holds((p, p), (s, e)).tolist()
        wanted = rows.column(which).to_pylist()
        assert any(wanted)
        assert not all(wanted)
        wrong = [n for n, (w, h) in enumerate(zip(wanted, held, strict=True)) if w != h]
        assert not wrong, (which, rows.take(wrong))


def test_a_key_and_intervals_are_sparks_own_join(spark: SparkSession) -> None:
    """Lengths of three decades, some below 0, with nulls, NaN and infinity; names in other case."""
    for name, shift in (("a", 0), ("b", 40)):
        spark.sql(
            f"SELECT if(id % 97 = 5, NULL, id % 5) AS k, if(id % 89 = 7, NULL, s) AS s, "
            f"if(id % 83 = 3, double('nan'), if(id % 79 = 1, double('inf'), s + length)) AS e, "
            f"id AS {name} FROM (SELECT id, id * 8.5D AS s, pow(10, id % 4) - 3 AS length "
            f"FROM range({shift}, {2000 + shift}))"
        ).createOrReplaceTempView(f"intervals_{name}")
    expected = counted(
        spark.sql(
            "SELECT l.a, r.b FROM intervals_a l FULL JOIN intervals_b r "
            "ON l.k = r.k AND l.s <= r.e AND r.s <= l.e"
        )
    )
    assert expected.total() > 20_000
    on: Any = ["k", wm.overlaps(("S", "E"), ("s", "e"))]
    left, right = (spark.table(f"intervals_{name}") for name in "ab")
    rows: Counter[tuple[Any, ...]] = Counter()
    with wm.join(left, right, on=on, how="full", memory="32MB") as run:
        for wave in run:
            rows += counted(wave.rows.select("a", "b"))
        assert "s to e overlaps s to e" in run.explain()
    assert rows == expected


@pytest.mark.slow
def test_streams_with_intervals_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """As with a band, which the test that is not slow has (test_band_joins.py)."""
    random = np.random.default_rng(8)

    def side(name: str, rows: int) -> pa.Table:
        start = random.integers(0, 10**5, rows)
        columns = {"k": random.integers(0, 9, rows), "s": start, name: np.arange(rows)}
        return pa.table({**columns, "e": start + 10 ** random.integers(0, 5, rows)})

    asked: Any = ["k", wm.overlaps(("s", "e"), ("s", "e"))]
    streams = Streams(spark, tmp_path, {"on": asked})
    check_restart(spark, streams, side, "l.k = r.k AND l.s <= r.e AND r.s <= l.e")
    with pytest.raises(StateError, match="made with bands="):
        streams.joined(on=["k", wm.overlaps(("s", "e"), ("s", "e"), open=True)])


@pytest.mark.parametrize(
    ("on", "error", "said"),
    [
        (["k", wm.between("p", "s", "nope")], SchemaError, "'nope'"),
        (["k", wm.between("p", "s", "text")], SchemaError, "'text' is neither a number nor"),
    ],
    ids=["no such column", "a text"],
)
def test_what_spark_cannot_join_is_refused_at_the_call(
    spark: SparkSession, on: Any, error: type[Exception], said: str
) -> None:
    left = spark.range(5).selectExpr("id AS k", "id AS p")
    right = spark.range(5).selectExpr("id AS k", "id AS s", "id AS e", "string(id) AS text")
    with pytest.raises(error, match=said):
        wm.join(left, right, on=on)
