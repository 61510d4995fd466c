"""In which type two key columns are compared, so that equality means what it means in Spark.

Spark casts both sides of `=` to a common type. We follow it where the cast depends on nothing but
the two types, and refuse where Spark's answer would depend on the session's time zone, on parsing
text, or on digits that its 38-digit decimals round away.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.errors import SchemaError

# Digits of each integer type as Spark counts them when it meets a decimal (20 for a bigint).
_DIGITS = {
    pa.int8(): 3,
    pa.int16(): 5,
    pa.int32(): 10,
    pa.int64(): 20,
    pa.uint8(): 3,
    pa.uint16(): 5,
    pa.uint32(): 10,
    pa.uint64(): 20,
}
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNITS = ("s", "ms", "us", "ns")
_SPARK_DIGITS = 38
_ARROW_DIGITS = 76
# Whole numbers of up to so many bits are exact as doubles.
_EXACT_BITS = 53
# Metadata of a key column: to how many characters Spark pads its texts before it compares them.
_PADDED = b"watersmeet.padded"


class Incomparable(Exception):
    """Says why two types have no common type, and what to do about it."""

    def __init__(self, reason: str, remedy: str = "Cast one side to the other's type.") -> None:
        super().__init__(reason)
        self.remedy = remedy


def comparison_type(left: pa.Field, right: pa.Field) -> pa.DataType:
    """The type in which these two key columns are compared."""
    try:
        return common_type(left.type, right.type)
    except Incomparable as reason:
        raise SchemaError(
            f"Key columns {left.name!r} ({left.type}) and {right.name!r} ({right.type}) "
            f"cannot be compared: {reason}.",
            remedy=reason.remedy,
        ) from None


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    left, right = plain(left), plain(right)
    if pt.is_null(left) and not pt.is_null(right):
        left = right
    elif pt.is_null(right):
        right = left
    if pt.is_struct(left) and pt.is_struct(right):
        return _common_struct(left, right)
    if left == right:
        return _supported(left)
    for rule in (_common_number, _common_bytes, _common_moment):
        found = rule(left, right)
        if found is not None:
            return found
    for kind in (left, right):
        _supported(kind)
    raise Incomparable("Spark has no rule for it, or one that parses text or asks the time zone")


def plain(kind: pa.DataType) -> pa.DataType:
    """The type in which two columns of this type are compared: without encodings and extensions."""
    if pt.is_dictionary(kind):
        return plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pt.is_string_view(kind):
        return pa.large_string()
    if pt.is_binary_view(kind):
        return pa.large_binary()
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_decimal(kind) and not pt.is_decimal256(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _supported(kind: pa.DataType) -> pa.DataType:
    simple = (
        pt.is_null(kind)
        or pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_decimal(kind)
        or pt.is_date(kind)
        or pt.is_time(kind)
        or pt.is_timestamp(kind)
        or pt.is_duration(kind)
        or is_bytes(kind)
    )
    empty = pt.is_fixed_size_binary(kind) and kind.byte_width == 0
    if not simple or empty:
        raise Incomparable(
            f"{kind} is not supported as a key", "Join on a column of simple values."
        )
    return kind


def is_whole(kind: pa.DataType) -> bool:
    """Whether values of a type are whole numbers, of which equal ones have equal bits."""
    return bool(pt.is_integer(kind) or pt.is_date(kind) or pt.is_timestamp(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
    )


def _common_struct(left: pa.StructType, right: pa.StructType) -> pa.DataType:
    if left.num_fields != right.num_fields:
        raise Incomparable("the structs have different numbers of fields")
    if left.num_fields == 0:
        raise Incomparable("a struct without fields has no value", "Leave it out of the key.")
    # Fields are compared by position, whatever their names; Spark casts them if the names agree.
    fields = []
    for mine, other in zip(left, right, strict=True):
        kind = common_type(mine.type, other.type)
        renamed = mine.name.lower() != other.name.lower() and not pt.is_struct(kind)
        if renamed and plain(mine.type) != plain(other.type):
            raise Incomparable(f"fields {mine.name!r} and {other.name!r} differ in name and type")
        fields.append(pa.field(mine.name, kind, mine.nullable or other.nullable))
    return pa.struct(fields)


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    numbers = (pt.is_integer, pt.is_floating, pt.is_decimal)
    if not all(any(test(kind) for test in numbers) for kind in (left, right)):
        return None
    if pt.is_floating(left) or pt.is_floating(right):
        return pa.float64()
    if pt.is_decimal(left) or pt.is_decimal(right) or pa.uint64() in (left, right):
        return _common_decimal(left, right)
    # Spark has signed integers only; an unsigned one fits the signed type twice as wide.
    bits = [k.bit_width * (2 if pt.is_unsigned_integer(k) else 1) for k in (left, right)]
    return _SIGNED[max(bits)]


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    digits, scales = [], []
    for kind in (left, right):
        scale = kind.scale if pt.is_decimal(kind) else 0
        whole = kind.precision - scale if pt.is_decimal(kind) else _DIGITS[kind]
        scales.append(scale)
        digits.append(whole)
    precision = max(digits) + max(scales)
    wide = pt.is_decimal256(left) or pt.is_decimal256(right)
    if precision > (_ARROW_DIGITS if wide else _SPARK_DIGITS):
        raise Incomparable(f"it would take {precision} digits, and Spark would round them")
    make = pa.decimal256 if wide else pa.decimal128
    return make(precision, max(scales))


def _common_bytes(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Text and binary are compared as bytes: Spark casts the text to binary, unchanged."""
    if not is_bytes(left) or not is_bytes(right):
        return None
    texts = [pt.is_string(kind) or pt.is_large_string(kind) for kind in (left, right)]
    large = any(pt.is_large_string(k) or pt.is_large_binary(k) for k in (left, right))
    if all(texts):
        return pa.large_string() if large else pa.string()
    return pa.large_binary() if large else pa.binary()


