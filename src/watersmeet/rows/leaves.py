"""The leaves of a key: arrays of plain values, whose bits are the same exactly if the values are.

A key column is one leaf. A struct has the leaves of its fields, each with a flag that says whether
it is null, because inside a struct Spark takes two nulls for equal. A key column that is null
itself matches nothing, so it needs no flag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.rows.buffers import aligned, fixed_bytes, has_offsets, variable_bytes
from watersmeet.rows.types import converted, padded, ticks_per_second, unwrapped

Mask = NDArray[np.bool_]
Fixed = NDArray[Any]
Variable = tuple[NDArray[np.uint8], NDArray[Any]]

# Decimals of up to 18 digits are one 64-bit integer, those of up to 9 fit 32 bits.
_LONG_DIGITS, _INT_DIGITS = 18, 9
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class LeafType:
    """How wide a leaf is: `bits` in a code of 64 bits, or `dtype` in a packed key.

    A leaf that is too wide for a code has no `bits`; one of variable width has no `dtype` either.
    """

    dtype: np.dtype[Any] | None
    bits: int | None


_FLAG = LeafType(np.dtype("u1"), 1)


def slots_of(kind: pa.DataType, *, nested: bool = False) -> list[LeafType]:
    """The leaves of a key column that is compared as `kind`, in the order `Leaves` fills them."""
    flag = [_FLAG] if nested else []
    if pt.is_struct(kind):
        return flag + [slot for child in kind for slot in slots_of(child.type, nested=True)]
    return [*flag, _slot(kind)]


def _slot(kind: pa.DataType) -> LeafType:
    if has_offsets(kind):
        return LeafType(None, None)
    if pt.is_boolean(kind) or pt.is_null(kind):
        return _FLAG
    if pt.is_fixed_size_binary(kind):
        return LeafType(np.dtype(f"V{kind.byte_width}"), None)
    if pt.is_decimal(kind):
        if kind.precision <= _INT_DIGITS:
            return LeafType(np.dtype("<i4"), 32)
        if kind.precision <= _LONG_DIGITS:
            return LeafType(np.dtype("<i8"), 64)
        return LeafType(np.dtype(f"V{kind.byte_width}"), None)
    letter = "u" if pt.is_floating(kind) or pt.is_unsigned_integer(kind) else "i"
    return LeafType(np.dtype(f"<{letter}{kind.byte_width}"), kind.bit_width)


@lru_cache
def _whole_numbers(kind: pa.DataType) -> np.dtype[Any] | None:
    """Of a key that is compared as its bytes stand in an array of this type; None for others."""
    if pt.is_integer(kind) or pt.is_date32(kind) or pt.is_timestamp(kind):
        return _slot(kind).dtype
    return None


@dataclass(slots=True)
class Leaves:
    """Canonical values of every leaf of a key, and which rows can match anything.

    `fixed` and `variable` are in the order of the slots with and without a dtype.
    """

    fixed: list[Fixed] = field(default_factory=list)
    variable: list[Variable] = field(default_factory=list)
    valid: Mask | None = None

    def add(self, array: pa.Array, kind: pa.DataType, *, padding: int = 0) -> None:
        """Add one key column. A row that is null here matches nothing."""
        if array.type == kind and (dtype := _whole_numbers(kind)) is not None:
            # The same as below, without asking for everything that others are.
            if array.null_count:
                self._only(array.is_valid().to_numpy(zero_copy_only=False))
            self.fixed.append(_view(array, dtype))
            return
        array = unwrapped(array)
        if padding:
            array = padded(array, padding)
        if array.null_count:
            self._only(array.is_valid().to_numpy(zero_copy_only=False))
        self._add_values(array, kind)

    def _add_nested(self, array: pa.Array, kind: pa.DataType) -> None:
        array = unwrapped(array)
        if array.null_count:
            self.fixed.append(array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8))
            if not pt.is_struct(array.type):
                # The value of a null may be any, and would make equal keys differ.
                array = _without_nulls(array, kind)
        else:
            self.fixed.append(np.ones(len(array), np.uint8))
        self._add_values(array, kind)

    def _add_values(self, array: pa.Array, kind: pa.DataType) -> None:
        if pt.is_struct(kind):
            for child, child_field in zip(_children(array, kind), kind, strict=True):
                self._add_nested(child, child_field.type)
        elif has_offsets(kind):
            if not has_offsets(array.type):
                array = converted(array, kind)
            self.variable.append(variable_bytes(array))
        else:
            self.fixed.append(self._fixed_values(array, kind))

    def _fixed_values(self, array: pa.Array, kind: pa.DataType) -> Fixed:
        if pt.is_null(kind):
            return np.zeros(len(array), np.uint8)
        if pt.is_null(array.type):
            array = array.cast(kind)
        if pt.is_boolean(kind):
            return _view(array.cast(pa.uint8()), np.dtype("u1"))
        if pt.is_floating(kind):
            return _float_bits(array, kind)
        if pt.is_decimal(kind):
            return _decimal_values(converted(array, kind), kind)
        dtype = _slot(kind).dtype
        assert dtype is not None, f"{kind} has fixed width"
        if pt.is_temporal(kind) and not pt.is_date32(kind):
            return self._moments(array, kind).astype(dtype, copy=False)
        if pt.is_integer(kind):
            return _view(array, np.dtype(array.type.to_pandas_dtype())).astype(dtype, copy=False)
        return _view(array, dtype)

    def _moments(self, array: pa.Array, kind: pa.DataType) -> Fixed:
        """Convert to the finer of the two units. A value that would overflow 64 bits there is
        marked invalid: no value of the other side can equal it."""
        ticks = ticks_per_second(kind)
        if pt.is_date32(array.type):
            factor = _SECONDS_PER_DAY * ticks
        else:
            factor = ticks // ticks_per_second(array.type)
        values = _view(array, np.dtype(f"<i{array.type.byte_width}"))
        if factor == 1:
            return values
        limit = (2**63 - 1) // factor
        values = values.astype(np.int64, copy=False)
        possible = (values <= limit) & (values >= -limit)
        if not possible.all():
            self._only(possible)
            values = np.where(possible, values, 0)
        return values * factor

    def _only(self, rows: Mask) -> None:
        self.valid = rows if self.valid is None else self.valid & rows


def _children(array: pa.Array, kind: pa.StructType) -> list[pa.Array]:
    if pt.is_null(array.type):
        return [pa.nulls(len(array), child.type) for child in kind]
    return list(array.flatten())


def _without_nulls(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_null(array.type):
        array = array.cast(kind)
    blank: Any = 0
    if has_offsets(array.type):
        blank = b"" if pt.is_binary(array.type) or pt.is_large_binary(array.type) else ""
    elif pt.is_fixed_size_binary(array.type):
        blank = bytes(array.type.byte_width)
    elif pt.is_boolean(array.type):
        blank = False
    elif pt.is_null(array.type):
        return array
    return pc.fill_null(array, pa.scalar(blank, array.type))


def _view(array: pa.Array, dtype: np.dtype[Any]) -> Fixed:
    return aligned(fixed_bytes(array, dtype.itemsize).view(dtype))


def _float_bits(array: pa.Array, kind: pa.DataType) -> Fixed:
    """Bits of a float with one zero and one NaN, as Spark normalises keys."""
    dtype = np.dtype(f"<f{kind.byte_width}")
    if pt.is_decimal(array.type):
        array = converted(array, kind)
    values = _view(array, np.dtype(array.type.to_pandas_dtype())).astype(dtype, copy=False)
    values = values + dtype.type(0.0)  # -0.0 + 0.0 is 0.0, and nothing else changes
    values[np.isnan(values)] = np.nan
    bits: Fixed = values.view(f"<u{dtype.itemsize}")
    return bits


def _decimal_values(array: pa.Array, kind: pa.DataType) -> Fixed:
    if kind.precision > _LONG_DIGITS:
        return _view(array, np.dtype(f"V{kind.byte_width}"))
    # Two's complement, low word first: a short decimal is its low word.
    words = fixed_bytes(array, kind.byte_width).view("<i8")
    low = words[:: kind.byte_width // 8]
    if kind.precision <= _INT_DIGITS:
        return low.astype(np.int32)
    return np.ascontiguousarray(low)
