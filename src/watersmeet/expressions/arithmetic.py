"""Operations on columns of numbers with Spark's values: exact, or what `failing` says (`nodes`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.expressions.numbers import (
    LONG,
    ArithmeticFailed,
    Bounds,
    Mask,
    Numbers,
    both,
    differences,
    exactly,
    inside,
    products,
    sums,
)

# The rows whose value is looked at; None for all.
Active = Mask | None
_EXACT = {"+": (np.add, sums), "-": (np.subtract, differences), "*": (np.multiply, products)}
_FLOAT = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "%": np.fmod}
# Spark divides decimals to this many digits behind the point before it rounds to the result's.
_QUOTIENT_SCALE = 38 + 1


def compute(
    operator: str,
    left: Numbers,
    right: Numbers,
    *,
    kind: pa.DataType,
    active: Active,
    failing: str = "error",
) -> Numbers:
    """`left operator right` as a value of type `kind`."""
    if operator in "/%":
        right = _without_zeros(operator, left, right, active, failing=failing)
    if pt.is_floating(kind):
        with np.errstate(all="ignore"):
            values = _FLOAT[operator](left.values, right.values)
        return Numbers(np.asarray(values), both(left.valid, right.valid))
    if operator == "/":
        return within(_quotient(left, right, kind), kind, active=active, failing=failing)
    scale = left.scale + right.scale
    if operator != "*":
        scale = max(left.scale, right.scale)
        left, right = left.at_scale(scale), right.at_scale(scale)
    if operator == "%":
        result = exactly(
            _remainder, left, right, lambda mine, _: (min(mine[0], 0), max(mine[1], 0))
        )
    else:
        result = exactly(_EXACT[operator][0], left, right, _EXACT[operator][1])
    found = Numbers(result.values, result.valid, scale, result.bounds)
    return within(found, kind, active=active, failing=failing)


def negated(
    numbers: Numbers, kind: pa.DataType, *, active: Active, failing: str = "error"
) -> Numbers:
    if not numbers.exact:
        return Numbers(np.asarray(-numbers.values), numbers.valid)
    nought = Numbers(np.asarray(0, np.int64), None)
    result = exactly(np.subtract, nought, numbers, differences)
    result = Numbers(result.values, numbers.valid, numbers.scale, result.bounds)
    return within(result, kind, active=active, failing=failing)


def magnitude(
    numbers: Numbers, kind: pa.DataType, *, active: Active, failing: str = "error"
) -> Numbers:
    if not numbers.exact:
        return Numbers(np.abs(numbers.values), numbers.valid)
    if numbers.bounds[0] >= 0:
        return numbers
    opposite = negated(numbers, pa.decimal128(38, 0), active=active)
    values = np.asarray(np.maximum(numbers.values, opposite.values))
    result = Numbers(values, numbers.valid, numbers.scale).tight()
    return within(result, kind, active=active, failing=failing)


def convert(
    numbers: Numbers, kind: pa.DataType, *, active: Active, failing: str = "error"
) -> Numbers:
    """CAST between types of numbers."""
    if kind == pa.float64():
        return Numbers(numbers.floats(), numbers.valid)
    if kind == pa.float32():
        with np.errstate(all="ignore"):
            return Numbers(np.asarray(numbers.values, np.float32), numbers.valid)
    if not numbers.exact:
        return _truncated(numbers, kind, active, failing=failing)
    scale = kind.scale if pt.is_decimal(kind) else 0
    if scale >= numbers.scale:
        return within(numbers.at_scale(scale), kind, active=active, failing=failing)
    divisor = 10 ** (numbers.scale - scale)
    # To a decimal: half away from zero. To an integer: cut off.
    extra = divisor // 2 if pt.is_decimal(kind) else 0
    result = _divided(numbers, divisor, extra)
    found = Numbers(result.values, result.valid, scale, result.bounds)
    return within(found, kind, active=active, failing=failing)


def within(
    numbers: Numbers, kind: pa.DataType, *, active: Active, failing: str = "error"
) -> Numbers:
    """The numbers, or an error if one that counts does not fit the type."""
    limits = limits_of(kind)
    if inside(numbers.bounds, limits):
        return numbers
    numbers = numbers.tight()
    if inside(numbers.bounds, limits):
        return numbers
    outside = (numbers.values < limits[0]) | (numbers.values > limits[1])
    if failing == "wrap":
        low, size = limits[0], limits[1] - limits[0] + 1
        wrapped = (numbers.values.astype(object) - low) % size + low
        return Numbers(np.asarray(wrapped, object), numbers.valid, numbers.scale).tight()
    if failing == "null":
        numbers = _null_where(np.asarray(outside, np.bool_), numbers)
    elif _matters(np.asarray(outside, np.bool_), numbers.valid, active):
        raise ArithmeticFailed(
            f"A value of the expression does not fit its type {kind}.",
            remedy="Cast a part of it to a wider type, or guard it with CASE WHEN.",
        )
    values = np.where(outside, 0, numbers.values)
    return Numbers(values, numbers.valid, numbers.scale).tight()


def limits_of(kind: pa.DataType) -> Bounds:
    if pt.is_decimal(kind):
        most = 10**kind.precision - 1
        return -most, most
    half = 1 << (kind.bit_width - 1)
    return -half, half - 1


def _matters(rows: Mask, valid: Mask | None, active: Active) -> bool:
    for mask in (valid, active):
        if mask is not None:
            rows = np.asarray(rows & mask)
    return bool(rows.any())


def _null_where(rows: Mask, numbers: Numbers) -> Numbers:
    valid = both(numbers.valid, np.asarray(~rows))
    return Numbers(numbers.values, valid, numbers.scale, numbers.bounds)


def _without_zeros(
    operator: str, left: Numbers, right: Numbers, active: Active, *, failing: str
) -> Numbers:
    zeros = np.asarray(right.values == 0, np.bool_)
    if not zeros.any():
        return right
    if failing != "error":
        right = _null_where(zeros, right)
    elif _matters(zeros, both(left.valid, right.valid), active):
        raise ArithmeticFailed(
            f"{'Division' if operator == '/' else 'Remainder'} by zero.",
            remedy="Guard it, as in CASE WHEN b <> 0 THEN a / b END.",
        )
    one = np.asarray(1, right.values.dtype)
    low, high = right.bounds
    bounds = (min(low, 1), max(high, 1))
    return Numbers(np.where(zeros, one, right.values), right.valid, right.scale, bounds)


def _remainder(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """With the sign of the dividend, as in Java."""
    if left.dtype != object:
        return np.asarray(np.fmod(left, right))
    return _signed(left < 0, np.abs(left) % np.abs(right), left.dtype)


def _signed(negative: Any, size: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Sizes with their signs. Of a constant NumPy makes a plain number, which may be too large for
    it to take back without being told the type."""
    below, above = np.asarray(-size, dtype), np.asarray(size, dtype)
    return np.asarray(np.where(np.asarray(negative, np.bool_), below, above), dtype)


