"""Bands as users ask for them: `low <= left - right <= high`, resolved for two columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.band_codecs import BandCodec, FloatBand, IntegerBand
from watersmeet.rows.types import Incomparable, common_type

Width = int | float | Decimal | timedelta
"""An end of a band, that is, a difference of two values: a number (days for dates), or a time."""

_LONG_DIGITS = 18
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S = 86_400
_UNITS = {
    "day": _DAY_S * 10**6, "hour": 3600 * 10**6, "minute": 60 * 10**6, "second": 10**6,
    "millisecond": 10**3, "microsecond": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Band:
    """The user's predicate `low <= left - right <= high`, or `<` at an end that is open.

    One of the two may be None: the band has no such end.

    >>> ages = Band("born", "died", low=timedelta(days=-40_000), high=timedelta(0))
    >>> codec = ages.resolve(pa.field("born", pa.date32()), pa.field("died", pa.date32()))
    >>> codec.holds(pa.array([0, 9], pa.date32()), pa.array([5, 5], pa.date32())).tolist()
    [True, False]
    """

    left: str
    right: str
    low: Width | None = None
    high: Width | None = None
    low_open: bool = False
    high_open: bool = False
    ends: tuple[int, int] = (0, 1)
    """The two inputs, if there are more than two."""

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise InvalidArgument(
                f"A band of {self.left!r} and {self.right!r} has neither a lower nor an upper end.",
                remedy="Give one of them, or both.",
            )
        for end in (self.low, self.high):
            if end is not None and not isinstance(end, timedelta) and not math.isfinite(end):
                raise InvalidArgument(
                    f"A band ends at {end}.", remedy="Give a number, or None for no end."
                )

    def __str__(self) -> str:
        """The band in words.

        >>> str(Band("a", "b", low=-2, high=5, high_open=True))
        '-2 <= a - b < 5'
        >>> str(Band("sent", "read", low=timedelta(seconds=-90), high=timedelta(seconds=90)))
        'sent within 1 minute 30 seconds of read'
        """
        low, high = self.low, self.high
        if low is not None and high is not None and low == -high and not self._open_ends:
            of = "" if self.left == self.right else f" of {self.right}"
            return f"{self.left} within {width_words(high)}{of}"
        words = f"{self.left} - {self.right}"
        if low is not None:
            words = f"{width_words(low)} {'<' if self.low_open else '<='} {words}"
        if high is not None:
            words = f"{words} {'<' if self.high_open else '<='} {width_words(high)}"
        return words

    def columns_of(self, side: Side) -> tuple[str]:
        return (self.left if side is Side.LEFT else self.right,)

    def renamed(self, rename: Callable[[Side, str], str]) -> Band:
        left, right = rename(Side.LEFT, self.left), rename(Side.RIGHT, self.right)
        return replace(self, left=left, right=right)

    @property
    def _open_ends(self) -> bool:
        return self.low_open or self.high_open

    def resolve(self, left: pa.Field, right: pa.Field) -> BandCodec:
        """The codec for columns of these types, or an error that says why there is none."""
        try:
            kind = common_type(left.type, right.type)
            if pt.is_floating(kind):
                low, high = (
                    None if end is None else float(number_of(end)) for end in (self.low, self.high)
                )
                narrow = kind == pa.float32()
                return FloatBand(narrow, low, high, self.low_open, self.high_open)
            return IntegerBand(kind, *self._in_steps(kind))
        except Incomparable as reason:
            raise SchemaError(
                f"There is no band of {left.name!r} ({left.type}) and {right.name!r} "
                f"({right.type}): {reason}.",
                remedy=reason.remedy,
            ) from None

    def _in_steps(self, kind: pa.DataType) -> tuple[int | None, int | None]:
        """Both ends as numbers of steps of a type; an open end becomes the closed one beside it."""
        low = high = None
        if self.low is not None:
            exact = steps_in(self.low, kind)
            low = math.ceil(exact) + (1 if self.low_open and exact.denominator == 1 else 0)
        if self.high is not None:
            exact = steps_in(self.high, kind)
            high = math.floor(exact) - (1 if self.high_open and exact.denominator == 1 else 0)
        return low, high


def width_words(width: Width) -> str:
    """A span of time in the largest units that it has whole; a number as it is."""
    if not isinstance(width, timedelta):
        return str(width)
    left, parts = abs(width) // timedelta(microseconds=1), []
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}" + ("s" if count > 1 else ""))
    sign = "-" if width < timedelta(0) else ""
    return sign + (" ".join(parts) or "0 seconds")


def steps_in(width: Width, kind: pa.DataType) -> Fraction:
    """A width as a number of steps of a type: of its smallest units."""
    if pt.is_integer(kind) and kind != pa.uint64():
        return number_of(width)
    if pt.is_decimal(kind) and kind.precision <= _LONG_DIGITS:
        return number_of(width) * Fraction(10**kind.scale)
    if pt.is_decimal(kind) or kind == pa.uint64():
        raise Incomparable(
            f"a difference of {kind} may have more digits than are exact here",
            f"Cast both to decimals of at most {_LONG_DIGITS} digits, to bigint or to double.",
        )
    if pt.is_date(kind):
        days = _seconds(width) / _DAY_S if isinstance(width, timedelta) else number_of(width)
        return days if pt.is_date32(kind) else days * _DAY_S * 1000
    if pt.is_timestamp(kind) or pt.is_duration(kind) or pt.is_time(kind):
        return _seconds(width) * _PER_SECOND[kind.unit]
    raise Incomparable(f"{kind} has no differences", "Use numbers, dates or times.")


def number_of(width: Width) -> Fraction:
    if isinstance(width, timedelta):
        raise Incomparable(f"{width} is a span of time", "Give a number.")
    return Fraction(width)


def _seconds(width: Width) -> Fraction:
    if not isinstance(width, timedelta):
        raise Incomparable(
            f"{width} says nothing about its unit", "Give a span of time (a timedelta)."
        )
    return Fraction(width // timedelta(microseconds=1), 10**6)
