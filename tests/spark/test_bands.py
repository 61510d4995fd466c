"""Bands decide as Spark's own subtraction and comparisons do, for every type they take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from watersmeet.rows.bands import Band, Width

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Case:
    """A SQL type, some of its values, a difference as Spark writes it, and two ends."""

    kind: str
    values: str
    difference: str
    low: tuple[str, Width]
    high: tuple[str, Width]
    right: str | None = None
    """The type of the right side, if it is another."""


WHOLE = "(-128), (-7), (-1), (0), (1), (3), (127)"
LONG = f"{WHOLE}, (9223372036854775807), (-9223372036854775808), (4611686018427387904)"
FLOAT = (
    "(double('nan')), (double('inf')), (double('-inf')), (-0.0D), (0.0D), (0.1D), (0.3D), (-1.5D), "
    "(1e300D), (16777217.0D), (0.30000001D)"
)
MOMENTS = (
    "('2024-03-31 00:59:58'), ('2024-03-31 01:00:02'), ('2024-10-27 00:30:00'), "
    "('2024-10-27 01:30:00'), ('1582-10-04 00:00:00'), ('0001-01-01 00:00:00'), "
    "('9999-12-31 23:59:59.999999'), ('1970-01-01 00:00:00.000001'), ('1970-01-01 00:00:00')"
)
# Null where the difference leaves the type: there Spark has no answer to agree with.
PLAIN = "try_subtract(l, r)"
CASES = {
    "tinyint": Case("tinyint", WHOLE, PLAIN, ("-2", -2), ("4", 4)),
    "smallint": Case("smallint", WHOLE, PLAIN, ("-2", -2), ("4", 4)),
    "int": Case("int", WHOLE, PLAIN, ("-2", -2), ("4", 4)),
    "bigint": Case("bigint", LONG, PLAIN, ("-5", -5), ("5", 5)),
    "int and bigint": Case("int", WHOLE, PLAIN, ("-5", -5), ("5", 5), right="bigint"),
    "bigint by half": Case("bigint", LONG, PLAIN, ("-2.5", Decimal("-2.5")), ("1.5", 1.5)),
    "double": Case("double", FLOAT, "l - r", ("-0.2D", -0.2), ("0.2D", 0.2)),
    "float": Case("float", FLOAT, "l - r", ("-0.2D", -0.2), ("0.2D", 0.2)),
    "float and double": Case("float", FLOAT, "l - r", ("-0.2D", -0.2), ("0.2D", 0.2), "double"),
    "bigint and double": Case("bigint", LONG, "l - r", ("-0.5D", -0.5), ("0.5D", 0.5), "double"),
    "decimal": Case(
        "decimal(9,2)", "(0.01), (0.02), (-5.5), (0), (9999999.99)", "l - r",
        ("-0.01", Decimal("-0.01")), ("5.51", Decimal("5.51")),
    ),
    "decimals of two scales": Case(
        "decimal(9,2)", "(0.01), (0.02), (-5.5), (0)", "l - r",
        ("-0.015", Decimal("-0.015")), ("5.505", Decimal("5.505")), right="decimal(12,4)",
    ),
    "date": Case(
        "date", "('2024-02-28'), ('2024-03-01'), ('1582-10-04'), ('1582-10-15'), ('9999-12-31')",
        "datediff(l, r)", ("-2", -2), ("11", 11),
    ),
    "timestamp": Case(
        "timestamp", MOMENTS, "unix_micros(l) - unix_micros(r)",
        ("-4000000L", timedelta(seconds=-4)), ("3600000000L", timedelta(hours=1)),
    ),
    "timestamp_ntz": Case(
        "timestamp_ntz", MOMENTS, "l - r",
        ("INTERVAL '-4' SECOND", timedelta(seconds=-4)),
        ("INTERVAL '1' HOUR", timedelta(hours=1)),
    ),
    "interval": Case(
        "interval day to second",
        "(INTERVAL '0' SECOND), (INTERVAL '5' SECOND), (INTERVAL '-5' SECOND), (INTERVAL '1' DAY)",
        "l - r", ("INTERVAL '-5' SECOND", timedelta(seconds=-5)),
        ("INTERVAL '6' SECOND", timedelta(seconds=6)),
    ),
}  # fmt: skip
ENDS = {
    "both": "d >= {low} AND d <= {high}",
    "open": "d > {low} AND d < {high}",
    "no upper": "d >= {low}",
    "no lower": "d < {high}",
}


@pytest.mark.parametrize("name", CASES)
def test_bands_are_sparks(name: str, spark: SparkSession) -> None:
    case = CASES[name]
    # In a zone with summer time: what is asked for is time that has passed.
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        sides = [
            f"(SELECT CAST(c AS {kind}) AS {side} FROM VALUES {case.values} AS t(c))"
            for side, kind in (("l", case.kind), ("r", case.right or case.kind))
        ]
        asked = ", ".join(
            f"{ends.format(low=case.low[0], high=case.high[0])} AS `{which}`"
            for which, ends in ENDS.items()
        )
        rows = spark.sql(
            f"SELECT l, r, {asked} FROM (SELECT *, {case.difference} AS d "
            f"FROM {sides[0]} CROSS JOIN {sides[1]}) WHERE d IS NOT NULL"
        ).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    left, right = (pa.concat_arrays(rows.column(side).chunks) for side in ("l", "r"))
    assert len(rows) > 15
    for which in ENDS:
        band = Band(
            "l",
            "r",
            low=None if which == "no lower" else case.low[1],
            high=None if which == "no upper" else case.high[1],
            low_open=which == "open",
            high_open=which in ("open", "no lower"),
        )
        codec = band.resolve(rows.schema.field("l"), rows.schema.field("r"))
        expected = rows.column(which).to_pylist()
        assert any(expected)
        assert not all(expected)
        held = codec.holds(left, right).tolist()
        wrong = [n for n, (e, h) in enumerate(zip(expected, held, strict=True)) if e != h]
        assert not wrong, (which, rows.select(["l", "r"]).take(wrong))
