"""Functions of columns whose values are Spark's for every argument, in Arrow or in numpy.

Each is null where an argument is null, and none can fail. Days and instants come as whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.expressions import calendar
from watersmeet.expressions.nodes import Call
from watersmeet.expressions.truth import Data

# Days of the years 0 to 9999, which Arrow writes as Spark does.
_FOUR_DIGITS = (-719_528, 2_932_896)


def called(node: Call, operands: Sequence[Data]) -> Data:
    """Its value for each row; one value if all operands are."""
    constant = all(isinstance(operand, pa.Scalar) for operand in operands)
    if constant:
        operands = [pa.array([operand.as_py()], operand.type) for operand in operands]
    if (counted := _COUNTED.get(node.function)) is not None:
        found = _computed(counted, operands, node)
    else:
        found = _IN_ARROW[node.function](operands, node.parameters)
    found = found if found.type == node.kind else found.cast(node.kind)
    return found[0] if constant else found


def _computed(
    function: Callable[..., NDArray[Any]], operands: Sequence[Data], node: Call
) -> pa.Array:
    """A function of whole numbers, by numpy. What stands under nulls is not looked at."""
    rows = max(len(operand) for operand in operands if isinstance(operand, pa.Array))
    null = np.zeros(rows, np.bool_)
    values = []
    for operand in operands:
        array = pa.repeat(operand, rows) if isinstance(operand, pa.Scalar) else operand
        if array.null_count:
            null |= array.is_null().to_numpy(zero_copy_only=False)
            array = array.fill_null(0)
        values.append(array.to_numpy(zero_copy_only=False))
    found = function(*values, *node.parameters)
    width = np.dtype(f"i{node.kind.bit_width // 8}")
    counted = pa.array(np.asarray(found).astype(width, copy=False), mask=null)
    return counted if pt.is_integer(node.kind) else counted.view(node.kind)


def _quotient(values: NDArray[Any], divisor: int) -> NDArray[Any]:
    """Towards zero, as in Java."""
    quotient = values // divisor
    return np.asarray(quotient + ((values % divisor != 0) & ((values < 0) != (divisor < 0))))


def _shifted_left(values: NDArray[Any], by: int) -> NDArray[Any]:
    # Java looks at as many bits of the distance as there are distances.
    return np.asarray(np.left_shift(values, values.dtype.type(by % (8 * values.itemsize))))


def _shifted_right(values: NDArray[Any], by: int) -> NDArray[Any]:
    return np.asarray(np.right_shift(values, values.dtype.type(by % (8 * values.itemsize))))


def _text(operands: Sequence[Data], parameters: Sequence[int | str]) -> Data:
    (values,) = operands
    if not pt.is_date32(values.type):
        return values.cast(pa.string())
    days = values.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    odd = (days < _FOUR_DIGITS[0]) | (days > _FOUR_DIGITS[1])
    if not odd.any():
        return values.cast(pa.string())
    plain = pc.if_else(pa.array(odd), pa.scalar(None, pa.date32()), values).cast(pa.string())
    others = pa.array(calendar.date_texts(days[odd]), pa.string())
    return pc.replace_with_mask(plain, pa.array(odd), others)


def _slice(operands: Sequence[Data], parameters: Sequence[int | str]) -> Data:
    start, stop = parameters
    return pc.utf8_slice_codeunits(operands[0], start=start, stop=stop)


def _padded(side: str) -> Callable[[Sequence[Data], Sequence[Any]], Data]:
    pad = pc.utf8_lpad if side == "left" else pc.utf8_rpad
    return lambda operands, parameters: pad(operands[0], *parameters)


def _joined(operands: Sequence[Data], parameters: Sequence[int | str]) -> Data:
    return pc.binary_join_element_wise(*operands, pa.scalar(""))


def _with_replaced(operands: Sequence[Data], parameters: Sequence[Any]) -> Data:
    pattern, replacement = parameters
    return pc.replace_substring(operands[0], pattern=pattern, replacement=replacement)


_IN_ARROW: dict[str, Callable[[Sequence[Data], Sequence[Any]], Data]] = {
    "text": _text,
    "length": lambda operands, _: pc.utf8_length(operands[0]),
    "slice": _slice,
    "joined": _joined,
    "replaced": _with_replaced,
    "padded left": _padded("left"),
    "padded right": _padded("right"),
    "trimmed": lambda operands, _: pc.utf8_trim(operands[0], characters=" "),
    "trimmed left": lambda operands, _: pc.utf8_ltrim(operands[0], characters=" "),
    "trimmed right": lambda operands, _: pc.utf8_rtrim(operands[0], characters=" "),
    "floor": lambda operands, _: pc.floor(operands[0]),
    "ceiling": lambda operands, _: pc.ceil(operands[0]),
    "root": lambda operands, _: pc.sqrt(operands[0]),
    "and": lambda operands, _: pc.bit_wise_and(*operands),
    "or": lambda operands, _: pc.bit_wise_or(*operands),
    "xor": lambda operands, _: pc.bit_wise_xor(*operands),
    "not": lambda operands, _: pc.bit_wise_not(operands[0]),
}
_COUNTED: dict[str, Callable[..., NDArray[Any]]] = {
    "year": calendar.year,
    "month": calendar.month,
    "day of month": calendar.day_of_month,
    "quarter": calendar.quarter,
    "day of year": calendar.day_of_year,
    "day of week": calendar.day_of_week,
    "weekday": calendar.weekday,
    "week of year": calendar.week_of_year,
    "last day": calendar.last_day,
    "first day": calendar.first_day,
    "day": calendar.days,
    "hour": calendar.hour,
    "minute": calendar.minute,
    "second": calendar.second,
    "first instant": calendar.first_instant,
    # Without a check, in 32 bits, as Spark adds days.
    "days after": lambda day, days: day.astype(np.int64) + days,
    "days before": lambda day, days: day.astype(np.int64) - days,
    "quotient": _quotient,
    "rounded down": lambda values, divisor: values // divisor,
    "same": lambda values: values,
    "shifted left": _shifted_left,
    "shifted right": _shifted_right,
}
