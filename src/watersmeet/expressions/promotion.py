"""Which type an operation has: Spark's rules with ANSI mode on, its default since Spark 4.

Decimals follow Spark's `DecimalPrecision`: a sum or product has as many digits as its exact value
can need. Where that is more than 38, Spark gives up digits behind the point; we refuse, because an
answer that depends on the order of rounding is not one that two engines can agree on.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import SchemaError

MOST_DIGITS = 38
# What Spark keeps behind the point when digits run out (`DecimalType.MINIMUM_ADJUSTED_SCALE`).
_LEAST_SCALE = 6
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
# Parquet's unsigned integers, as Spark reads them.
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column of this Arrow type has in Spark."""
    if pt.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pt.is_decimal(kind):
        if kind.precision > MOST_DIGITS or not 0 <= kind.scale <= kind.precision:
            raise SchemaError(
                f"A column is of type {kind}; Spark's decimals have at most {MOST_DIGITS} digits, "
                "and not more of them behind the point than there are.",
                remedy="Cast it to a smaller decimal, or to double.",
            )
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    return _UNSIGNED.get(kind, kind)


def is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_signed_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def holds_all(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether every value of a type of numbers is one of the other type too.

    >>> holds_all(pa.int32(), pa.float64()), holds_all(pa.int64(), pa.float64())
    (True, False)
    """
    if kind == other:
        return True
    if pt.is_decimal128(other):
        if not (pt.is_decimal128(kind) or kind in _INTEGERS):
            return False
        # Spark gives a long 20 digits; 19 hold all of its values.
        digits, scale = (19, 0) if kind == pa.int64() else _digits(as_decimal(kind))
        return bool(other.precision - other.scale >= digits and other.scale >= scale)
    if other == pa.float64():
        return kind in (pa.int8(), pa.int16(), pa.int32(), pa.float32())
    if kind in _INTEGERS and other in _INTEGERS:
        return _INTEGERS.index(kind) < _INTEGERS.index(other)
    return False


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Before and behind the point."""
    return kind.precision - kind.scale, kind.scale


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an exact type."""
    return kind if pt.is_decimal(kind) else pa.decimal128(_DIGITS[kind], 0)


def arithmetic_type(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of `left operator right`, for + - * / and %.

    >>> arithmetic_type("*", pa.decimal128(15, 2), pa.decimal128(16, 2))
    Decimal128Type(decimal128(32, 4))
    >>> arithmetic_type("/", pa.int32(), pa.int32())
    DataType(double)
    """
    if pt.is_floating(left) or pt.is_floating(right):
        return pa.float32() if left == right == pa.float32() and operator != "/" else pa.float64()
    if not (pt.is_decimal(left) or pt.is_decimal(right)):
        return pa.float64() if operator == "/" else max(left, right, key=_INTEGERS.index)
    return _decimal_type(operator, as_decimal(left), as_decimal(right))


def _decimal_type(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    wholes = left.precision - left.scale, right.precision - right.scale
    match operator:
        case "+" | "-":
            scale = max(left.scale, right.scale)
            digits = max(wholes) + scale + 1
        case "*":
            scale = left.scale + right.scale
            digits = left.precision + right.precision + 1
        case "%":
            scale = max(left.scale, right.scale)
            digits = min(wholes) + scale
        case _:
            scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
            digits = wholes[0] + right.scale + scale
    if digits <= MOST_DIGITS:
        return pa.decimal128(digits, scale)
    kept = max(MOST_DIGITS - (digits - scale), min(scale, _LEAST_SCALE))
    # A quotient is rounded in any case, so giving up digits changes only where.
    if kept < scale and operator != "/":
        raise _too_many(f"{_name(left)} {operator} {_name(right)}", digits)
    return pa.decimal128(MOST_DIGITS, kept)


def common_type(kinds: list[pa.DataType]) -> pa.DataType | None:
    """The one type for the values of CASE, IF and coalesce; None where Spark has none."""
    common = pa.null()
    for kind in kinds:
        if pt.is_null(common) or common == kind:
            common = kind
        elif is_number(common) and is_number(kind):
            common = _wider(common, kind)
        elif not pt.is_null(kind):
            return None
    return common


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pt.is_floating(left) or pt.is_floating(right):
        return pa.float64()
    if not (pt.is_decimal(left) or pt.is_decimal(right)):
        return max(left, right, key=_INTEGERS.index)
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    if digits > MOST_DIGITS:
        raise _too_many(f"{_name(left)} beside {_name(right)}", digits)
    return pa.decimal128(digits, scale)


def _name(kind: pa.DataType) -> str:
    return f"decimal({kind.precision}, {kind.scale})"


def _too_many(what: str, digits: int) -> SchemaError:
    return SchemaError(
        f"{what} needs {digits} digits and a decimal has {MOST_DIGITS}: "
        "the value would be rounded on the way.",
        remedy="Cast a part of it to a smaller decimal, or to double.",
    )
