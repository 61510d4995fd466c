"""Spark's functions and casts that have the same value outside Spark for every argument.

What depends on a time zone is translated where the session's is UTC, and text where Unicode's
tables do not matter; the rest is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.expressions.calendar import DAY
from watersmeet.expressions.nodes import (
    Arithmetic,
    Call,
    Case,
    Cast,
    Coalesce,
    Compare,
    IsNull,
    Literal,
    Logic,
    Ticks,
)
from watersmeet.expressions.nodes import Node as Expression
from watersmeet.expressions.promotion import is_number

if TYPE_CHECKING:
    from watersmeet.spark.scans.filters import Node, Translation

_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")
_TRUTH = pa.bool_()
_SECOND = 1_000_000
_MOST_CHARACTERS = 2**31 - 1
# Decimals with more digits behind the point may be written with an exponent.
_PLAIN_DIGITS = 6
_DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    "WEEK": "WEEK",
}
_TIME_UNITS = {
    **_DATE_UNITS,
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}


def ticks(moment: Expression) -> Ticks:
    return Ticks(moment, pa.int32() if pt.is_date32(moment.kind) else pa.int64())


def is_utc(node: Node) -> bool:
    return node.fields.get("timeZoneId") in _UTC


def failing(mode: str, kind: pa.DataType) -> str:
    """What happens to a value that does not fit, by Spark's name of the mode."""
    if mode == "ANSI":
        return "error"
    return "wrap" if mode == "LEGACY" and pt.is_integer(kind) else "null"


def cast(translation: Translation, node: Node) -> Expression:
    operand = translation.translated(node.children[0])
    kind = translation.kind(node)
    mode = translation.live(node).evalMode().toString()
    found = operand if operand.kind == kind else _converted(operand, kind, node, mode)
    if found is None:
        raise translation.refusal(node)
    return found


def _converted(operand: Expression, kind: pa.DataType, node: Node, mode: str) -> Expression | None:
    given = operand.kind
    if is_number(kind) and (is_number(given) or pt.is_boolean(given)):
        # Spark goes through the text of a float, and text depends on the version of Java.
        through_text = pt.is_floating(given) and pt.is_decimal(kind)
        rounded_twice = pt.is_decimal(given) and kind == pa.float32()
        if through_text or rounded_twice:
            return None
        return Cast(operand, kind, failing(mode, kind))
    if pt.is_boolean(kind) and is_number(given):
        return Cast(operand, kind)
    if pt.is_string(kind) and _has_plain_text(given):
        return Call("text", (operand,), kind)
    if not is_utc(node):
        return None
    if pt.is_timestamp(given):
        if pt.is_date32(kind):
            return Call("day", (ticks(operand),), kind)
        if pt.is_timestamp(kind):
            return Call("same", (ticks(operand),), kind)
        if kind == pa.int64() and given.tz is not None:
            return Call("rounded down", (ticks(operand),), kind, (_SECOND,))
    if pt.is_date32(given) and pt.is_timestamp(kind):
        return Arithmetic("*", ticks(operand), Literal(DAY, pa.int64()), kind)
    return None


def _has_plain_text(kind: pa.DataType) -> bool:
    if pt.is_decimal(kind):
        return bool(kind.scale <= _PLAIN_DIGITS)
    return bool(pt.is_signed_integer(kind) or pt.is_boolean(kind) or pt.is_date32(kind))


