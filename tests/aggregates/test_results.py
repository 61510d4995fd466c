"""From sums to answers: equal to Spark's, to the last digit where the type has one."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import pytest

from watersmeet.aggregates.partials.results import answer, result_type
from watersmeet.aggregates.partials.sums import Sums
from watersmeet.estimators.quantities import Kind
from watersmeet.expressions.numbers import ArithmeticFailed, Numbers, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = 6
_WIDE = Context(prec=60)
NAMES = {
    Kind.COUNT: "count",
    Kind.SUM: "sum",
    Kind.AVG: "avg",
    Kind.VARIANCE: "variance",
    Kind.VAR_POP: "var_pop",
    Kind.STDDEV: "stddev",
    Kind.STDDEV_POP: "stddev_pop",
}


def _column(kind: pa.DataType, codes: np.ndarray[Any, Any], seed: int) -> pa.Array:
    """Random values: none in group 0, one in group 1, some null in the others."""
    generator = np.random.default_rng(seed)
    null = generator.random(codes.size) < 0.3
    null |= codes == 0
    single = np.flatnonzero(codes == 1)
    null[single] = True
    null[single[:1]] = False
    whole = generator.integers(-(2**31), 2**31, codes.size)
    values: list[Any]
    if pt.is_decimal(kind):
        digits = [int(v) * 10**29 + int(w) for v, w in zip(whole, whole[::-1], strict=True)]
        # Means have four more digits behind the point, and must have room before it.
        most = 10 ** min(kind.precision, 33)
        values = [_WIDE.scaleb(Decimal(d % most - most // 2), -kind.scale) for d in digits]
    elif pt.is_floating(kind):
        values = (whole / 1e3).astype(kind.to_pandas_dtype()).tolist()
    else:
        values = (whole % (1 << (min(kind.bit_width, 32) - 1))).tolist()
    return pa.array([None if n else v for v, n in zip(values, null, strict=True)], kind)


KINDS = {
    "i8": pa.int8(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "d5": pa.decimal128(5, 2),
    "d15": pa.decimal128(15, 2),
    "d30": pa.decimal128(30, 0),
    "d34": pa.decimal128(34, 4),
    "d38": pa.decimal128(38, 10),
    "d38f": pa.decimal128(38, 36),
}


@pytest.mark.spark
def test_equal_to_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    codes = np.random.default_rng(4).integers(0, GROUPS, 200)
    table = pa.table(
        {"code": codes}
        | {name: _column(kind, codes, seed) for seed, (name, kind) in enumerate(KINDS.items())}
    )
    wanted = [(name, kind) for name in KINDS for kind in Kind]
    theirs = (
        spark.createDataFrame(table)
        .groupBy("code")
        .agg(*[F.expr(f"{NAMES[kind]}({name})").alias(f"{kind}_{name}") for name, kind in wanted])
        .toArrow()
        .sort_by("code")
    )
    for name, kind in wanted:
        expected = theirs[f"{kind}_{name}"]
        numbers = read(table[name].combine_chunks())
        sums = Sums.of(numbers, codes, groups=GROUPS, spread=True)
        actual = answer(kind, sums, values=KINDS[name])
        assert actual.type == expected.type, (name, kind)
        assert actual.is_null().to_pylist() == expected.combine_chunks().is_null().to_pylist()
        if pt.is_floating(expected.type):
            mine, others = actual.drop_null().to_pylist(), expected.drop_null().to_pylist()
            assert mine == pytest.approx(others, rel=1e-12), (name, kind)
        else:
            assert actual.to_pylist() == expected.to_pylist(), (name, kind)


@pytest.mark.spark
def test_values_that_are_no_numbers(spark: SparkSession) -> None:
    """NaN and infinity: as Spark answers, group by group."""
    from pyspark.sql import functions as F

    nan, inf = math.nan, math.inf
    rows = [[1.0, nan], [inf, 1.0], [inf, -inf], [nan], [inf], [-0.0, 0.0]]
    codes = np.array([code for code, values in enumerate(rows) for _ in values])
    values = np.array([value for group in rows for value in group])
    table = pa.table({"code": codes, "x": values})
    theirs = (
        spark.createDataFrame(table)
        .groupBy("code")
        .agg(*[F.expr(f"{name}(x)").alias(name) for name in NAMES.values()])
        .toArrow()
        .sort_by("code")
    )
    sums = Sums.of(Numbers(values, None), codes, groups=len(rows), spread=True)
    for kind, name in NAMES.items():
        actual = answer(kind, sums, values=pa.float64()).to_pylist()
        assert list(map(str, actual)) == list(map(str, theirs[name].to_pylist())), kind


def test_a_spread_far_from_all_others_is_not_lost() -> None:
    """Groups of small spread whose means lie further apart than a float has digits."""
    values = np.array([4.6e18, 1.0, 3.0, 4.6e18, -4.6e18, 7.0])
    codes = np.array([0, 1, 1, 0, 2, 3])
    parts = [Sums.of(Numbers(values[part], None), codes[part], groups=4, spread=True)
             for part in (slice(0, 2), slice(2, 6))]  # fmt: skip
    for sums in (parts[0] + parts[1],
                 Sums.of(Numbers(values, None), codes, groups=4, spread=True)):  # fmt: skip
        assert answer(Kind.VAR_POP, sums, values=pa.float64()).to_pylist() == [0.0, 1.0, 0.0, 0.0]


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    most = Numbers(np.full(2, 2**62), None, 0, (2**62, 2**62))
    with pytest.raises(ArithmeticFailed, match="int64"):
        answer(Kind.SUM, Sums.of(most), values=pa.int64())
    wide = Numbers(np.array([10**38 - 1, 1], object), None, 0, (1, 10**38 - 1))
    with pytest.raises(ArithmeticFailed, match="decimal128"):
        answer(Kind.SUM, Sums.of(wide), values=pa.decimal128(38, 0))


def test_a_mean_is_rounded_half_away_from_zero() -> None:
    # 1/8 of a unit at scale 4: 0.00005 up, and -0.00005 down.
    codes = np.repeat([0, 1], 8)
    values = np.array([4] + [0] * 7 + [-4] + [0] * 7)
    sums = Sums.of(Numbers(values, None, 4, (-4, 4)), codes, groups=2)
    assert result_type(Kind.AVG, pa.decimal128(9, 4)) == pa.decimal128(13, 8)
    assert answer(Kind.AVG, sums, values=pa.decimal128(9, 4)).to_pylist() == [
        Decimal("0.00005000"),
        Decimal("-0.00005000"),
    ]
    third = Sums.of(Numbers(np.array([1, 1, 0]), None, 0, (0, 1)))
    assert answer(Kind.AVG, third, values=pa.decimal128(3, 0)).to_pylist() == [Decimal("0.6667")]
    half = Sums.of(Numbers(np.array([-1] + [0] * 31), None, 0, (-1, 0)))
    assert answer(Kind.AVG, half, values=pa.decimal128(3, 0)).to_pylist() == [Decimal("-0.0313")]
