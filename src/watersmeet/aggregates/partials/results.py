"""From exact sums to the answer: the types and the last digit that Spark's own aggregates have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.aggregates.partials.sums import Floats, Sums
from watersmeet.estimators.quantities import Kind
from watersmeet.expressions.numbers import LONG, ArithmeticFailed, Bounds, Mask
from watersmeet.expressions.promotion import MOST_DIGITS

# Digits that Spark adds for the sum of many values, and for their mean.
_SUM_DIGITS, _MEAN_DIGITS = 10, 4
_WORD = (1 << 64) - 1


def result_type(kind: Kind, values: pa.DataType | None = None) -> pa.DataType:
    """The type of an aggregate of values of a type.

    >>> result_type(Kind.SUM, pa.decimal128(32, 4)), result_type(Kind.AVG, pa.decimal128(15, 2))
    (Decimal128Type(decimal128(38, 4)), Decimal128Type(decimal128(19, 6)))
    """
    if kind is Kind.COUNT:
        return pa.int64()
    assert values is not None
    if pt.is_decimal(values) and kind is Kind.SUM:
        return pa.decimal128(min(MOST_DIGITS, values.precision + _SUM_DIGITS), values.scale)
    if pt.is_decimal(values) and kind is Kind.AVG:
        precision, scale = values.precision + _MEAN_DIGITS, values.scale + _MEAN_DIGITS
        return pa.decimal128(min(MOST_DIGITS, precision), min(MOST_DIGITS, scale))
    return pa.int64() if pt.is_integer(values) and kind is Kind.SUM else pa.float64()


def answer(kind: Kind, sums: Sums, *, values: pa.DataType | None = None) -> pa.Array:
    """One value for each group. A group without numbers has no sum and no mean, but a count."""
    target = result_type(kind, values)
    if kind is Kind.COUNT:
        return pa.array(sums.count, target)
    some = sums.count > 0
    if kind is Kind.SUM and not pt.is_floating(target):
        return _exact(sums.total.values, some, target)
    if kind is Kind.AVG and pt.is_decimal(target):
        return _exact(_mean(sums, target), some, target)
    if kind is Kind.SUM:
        return pa.array(sums.floats(), target, mask=~some)
    with np.errstate(invalid="ignore", divide="ignore"):
        if kind is Kind.AVG:
            return pa.array(sums.floats() / sums.count, target, mask=~some)
        return _spread(kind, sums)


def _mean(sums: Sums, target: pa.DataType) -> NDArray[Any]:
    """Rounded half away from zero to the type's scale."""
    count = np.maximum(sums.count, 1).astype(object)
    total = sums.total.values.astype(object)
    size = np.abs(total) * 10 ** (target.scale - sums.total.scale)
    size = (size * 2 + count) // (count * 2)
    return np.asarray(np.where(np.asarray(total < 0, np.bool_), -size, size), object)


def _spread(kind: Kind, sums: Sums) -> pa.Array:
    if sums.squares is None:
        raise ValueError("A variance needs sums that were made with their spread.")
    count = sums.count.astype(np.float64)
    # One infinite value leaves no mean to be about.
    about_mean: Floats = np.where(np.isfinite(sums.floats()), sums.squares, np.nan)
    fewer = 1.0 if kind.of_sample else 0.0
    spread = about_mean / (count - fewer)
    if kind.is_root:
        spread = np.sqrt(spread)
    return pa.array(spread, pa.float64(), mask=count <= fewer)


def _exact(values: NDArray[Any], some: Mask, target: pa.DataType) -> pa.Array:
    limits = _limits(target)
    if np.any(((values < limits[0]) | (values > limits[1])) & some):
        raise ArithmeticFailed(
            f"A sum or mean does not fit its type {target}.",
            remedy="Cast the expression to a wider type, or to double.",
        )
    values = np.where(some, values, 0)
    if not pt.is_decimal(target):
        return pa.array(values.astype(np.int64), target, mask=~some)
    wide = values.astype(object)
    words = np.empty((len(values), 2), np.uint64)
    words[:, 0], words[:, 1] = wide & _WORD, (wide >> 64) & _WORD
    known = pa.array(some).buffers()[1]
    return pa.Array.from_buffers(target, len(values), [known, pa.py_buffer(words)])


def _limits(target: pa.DataType) -> Bounds:
    if not pt.is_decimal(target):
        return LONG
    most = 10**target.precision - 1
    return -most, most