def _of_day(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        day = translation.translated(node.children[0])
        if not pt.is_date32(day.kind):
            raise translation.refusal(node)
        return Call(function, (ticks(day),), translation.kind(node))

    return call


def _of_instant(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        return Call(function, (_instant(translation, node, 0),), translation.kind(node))

    return call


def _instant(translation: Translation, node: Node, place: int) -> Ticks:
    """An argument that is read on a clock: the session's, or the one it was written on."""
    moment = translation.translated(node.children[place])
    if not pt.is_timestamp(moment.kind) or not (moment.kind.tz is None or is_utc(node)):
        raise translation.refusal(node)
    return ticks(moment)


def _seconds(function: str, divisor: int) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        moment = translation.translated(node.children[0])
        kind = translation.kind(node)
        if not pt.is_timestamp(moment.kind) or moment.kind.tz is None or kind != pa.int64():
            raise translation.refusal(node)
        return Call(function, (ticks(moment),), kind, (divisor,))

    return call


def _counted_instant(ticks_each: int) -> Callable[[Translation, Node], Expression]:
    """The instant that is so many units of time after the first of 1970, in whole numbers."""

    def call(translation: Translation, node: Node) -> Expression:
        count = translation.translated(node.children[0])
        if not pt.is_signed_integer(count.kind):
            raise translation.refusal(node)
        if count.kind != pa.int64():
            count = Cast(count, pa.int64())
        # Too large a count is an error of Spark's, with and without ANSI mode.
        return Arithmetic("*", count, Literal(ticks_each, pa.int64()), translation.kind(node))

    return call


def _truncated_date(translation: Translation, node: Node) -> Expression:
    day = translation.translated(node.children[0])
    unit = _DATE_UNITS.get(_text(translation, node, 1).upper())
    if unit is None or not pt.is_date32(day.kind):
        raise translation.refusal(node)
    return Call("first day", (ticks(day),), day.kind, (unit,))


def _truncated_instant(translation: Translation, node: Node) -> Expression:
    moment = _instant(translation, node, 1)
    unit = _TIME_UNITS.get(_text(translation, node, 0).upper())
    if unit is None:
        raise translation.refusal(node)
    return Call("first instant", (moment,), translation.kind(node), (unit,))


def _shifted_date(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        day, days = map(translation.translated, node.children)
        if not (pt.is_date32(day.kind) and pt.is_signed_integer(days.kind)):
            raise translation.refusal(node)
        return Call(function, (ticks(day), days), day.kind)

    return call


def _later(translation: Translation, node: Node) -> Expression:
    moment, span = _instant(translation, node, 0), translation.translated(node.children[1])
    if not pt.is_duration(span.kind):
        raise translation.refusal(node)
    return Arithmetic("+", moment, ticks(span), moment.operand.kind)


def _length(translation: Translation, node: Node) -> Expression:
    return Call("length", (_string(translation, node, 0),), translation.kind(node))


def _substring(translation: Translation, node: Node) -> Expression:
    text = _string(translation, node, 0)
    first, count = (_number(translation, node, place) for place in (1, 2))
    if first < 0:  # From the end, and perhaps from before the beginning.
        raise translation.refusal(node)
    start = max(first - 1, 0)
    return _cut(text, start, min(start + max(count, 0), _MOST_CHARACTERS))


def _cut(text: Expression, start: int, stop: int) -> Call:
    return Call("slice", (text,), pa.string(), (start, stop))


def _of_text(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        if len(node.children) != 1:
            raise translation.refusal(node)
        return Call(function, (_string(translation, node, 0),), pa.string())

    return call


def _concatenated(translation: Translation, node: Node) -> Expression:
    parts = tuple(_string(translation, node, place) for place in range(len(node.children)))
    return Call("joined", parts, pa.string())


def _padded(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        text, width = _string(translation, node, 0), _number(translation, node, 1)
        pad = _text(translation, node, 2)
        if len(pad) != 1 or width < 0:
            raise translation.refusal(node)
        return _cut(Call(function, (text,), pa.string(), (width, pad)), 0, width)

    return call


def _invoked(translation: Translation, node: Node) -> Expression:
    """A method of a Java class: the one that pads a CHAR(n) column."""
    place = translation.live(node).staticObject().getName().rsplit(".", 1)[-1]
    if (place, node.fields.get("functionName")) != ("CharVarcharCodegenUtils", "readSidePadding"):
        raise translation.refusal(node)
    width = _number(translation, node, 1)
    return Call("padded right", (_string(translation, node, 0),), pa.string(), (width, " "))


def _replaced(translation: Translation, node: Node) -> Expression:
    text = _string(translation, node, 0)
    search, other = (_text(translation, node, place) for place in (1, 2))
    return Call("replaced", (text,), pa.string(), (search, other)) if search else text


def _bits(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        operands = tuple(map(translation.translated, node.children))
        kind = translation.kind(node)
        if any(operand.kind != kind for operand in operands) or not pt.is_integer(kind):
            raise translation.refusal(node)
        return Call(function, operands, kind)

    return call


def _shifted(function: str) -> Callable[[Translation, Node], Expression]:
    def call(translation: Translation, node: Node) -> Expression:
        value, by = translation.translated(node.children[0]), _number(translation, node, 1)
        if value.kind not in (pa.int32(), pa.int64()):
            raise translation.refusal(node)
        return Call(function, (value,), value.kind, (by,))

    return call


def _quotient(translation: Translation, node: Node) -> Expression:
    value, divisor = translation.translated(node.children[0]), _number(translation, node, 1)
    # By -1 the least number has no quotient.
    if value.kind != pa.int64() or divisor in (0, -1):
        raise translation.refusal(node)
    return Call("quotient", (value,), pa.int64(), (divisor,))


def _positive_remainder(translation: Translation, node: Node) -> Expression:
    value, divisor = translation.translated(node.children[0]), _number(translation, node, 1)
    kind = value.kind
    if not pt.is_signed_integer(kind) or divisor <= 0 or translation.kind(node) != kind:
        raise translation.refusal(node)
    constant, nought = Literal(divisor, kind), Literal(0, kind)
    rest = Arithmetic("%", value, constant, kind)
    negative = Compare("<", rest, nought, _TRUTH)
    return Case((negative,), (Arithmetic("+", rest, constant, kind),), rest, kind)


def _whole(function: str) -> Callable[[Translation, Node], Expression]:
    """Of decimals: the next whole one below or above may have one digit more."""

    def call(translation: Translation, node: Node) -> Expression:
        value = translation.translated(node.children[0])
        kind = translation.kind(node)
        if not pt.is_decimal(value.kind) or not pt.is_decimal(kind) or value.kind.precision > 37:
            raise translation.refusal(node)
        wide = pa.decimal128(value.kind.precision + 1, value.kind.scale)
        return Cast(Call(function, (Cast(value, wide),), wide), kind)

    return call


def _rounded(translation: Translation, node: Node) -> Expression:
    """Of decimals: a cast rounds as `round` does. Of floats it depends on their text."""
    value, kind = translation.translated(node.children[0]), translation.kind(node)
    if not (pt.is_decimal(value.kind) and pt.is_decimal(kind)) or _number(translation, node, 1) < 0:
        raise translation.refusal(node)
    return value if value.kind == kind else Cast(value, kind)


def _root(translation: Translation, node: Node) -> Expression:
    value = translation.translated(node.children[0])
    if value.kind != pa.float64():
        raise translation.refusal(node)
    return Call("root", (value,), value.kind)


def _first(translation: Translation, node: Node) -> Expression:
    operands = tuple(map(translation.translated, node.children))
    return Coalesce(operands, _one_kind(translation, node, operands))


def _choice(translation: Translation, node: Node) -> Expression:
    parts = list(map(translation.translated, node.children))
    pairs = len(parts) // 2
    conditions, values = tuple(parts[: 2 * pairs : 2]), tuple(parts[1 : 2 * pairs : 2])
    kind = translation.kind(node)
    otherwise = parts[-1] if len(parts) % 2 else Literal(None, kind)
    _one_kind(translation, node, (*values, otherwise))
    if any(condition.kind != _TRUTH for condition in conditions):
        raise translation.refusal(node)
    return Case(conditions, values, otherwise, kind)


def _extreme(sign: str) -> Callable[[Translation, Node], Expression]:
    """The greatest or least of values that are not null."""

    def call(translation: Translation, node: Node) -> Expression:
        operands = tuple(map(translation.translated, node.children))
        kind = _one_kind(translation, node, operands)
        if not (is_number(kind) or pt.is_temporal(kind)):
            raise translation.refusal(node)

        def better(one: Expression, other: Expression) -> Expression:
            wins = Compare(sign, other, one, _TRUTH)
            taken = Logic("OR", IsNull(one, _TRUTH), wins, _TRUTH)
            return Case((taken,), (other,), one, kind)

        return reduce(better, operands)

    return call


def _one_kind(
    translation: Translation, node: Node, operands: tuple[Expression, ...]
) -> pa.DataType:
    kind = translation.kind(node)
    plain = is_number(kind) or pt.is_boolean(kind) or pt.is_temporal(kind) or pt.is_string(kind)
    if not plain or any(operand.kind != kind for operand in operands):
        raise translation.refusal(node)
    return kind


def _string(translation: Translation, node: Node, place: int) -> Expression:
    text = translation.translated(node.children[place])
    if not pt.is_string(text.kind):
        raise translation.refusal(node)
    return text


def _text(translation: Translation, node: Node, place: int) -> str:
    found = translation.translated(node.children[place])
    if not isinstance(found, Literal) or not isinstance(found.value, str):
        raise translation.refusal(node)
    return found.value


def _number(translation: Translation, node: Node, place: int) -> int:
    found = translation.translated(node.children[place])
    whole = isinstance(found, Literal) and pt.is_signed_integer(found.kind)
    if not whole or not isinstance(found.value, int):  # type: ignore[union-attr]
        raise translation.refusal(node)
    return int(found.value)  # type: ignore[union-attr]


FUNCTIONS: dict[str, Callable[[Translation, Node], Expression]] = {
    "Cast": cast,
    "Year": _of_day("year"),
    "Month": _of_day("month"),
    "DayOfMonth": _of_day("day of month"),
    "Quarter": _of_day("quarter"),
    "DayOfYear": _of_day("day of year"),
    "DayOfWeek": _of_day("day of week"),
    "WeekDay": _of_day("weekday"),
    "WeekOfYear": _of_day("week of year"),
    "LastDay": _of_day("last day"),
    "Hour": _of_instant("hour"),
    "Minute": _of_instant("minute"),
    "Second": _of_instant("second"),
    # Before 1970 these differ.
    "UnixTimestamp": _seconds("quotient", _SECOND),
    "UnixSeconds": _seconds("rounded down", _SECOND),
    "UnixMillis": _seconds("rounded down", 1_000),
    "SecondsToTimestamp": _counted_instant(_SECOND),
    "MillisToTimestamp": _counted_instant(1_000),
    "MicrosToTimestamp": _counted_instant(1),
    "TruncDate": _truncated_date,
    "TruncTimestamp": _truncated_instant,
    "DateAdd": _shifted_date("days after"),
    "DateSub": _shifted_date("days before"),
    "TimestampAddInterval": _later,
    "Length": _length,
    "Substring": _substring,
    "Concat": _concatenated,
    "StringTrim": _of_text("trimmed"),
    "StringTrimLeft": _of_text("trimmed left"),
    "StringTrimRight": _of_text("trimmed right"),
    "StringLPad": _padded("padded left"),
    "StringRPad": _padded("padded right"),
    "StringReplace": _replaced,
    "StaticInvoke": _invoked,
    "BitwiseAnd": _bits("and"),
    "BitwiseOr": _bits("or"),
    "BitwiseXor": _bits("xor"),
    "BitwiseNot": _bits("not"),
    "ShiftLeft": _shifted("shifted left"),
    "ShiftRight": _shifted("shifted right"),
    "IntegralDivide": _quotient,
    "Pmod": _positive_remainder,
    "Floor": _whole("floor"),
    "Ceil": _whole("ceiling"),
    "Round": _rounded,
    "Sqrt": _root,
    "Coalesce": _first,
    "CaseWhen": _choice,
    "If": _choice,
    "Greatest": _extreme(">"),
    "Least": _extreme("<"),
}
