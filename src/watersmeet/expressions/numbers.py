"""Columns of numbers that lose nothing: integers with a scale, or floats, and which are null.

Decimals are integers times a power of ten. They are kept in 64 bits as long as that is proven
enough: every column knows bounds on its values, and an operation whose bounds leave 64 bits is
done in Python's integers instead, which is slow and exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.errors import WatersmeetError
from watersmeet.expressions.promotion import spark_type
from watersmeet.kernels.decimals import low_words, valid_low_words
from watersmeet.rows.buffers import aligned, fixed_bytes
from watersmeet.rows.dictionaries import taken, words_at

Mask = NDArray[np.bool_]
Bounds = tuple[int, int]
LONG: Bounds = (-(1 << 63), (1 << 63) - 1)


class ArithmeticFailed(WatersmeetError, ArithmeticError):
    """A value does not fit its type or a divisor is zero: an error in SQL's ANSI mode."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """One number for each row: `values / 10**scale`, or `values` where they are floats.

    `values` is int64, float32, float64, or Python integers in an object array. `valid` is false
    where a row is null, None when none is. Of exact values no one is outside `bounds`, those
    under nulls included; a constant may have no dimension.
    """

    values: NDArray[Any]
    valid: Mask | None
    scale: int = 0
    bounds: Bounds = (0, 0)

    @property
    def exact(self) -> bool:
        return self.values.dtype.kind != "f"

    def spread(self, rows: int) -> Numbers:
        """One value for each row, also of a constant, and zero where it is null."""
        values = np.ascontiguousarray(np.broadcast_to(self.values, rows))
        if self.valid is None:
            return Numbers(values, None, self.scale, self.bounds)
        valid = np.ascontiguousarray(np.broadcast_to(self.valid, rows))
        low, high = self.bounds
        values = np.where(valid, values, values.dtype.type(0) if values.dtype != object else 0)
        return Numbers(values, valid, self.scale, (min(low, 0), max(high, 0)))

    def taken(self, index: NDArray[np.int64]) -> Numbers:
        """The values of these rows."""
        valid = None if self.valid is None else self.valid[index]
        return Numbers(self.values[index], valid, self.scale, self.bounds)

    def tight(self) -> Numbers:
        """The same with the closest bounds there are, and back in 64 bits if they allow it."""
        if not self.values.size:
            return Numbers(self.values.astype(np.int64), self.valid, self.scale)
        bounds = int(self.values.min()), int(self.values.max())
        values = self.values
        if values.dtype == object and inside(bounds, LONG):
            values = values.astype(np.int64)
        return Numbers(values, self.valid, self.scale, bounds)

    def floats(self) -> NDArray[np.float64]:
        """The nearest float64 to each value, as Java's `BigDecimal.doubleValue` gives it."""
        values = self.values
        if not self.exact or self.scale == 0:
            return np.asarray(values, np.float64)
        # A quotient of two integers that floats hold exactly is the nearest float; else Python's
        # division of integers, which rounds once whatever their size.
        if self.scale > 22 or not inside(self.bounds, (-(1 << 53), 1 << 53)):
            values = np.asarray(values, object)
            return np.asarray(values / 10**self.scale, np.float64)
        return np.asarray(np.true_divide(values, 10.0**self.scale))

    def at_scale(self, scale: int) -> Numbers:
        """The same values with more digits behind the point."""
        if scale == self.scale:
            return self
        factor = Numbers(np.asarray(10 ** (scale - self.scale), object), None).tight()
        product = exactly(np.multiply, self, factor, products)
        return Numbers(product.values, self.valid, scale, product.bounds)