def _common_moment(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pt.is_date(left) and pt.is_date(right):
        # In milliseconds: a date64 that is not midnight equals itself, and no date32.
        return pa.date64()
    if pt.is_date(left) and pt.is_timestamp(right):
        left, right = right, left
    if pt.is_timestamp(left) and pt.is_date(right):
        if left.tz is not None:
            raise Incomparable("Spark's answer depends on the session's time zone")
        # A date32 is a midnight, which every unit can express; a date64 may be any millisecond.
        return pa.timestamp(_finer(left.unit, "ms")) if pt.is_date64(right) else left
    if pt.is_timestamp(left) and pt.is_timestamp(right):
        if (left.tz is None) != (right.tz is None):
            raise Incomparable("Spark's answer depends on the session's time zone")
        return pa.timestamp(_finer(left.unit, right.unit), left.tz)
    if pt.is_duration(left) and pt.is_duration(right):
        return pa.duration(_finer(left.unit, right.unit))
    if pt.is_time(left) and pt.is_time(right):
        unit = _finer(left.unit, right.unit)
        return pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit)
    return None


def _finer(one: str, two: str) -> str:
    return max(one, two, key=_UNITS.index)


def ticks_per_second(kind: pa.DataType) -> int:
    """How many units of a type of times or dates make a second."""
    unit = "ms" if pt.is_date64(kind) else kind.unit
    return int(1000 ** _UNITS.index(unit))


def with_padding(field: pa.Field, length: int) -> pa.Field:
    """A text column that is compared as if padded with blanks to `length` characters."""
    return field.with_metadata({_PADDED: str(length).encode()})


def padding_of(field: pa.Field) -> int:
    return int((field.metadata or {}).get(_PADDED, 0))


def padded(texts: pa.Array, length: int) -> pa.Array:
    """Texts padded with blanks, as Spark's rpad does it: longer ones are cut."""
    cut = pc.utf8_slice_codeunits(texts, 0, length)
    return pc.utf8_rpad(cut, width=length, padding=" ")


def unwrapped(array: pa.Array) -> pa.Array:
    """The same values in the type that `plain` returns."""
    while pt.is_dictionary(array.type) or isinstance(array, pa.ExtensionArray):
        array = array.storage if isinstance(array, pa.ExtensionArray) else array.dictionary_decode()
    wanted = plain(array.type)
    return array if wanted == array.type else array.cast(wanted)


def rounds(source: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether `converted` may make one value of several: only doubles have fewer digits than other
    types that are compared as doubles.

    >>> rounds(pa.int64(), pa.float64()), rounds(pa.int32(), pa.float64())
    (True, False)
    """
    source = plain(source)
    if pt.is_struct(wanted) and pt.is_struct(source):
        return any(rounds(one.type, two.type) for one, two in zip(source, wanted, strict=True))
    if not pt.is_floating(wanted) or pt.is_floating(source) or pt.is_null(source):
        return False
    return not pt.is_integer(source) or source.bit_width > _EXACT_BITS


def as_bytes(array: pa.Array) -> pa.Array:
    """Texts or bytes of any type as bytes."""
    if pt.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return array.cast(pa.large_binary())


def converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in the type they were compared in, as Spark's cast gives them."""
    array = unwrapped(array)
    if array.type == wanted:
        return array
    if pt.is_struct(wanted) and pt.is_struct(array.type):
        children = [
            converted(child, field.type)
            for child, field in zip(array.flatten(), wanted, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pt.is_floating(wanted) and pt.is_decimal(array.type):
        # Through text, because Arrow's own cast does not round correctly and Spark's does.
        return array.cast(pa.string()).cast(wanted)
    if pt.is_floating(wanted) and pt.is_integer(array.type):
        return array.cast(wanted, safe=False)
    if pt.is_fixed_size_binary(array.type):
        return array.cast(pa.binary()).cast(wanted)
    return array.cast(wanted)
