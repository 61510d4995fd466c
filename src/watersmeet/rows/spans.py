"""How users write bands: `within` a width, or from a low to a high end, with widths as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from watersmeet.errors import InvalidArgument
from watersmeet.rows.bands import Band, Width

_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*,?")
_SECONDS = {
    "microsecond": Decimal("0.000001"),
    "millisecond": Decimal("0.001"),
    "second": Decimal(1),
    "minute": Decimal(60),
    "hour": Decimal(3600),
    "day": Decimal(86_400),
    "week": Decimal(7 * 86_400),
}
_SHORT = {
    "us": "microsecond", "µs": "microsecond", "ms": "millisecond", "s": "second",
    "sec": "second", "min": "minute", "h": "hour", "d": "day", "w": "week",
}  # fmt: skip
_VARYING = ("month", "quarter", "year")


def within(columns: str | tuple[str, str], width: Width | str, *, open: bool = False) -> Band:
    """Two values that differ by no more than `width`, whichever is larger.

    Parameters
    ----------
    columns
        A column that both inputs have, or a pair of columns, left and right.
    width
        A number; for dates and times a `timedelta`, or text such as "5 seconds", "1 hour 30
        minutes", "250 ms". A number counts days between dates.
    open
        Whether values that differ by just `width` are left out.

    Examples
    --------
    >>> str(within("price", 5))
    'price within 5'
    >>> str(within(("sent", "read"), "1 hour 30 minutes", open=True))
    '-1 hour 30 minutes < sent - read < 1 hour 30 minutes'
    """
    wide = parse_width(width)
    if _is_negative(wide):
        raise InvalidArgument(
            f"width={width!r} is negative, and two values cannot differ by less than nothing.",
            remedy="Give its size, or the two ends of a difference with wm.band.",
        )
    left, right = _pair(columns)
    return Band(left, right, low=-wide, high=wide, low_open=open, high_open=open)


def band(
    columns: str | tuple[str, str],
    low: Width | str | None = None,
    high: Width | str | None = None,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> Band:
    """Two values whose difference, left minus right, is from `low` to `high`.

    Parameters
    ----------
    columns
        A column that both inputs have, or a pair of columns, left and right.
    low, high
        The ends, as in `within`; None for no such end.
    low_open, high_open
        Whether a difference that equals the end is left out.

    Examples
    --------
    Orders that were paid after at most a day:

    >>> str(band(("paid", "ordered"), low="0 seconds", high="1 day"))
    '0 seconds <= paid - ordered <= 1 day'
    """
    ends = [None if end is None else parse_width(end) for end in (low, high)]
    left, right = _pair(columns)
    made = Band(left, right, low=ends[0], high=ends[1])
    made = replace(made, low_open=low_open, high_open=high_open)
    if _is_empty(made):
        raise InvalidArgument(
            f"low={low!r} is above high={high!r}: no difference lies between them.",
            remedy="The difference is left minus right; exchange the ends, or the columns.",
        )
    return made


def together(bands: Sequence[Band]) -> list[Band]:
    """The same bands, with all of one pair of columns as one: the differences that are in each.

    >>> [str(each) for each in together([band("t", low=0), band("t", high=5), band("v", high=1)])]
    ['0 <= t - t <= 5', 'v - v <= 1']
    """
    found: list[Band] = []
    for each in bands:
        same = [n for n, other in enumerate(found) if _of_one_kind(each, other)]
        if same:
            found[same[0]] = _both(found[same[0]], each)
        else:
            found.append(each)
    return found


def _of_one_kind(one: Band, other: Band) -> bool:
    """Whether two bands are about the same columns, and all their ends can be compared."""
    ends = [end for each in (one, other) for end in (each.low, each.high) if end is not None]
    kinds = {isinstance(end, timedelta) for end in ends}
    columns = {(each.left, each.right, each.ends) for each in (one, other)}
    return len(kinds) == len(columns) == 1


def _both(one: Band, other: Band) -> Band:
    """The band of the differences that are in both."""
    lows = [(each.low, each.low_open) for each in (one, other) if each.low is not None]
    highs = [(each.high, each.high_open) for each in (one, other) if each.high is not None]
    low, low_open = max(lows, default=(None, False), key=lambda end: end)
    # Of equal ends, the open one leaves out more.
    high, high_open = min(highs, default=(None, False), key=lambda end: (end[0], not end[1]))
    both = replace(one, low=low, high=high, low_open=low_open, high_open=high_open)
    if _is_empty(both):
        raise InvalidArgument(
            f"{one} and {other} contradict each other: no difference is in both.",
            remedy="The difference is left minus right; look at the signs of the ends.",
        )
    return both


def parse_width(width: Any) -> Width:
    """A width as a number or a span of time.

    >>> parse_width("2 minutes 3.5 seconds")
    datetime.timedelta(seconds=123, microseconds=500000)
    """
    if isinstance(width, bool) or not isinstance(width, int | float | Decimal | timedelta | str):
        raise InvalidArgument(
            f"{width!r} is no width.",
            remedy='Give a number, a timedelta, or text such as "5 seconds".',
        )
    if isinstance(width, float | Decimal) and not math.isfinite(width):
        raise InvalidArgument(
            f"A band ends at {width}.", remedy="Give a number, or None for no end."
        )
    return _parse_text(width) if isinstance(width, str) else width


def parse_seconds(span: Any, *, name: str) -> float:
    """A length of time that a user gave as the argument `name`, in seconds.

    >>> parse_seconds("1 minute 30 seconds", name="refresh"), parse_seconds(5, name="refresh")
    (90.0, 5.0)
    """
    width = _parse_text(span) if isinstance(span, str) else span
    seconds = width.total_seconds() if isinstance(width, timedelta) else width
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        raise InvalidArgument(
            f"{name}={span!r} is no length of time.",
            remedy=f'Give seconds above zero, a timedelta, or text, as in {name}="10 seconds".',
        )
    return float(seconds)


def _parse_text(text: str) -> timedelta:
    seconds, end = Decimal(0), 0
    while part := _PART.match(text, end):
        end = part.end()
        seconds += Decimal(part[1]) * _unit(part[2], text)
    if not end or text[end:].strip():
        raise InvalidArgument(
            f"{text!r} is no span of time.",
            remedy='Write numbers and units, as in "5 seconds" or "1 hour 30 minutes"; a width '
            "without a unit is a number, not text.",
        )
    microseconds = seconds * 10**6
    if microseconds != int(microseconds):
        raise InvalidArgument(
            f"{text!r} is finer than a microsecond.", remedy="Give whole microseconds."
        )
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError:
        raise InvalidArgument(
            f"{text!r} is longer than 2.7 million years.", remedy="Give a shorter span."
        ) from None


def _unit(word: str, text: str) -> Decimal:
    name = word.lower()
    name = _SHORT.get(name, name.removesuffix("s"))
    if name in _SECONDS:
        return _SECONDS[name]
    if name in _VARYING:
        raise InvalidArgument(
            f"{text!r} is not always the same time: months and years differ in length.",
            remedy='Give days, as in "30 days".',
        )
    raise InvalidArgument(
        f"{word!r} in {text!r} is no unit of time.",
        remedy=f"Use one of {', '.join(each + 's' for each in _SECONDS)}.",
    )


def _pair(columns: Any) -> tuple[str, str]:
    match columns:
        case str():
            return columns, columns
        case (str() as left, str() as right):
            return left, right
    raise InvalidArgument(
        f"{columns!r} names no columns.",
        remedy='Give a name that both inputs have, or a pair, as in ("sent", "read").',
    )


def _is_negative(width: Width) -> bool:
    return width < timedelta(0) if isinstance(width, timedelta) else width < 0


def _is_empty(made: Band) -> bool:
    low, high = made.low, made.high
    if low is None or high is None or isinstance(low, timedelta) != isinstance(high, timedelta):
        return False
    return bool(low > high) or (low == high and (made.low_open or made.high_open))  # type: ignore[operator]