def _divided(numbers: Numbers, divisor: int, extra: int) -> Numbers:
    """Each value over `divisor` towards zero, after moving it `extra` away from zero."""
    low, high = numbers.bounds
    values = numbers.values
    if not inside((low - extra, high + extra), (LONG[0] + 1, LONG[1])) or divisor > LONG[1]:
        values = values.astype(object)
    result = (np.abs(values) + extra) // divisor
    return Numbers(_signed(values < 0, result, values.dtype), numbers.valid).tight()


def _quotient(left: Numbers, right: Numbers, kind: pa.DataType) -> Numbers:
    """Rounded half up, first where Spark's division stops and then to the type's scale."""
    dividend = left.values.astype(object) * 10 ** (_QUOTIENT_SCALE + right.scale - left.scale)
    divisor = np.abs(right.values.astype(object))
    size = (np.abs(dividend) * 2 + divisor) // (divisor * 2)
    negative = (left.values < 0) != (right.values < 0)
    valid = both(left.valid, right.valid)
    wide = Numbers(_signed(negative, size, np.dtype(object)), valid, _QUOTIENT_SCALE).tight()
    drop = 10 ** (_QUOTIENT_SCALE - kind.scale)
    result = _divided(wide, drop, drop // 2)
    return Numbers(result.values, valid, kind.scale, result.bounds)


def _truncated(numbers: Numbers, kind: pa.DataType, active: Active, *, failing: str) -> Numbers:
    """A float without what stands behind its point."""
    whole = np.trunc(numbers.values.astype(np.float64))
    low, high = limits_of(kind)
    if failing == "wrap":
        return _saturated(whole, numbers.valid, kind)
    # Spark compares with the largest number as a float, which of 64 bits is 2**63.
    fits = (whole >= low) & (whole <= float(high))
    if failing == "null":
        numbers = _null_where(np.asarray(~fits), numbers)
    elif _matters(np.asarray(~fits), numbers.valid, active):
        raise ArithmeticFailed(
            f"A value does not fit {kind}, which it is cast to.",
            remedy="Guard it with CASE WHEN, or leave it a double.",
        )
    return _saturated(np.where(fits, whole, 0.0), numbers.valid, kind)


def _saturated(whole: NDArray[Any], valid: Mask | None, kind: pa.DataType) -> Numbers:
    """As Java makes them integers: NaN is zero, what is too large the largest. The types below 32
    bits have the last of 32."""
    wide = pa.int64() if kind == pa.int64() else pa.int32()
    low, high = limits_of(wide)
    large = whole >= float(high)
    inner = np.where(np.isnan(whole) | large, 0.0, np.maximum(whole, float(low)))
    found = Numbers(np.where(large, high, inner.astype(np.int64)), valid).tight()
    return within(found, kind, active=None, failing="wrap")
