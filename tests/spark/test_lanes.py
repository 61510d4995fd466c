"""Lanes of values, as Spark computes them: partners of every type meet in one instance."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.contract.test_planted_bugs import Bug
from tests.spark.test_bands import CASES, FLOAT
from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.rows.bands import Band, Width
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.on import Near
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.lanes import LaneRouter, OneInstance, lanes_of

pytestmark = pytest.mark.spark

INSTANCES = 7
MIXED: dict[str, tuple[str, str, Width, Width]] = {
    "a date and a time": ("date", "timestamp_ntz", timedelta(hours=-20), timedelta(days=9)),
    "a bigint and a decimal": ("int", "decimal(9,2)", Decimal("-0.5"), Decimal(2)),
    "a huge double": ("double", "double", -1e299, 1e300),
    "a tiny double": ("double", "double", 0.0, 5e-324),
    "a double that is one number": ("double", "double", 0.0, 0.0),
    "a far double": ("double", "double", 1e6, 1e6 + 1),
    "a bigint beside many": ("bigint", "bigint", 10, 13),
    "a bigint beside many that a double rounds": ("bigint", "bigint", -1, 1),
}  # fmt: skip
VALUES = {
    "date": "('2024-02-28'), ('2024-03-01'), ('1582-10-15'), ('9999-12-31'), ('0001-01-01')",
    "int": "(-7), (0), (1), (2), (2147483)",
    # Around 2^62 doubles are 1024 apart.
    "bigint": ", ".join(f"({n}L)" for n in (*range(-50, 50), *range(2**62 + 500, 2**62 + 520))),
    "double": f"{FLOAT}, (1000000.25D), (1000000.75D), (-1e300D), (5e-324D)",
}


def questions() -> dict[str, tuple[str, str, str, Width, Width]]:
    """The two types, values, and both ends."""
    found = {
        name: (case.kind, case.right or case.kind, case.values, case.low[1], case.high[1])
        for name, case in CASES.items()
    }
    for name, (left, right, low, high) in MIXED.items():
        found[name] = (left, right, VALUES[left], low, high)
    return found


def check(spark: SparkSession, name: str, how: str = "inner") -> None:
    left, right, values, low, high = questions()[name]
    sides = [
        # Each value, and some beside it if it is a number.
        spark.sql(
            f"SELECT CAST(c AS {kind}) AS t, monotonically_increasing_id() AS n "
            f"FROM VALUES {values}, (NULL) AS v(c)"
        )
        for kind in (left, right)
    ]
    schemas = [side.limit(0).toArrow().schema for side in sides]
    band = Band("t", "t", low=low, high=high)
    join = JoinSchema.resolve(schemas[0], schemas[1], band, JoinType(how))
    router = lanes_of(join, instances=INSTANCES)
    assert isinstance(router, LaneRouter)
    routed = router.band
    owner = router.owner
    answers = [
        side.select("t", router.column(number, side).alias("where")).toArrow()
        for number, side in zip(Side, sides, strict=True)
    ]
    mine, others = answers[owner], answers[owner.other]
    assert all(0 <= instance < INSTANCES for instance in mine["where"].to_pylist())
    lists = others["where"].to_pylist()
    assert all(each and len(set(each)) == len(each) for each in lists)
    left_values, right_values = (pa.concat_arrays(a["t"].chunks) for a in answers)
    known = [np.flatnonzero(each.is_valid()) for each in (left_values, right_values)]
    i, j = (each.reshape(-1) for each in np.meshgrid(*known))
    partners = routed.codec.holds(left_values.take(i), right_values.take(j))
    assert partners.any()
    for a, b in zip(i[partners], j[partners], strict=True):
        at = (a, b)
        here = mine["where"][int(at[owner])].as_py()
        assert here in lists[int(at[owner.other])], (left_values[a], right_values[b])


@pytest.mark.parametrize("name", ["double", "a date and a time"])
def test_partners_are_together(spark: SparkSession, name: str) -> None:
    check(spark, name, "right" if name == "double" else "left")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "right"])
@pytest.mark.parametrize("name", questions())
def test_partners_of_every_type_are_together(spark: SparkSession, name: str, how: str) -> None:
    check(spark, name, how)


BUGS = {
    "a row goes to the lane of one end only": Bug(
        "a bigint beside many", (LaneRouter, "column"), "self._instance(last)",
        "self._instance(first)",
    ),
    "a band is not turned round for the other side": Bug(
        "a bigint beside many", (LaneRouter, "_reach"), "if side is Side.LEFT:",
        "if side is Side.RIGHT:",
    ),
    "rounding is not made up for": Bug(
        "a bigint beside many that a double rounds", (LaneRouter, "_reach"), ") * rounding",
        ") * 0.0",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_the_check_notices(name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(spark, BUGS[name].algorithm)


@pytest.mark.parametrize(
    ("band", "how", "said"),
    [
        (Band("t", "t", low=0), "inner", r"one end only.*instances=1"),
        (Band("t", "t", low=0, high=1), "full", r"full join without equal keys.*instances=1"),
        (Overlap(("t", "t"), ("t", "u")), "inner", r"of any length.*instances=1"),
    ],
)
def test_what_cannot_be_divided_is_refused(band: Near, how: str, said: str) -> None:
    schema = pa.schema({"t": pa.int64(), "u": pa.int64()})
    join = JoinSchema.resolve(schema, schema, band, JoinType(how))
    assert isinstance(lanes_of(join, instances=1), OneInstance)
    with pytest.raises(InvalidArgument, match=said):
        lanes_of(join, instances=2)