def inside(bounds: Bounds, limits: Bounds) -> bool:
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Rows that are in both masks; None is a mask of all rows."""
    if left is None or right is None:
        return right if left is None else left
    return np.asarray(left & right)


def sums(left: Bounds, right: Bounds) -> Bounds:
    return left[0] + right[0], left[1] + right[1]


def differences(left: Bounds, right: Bounds) -> Bounds:
    return left[0] - right[1], left[1] - right[0]


def products(left: Bounds, right: Bounds) -> Bounds:
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


def exactly(
    operation: Callable[[Any, Any], Any],
    left: Numbers,
    right: Numbers,
    bounds_of: Callable[[Bounds, Bounds], Bounds],
) -> Numbers:
    """An operation on integers, in 64 bits where the bounds prove that nothing overflows.

    The scale of the result is left to the caller.
    """
    valid = both(left.valid, right.valid)
    for attempt in range(2):
        bounds = bounds_of(left.bounds, right.bounds)
        if inside(bounds, LONG) and left.values.dtype == right.values.dtype == np.int64:
            return Numbers(np.asarray(operation(left.values, right.values)), valid, 0, bounds)
        if not attempt:
            left, right = left.tight(), right.tight()
    values = operation(left.values.astype(object), right.values.astype(object))
    return Numbers(np.asarray(values, object), valid).tight()


def read(array: pa.Array) -> Numbers:
    """A numeric column as numbers: without a copy if it has 64-bit values and no nulls."""
    if pt.is_dictionary(array.type):
        if len(array) >= len(array.dictionary) and not array.null_count:
            # What all values lie between is known from those of the dictionary.
            known = read(array.dictionary)
            if known.valid is None and known.values.dtype in (np.int64, np.float64):
                return replace(known, values=words_at(known.values, array.indices))
        array = taken(array, None)
    dtype, scale = _as_stored(array.type)
    if dtype is None:
        kind = spark_type(array.type)
        if array.type != kind:
            array = array.cast(kind)
        if not pt.is_decimal(kind):
            dtype = np.dtype(kind.to_pandas_dtype())
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    if dtype is None:
        return _decimals(array, array.type, valid)
    values = aligned(fixed_bytes(array, dtype.itemsize).view(dtype))
    if valid is not None:
        values = np.where(valid, values, dtype.type(0))
    if dtype.kind == "f":
        return Numbers(values, valid)
    bounds = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return Numbers(values.astype(np.int64, copy=False), valid, scale, bounds)


@lru_cache
def _as_stored(kind: pa.DataType) -> tuple[np.dtype[Any] | None, int]:
    """The type and the scale of numbers that are read as their bytes stand; None of others."""
    if pt.is_decimal64(kind):
        return np.dtype(np.int64), kind.scale
    if kind in (pa.int32(), pa.int64(), pa.float64()):
        return np.dtype(kind.to_pandas_dtype()), 0
    return None, 0


def written(numbers: Numbers, kind: pa.DataType) -> pa.Array | pa.Scalar:
    """Numbers as a column of a type that holds them; a constant as one value."""
    if not numbers.values.ndim and (numbers.valid is None or not numbers.valid.ndim):
        return written(numbers.spread(1), kind)[0]
    rows = numbers.values.size if numbers.values.ndim else len(numbers.valid)  # type: ignore[arg-type]
    spread = numbers.spread(rows)
    null = None if spread.valid is None else ~spread.valid
    if pt.is_decimal(kind):
        return _as_decimals(spread.at_scale(kind.scale), kind, null)
    if pt.is_floating(kind):
        return pa.array(np.asarray(spread.values, kind.to_pandas_dtype()), kind, mask=null)
    values = np.asarray(spread.values, np.dtype(f"i{kind.bit_width // 8}"))
    counted = pa.array(values, mask=null)
    return counted if pt.is_integer(kind) else counted.view(kind)


def _as_decimals(numbers: Numbers, kind: pa.DataType, null: Mask | None) -> pa.Array:
    words = np.empty((len(numbers.values), 2), np.int64)
    if numbers.values.dtype == object:
        words[:, 0] = (numbers.values & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)
        words[:, 1] = (numbers.values >> 64).astype(np.int64)
    else:
        words[:, 0], words[:, 1] = numbers.values, numbers.values >> 63
    valid = None if null is None else pa.array(~null).buffers()[1]
    return pa.Array.from_buffers(kind, len(words), [valid, pa.py_buffer(words)])


def _decimals(array: pa.Array, kind: pa.DataType, valid: Mask | None) -> Numbers:
    words = aligned(fixed_bytes(array, 16).view(np.int64))
    values = np.empty(len(array), np.int64)
    if valid is None:
        least, most, fit = low_words(words, values)
    else:
        least, most, fit = valid_low_words(words, valid, values)
    if fit:
        return Numbers(values, valid, kind.scale, (int(least), int(most)))
    high, low = words[1::2].astype(object), words[::2].view(np.uint64).astype(object)
    wide = high * (1 << 64) + low
    if valid is not None:
        wide = np.where(valid, wide, 0)
    return Numbers(wide, valid, kind.scale).tight()
