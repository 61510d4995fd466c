"""Texts of a column as values of its type, as Spark's XML reader casts them.

A whole column is cast by Arrow after its texts were seen to be plainly written, which they mostly
are. If one of them is not, the texts of the batch are taken one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

SPACE = " \t\r\n"
"""What is trimmed from texts: white space as XML has it."""

_WHOLE = r"^-?[0-9]{1,18}$"
_SIGNED = re.compile(r"[+-]?[0-9]+")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_PLAIN_DECIMAL = r"^-?[0-9]{1,18}(\.[0-9]+)?$"
_INFINITE = {"Infinity": np.inf, "+Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}
_DATE = re.compile(r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?(?:[ T](.*))?", re.DOTALL)
_TIME = re.compile(
    r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?(?: ?([A-Z+-].*))?"
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_DATES = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIMES = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_UNITS = {"s": 10**6, "ms": 10**3, "us": 1}
_EPOCH = datetime(1970, 1, 1)


class Cast(NamedTuple):
    """Values, and which texts are none of the type; None if all are."""

    values: pa.Array
    is_bad: np.ndarray[Any, np.dtype[np.bool_]] | None


def cast(texts: pa.Array, kind: pa.DataType, *, zone: str = "UTC") -> Cast:
    """Cast texts, of which some may be null. `zone` is that of times which do not say theirs, if
    the type has a zone."""
    texts = pc.utf8_trim(texts, SPACE)
    if is_text(kind):
        return Cast(texts.cast(kind), None)
    # An element without text has no value.
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    values = _at_once(texts, kind, zone)
    if values is not None:
        return Cast(values, None)
    return _one_by_one(texts, kind, zone)


def is_castable(kind: pa.DataType) -> bool:
    """Whether texts can be cast to a type."""
    if pt.is_decimal(kind):
        return int(kind.bit_width) <= 128
    if pt.is_timestamp(kind):
        return kind.unit in _UNITS
    plain = (is_text, pt.is_boolean, pt.is_integer, pt.is_float32, pt.is_float64, pt.is_date32)
    return any(is_kind(kind) for is_kind in plain)


def is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _at_once(texts: pa.Array, kind: pa.DataType, zone: str) -> pa.Array | None:
    """All values, if Arrow would read each text as Spark does; otherwise None."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    if pt.is_boolean(kind):
        lower = pc.utf8_lower(texts)
        true, false = pc.is_in(lower, pa.array(["true", "1"])), pc.is_in(lower, _FALSE)
        if not _all(pc.or_(true, false), texts):
            return None
        return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))
    pattern = _pattern(kind, zone)
    if pattern is None or not _all(pc.match_substring_regex(texts, pattern), texts):
        return None
    try:
        if pt.is_timestamp(kind):
            return texts.cast(pa.timestamp(kind.unit)).cast(kind)
        return texts.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


_FALSE = pa.array(["false", "0"])


def _pattern(kind: pa.DataType, zone: str) -> str | None:
    """What texts look like that Arrow and Spark read alike."""
    if pt.is_integer(kind):
        return _WHOLE
    if pt.is_floating(kind):
        return _NUMBER.replace("[+-]?", "-?", 1)
    if pt.is_decimal(kind):
        return _PLAIN_DECIMAL
    if pt.is_date(kind):
        return _DATES
    return _TIMES if kind.tz is None or zone == "UTC" else None


def _all(holds: pa.Array, texts: pa.Array) -> bool:
    held = pc.sum(pc.if_else(pc.is_valid(texts), holds, False)).as_py() or 0
    return bool(held == len(texts) - texts.null_count)


def _one_by_one(texts: pa.Array, kind: pa.DataType, zone: str) -> Cast:
    read = _reader(kind, zone)
    values: list[Any] = []
    is_bad = np.zeros(len(texts), bool)
    for number, text in enumerate(texts.to_pylist()):
        value = None
        if text is not None:
            try:
                value = read(text)
            except (ValueError, OverflowError, InvalidOperation):
                is_bad[number] = True
        values.append(value)
    if pt.is_timestamp(kind):
        return Cast(pa.array(values, pa.int64()).cast(kind), is_bad)
    return Cast(pa.array(values, kind), is_bad)


def _reader(kind: pa.DataType, zone: str) -> Callable[[str], Any]:
    if pt.is_boolean(kind):
        return _boolean
    if pt.is_integer(kind):
        bits = kind.bit_width
        low = 0 if pt.is_unsigned_integer(kind) else -(2 ** (bits - 1))
        return lambda text: _whole(text, low, low + 2**bits - 1)
    if pt.is_floating(kind):
        return _number
    if pt.is_decimal(kind):
        return lambda text: _decimal(text, kind.precision, kind.scale)
    if pt.is_date(kind):
        return _date
    return lambda text: _timestamp(text, kind, zone)


def _boolean(text: str) -> bool:
    if (lower := text.lower()) not in ("true", "false", "1", "0"):
        raise ValueError
    return lower in ("true", "1")


def _whole(text: str, low: int, high: int) -> int:
    # Longer texts than any number of the type would take their time.
    if len(text) > 1000 or not _SIGNED.fullmatch(text) or not low <= (value := int(text)) <= high:
        raise ValueError
    return value


def _number(text: str) -> float:
    if text in _INFINITE:
        return float(_INFINITE[text])
    if not re.match(_NUMBER, text):
        raise ValueError
    return float(text)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if len(text) > 1000 or not re.match(_NUMBER, text):
        raise ValueError
    value, unit = Decimal(text), Decimal(1).scaleb(-scale)
    if value.adjusted() > 2 * precision:
        raise ValueError
    # More digits than a decimal has, so that rounding happens once.
    exact = value.quantize(unit, ROUND_HALF_UP, Context(prec=5 * precision + 10))
    if exact and exact.adjusted() + scale >= precision:
        raise ValueError
    return exact


def _date(text: str) -> date:
    # Months and days may be left out of timestamps only.
    if not re.fullmatch(_DATES, text):
        raise ValueError
    return date.fromisoformat(text)


def _timestamp(text: str, kind: pa.DataType, zone: str) -> int:
    """Ticks of the type's unit since 1970."""
    parsed = _DATE.fullmatch(text)
    if parsed is None:
        raise ValueError
    value = datetime(int(parsed[1]), int(parsed[2] or 1), int(parsed[3] or 1))
    where: tzinfo | None = None
    if parsed[4] is not None:
        time = _TIME.fullmatch(parsed[4])
        if time is None:
            raise ValueError
        micros = int(((time[4] or "") + "000000")[:6])
        value = value.replace(
            hour=int(time[1]),
            minute=int(time[2] or 0),
            second=int(time[3] or 0),
            microsecond=micros,
        )
        where = None if time[5] is None else zone_of(time[5])
    if kind.tz is None:
        if where is not None:
            raise ValueError
    else:
        offset = value.replace(tzinfo=where or zone_of(zone)).utcoffset()
        value -= offset or timedelta()
    return (value - _EPOCH) // timedelta(microseconds=1) // _UNITS[kind.unit]


def zone_of(name: str) -> tzinfo:
    """The time zone of a name, or of an offset such as +01:00. Raises ValueError."""
    if name in ("Z", "UTC", "GMT"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        hours, minutes = int(offset[2]), int(offset[3] or 0)
        if hours > 18 or minutes > 59:
            raise ValueError
        away = timedelta(hours=hours, minutes=minutes)
        return timezone(-away if offset[1] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error
