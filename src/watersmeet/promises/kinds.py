"""Promises as users give them: what a source says about the rows that it will not send any more.

Nothing here knows the columns of a join. What can be wrong without them is found here, at the call;
the rest is found in `checking.py`, as soon as the columns are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.rows.bands import Width, width_words
from watersmeet.rows.on import name_of
from watersmeet.rows.spans import parse_width

EQUAL = "equal"
"""How a pattern says that a column must have the marker row's own value."""


@dataclass(frozen=True, slots=True)
class Equality:
    """The marker row's own value in the column; null for any value."""


@dataclass(frozen=True, slots=True)
class FromTo:
    """The values from that in one column of the marker row to that in another, both included; null,
    or no column, for no such end."""

    low: str | None
    high: str | None


@dataclass(frozen=True, slots=True)
class OneOf:
    """The values in the list that a column of the marker row has; null for any value."""

    column: str


How = Equality | FromTo | OneOf
"""What a pattern says about one column."""


@dataclass(frozen=True, slots=True)
class Unique:
    """No two rows have the same values in these columns; None for the columns of the key."""

    side: Side
    columns: tuple[str, ...] | None = None

    def __str__(self) -> str:
        what = "the key" if self.columns is None else _listed(self.columns)
        return f"unique({what})"


@dataclass(frozen=True, slots=True)
class Clustered:
    """Rows with one value come together; None for the values of the whole key."""

    side: Side
    column: str | None = None

    def __str__(self) -> str:
        return f"clustered({'the key' if self.column is None else self.column})"


@dataclass(frozen=True, slots=True)
class Ordered:
    """No value is below the largest before it by more than `slack`; or above the smallest."""

    side: Side
    column: str
    ascending: bool = True
    slack: Width | None = None

    def __str__(self) -> str:
        falls = "" if self.ascending else ", descending"
        slack = "" if self.slack is None else f", slack {width_words(self.slack)}"
        return f"ordered({self.column}{falls}{slack})"


@dataclass(frozen=True, slots=True)
class Punctuated:
    """Some rows are no data but markers: no row comes any more that a marker's pattern fits."""

    side: Side
    when: Any
    """SQL text that is true for marker rows; on Spark, a Column may be given."""
    pattern: tuple[tuple[str, How], ...] | None = None
    """What it says about each column; None for every column in which the marker has a value."""
    called: str | None = field(default=None, repr=False, compare=False)
    """What users know the condition as, where it was replaced by another."""

    def __str__(self) -> str:
        return f"punctuated(when {self.called or self.when})"


@dataclass(frozen=True, slots=True)
class Watermark:
    """After a batch, no value comes that is below the largest so far by more than `delay`."""

    side: Side
    column: str
    delay: timedelta

    def __str__(self) -> str:
        return f"watermark({self.column}, {width_words(self.delay)})"


PromiseOfValues = Unique | Clustered | Ordered | Punctuated | Watermark


# ---- how users write them -----------------------------------------------------------------------


def unique(side: str, columns: str | Sequence[str] | None = None) -> Unique:
    """No two rows of an input have the same values in some columns.

    Parameters
    ----------
    side
        "left" or "right".
    columns
        One column of the join, or several; None for all columns that must be equal (the key).

    Examples
    --------
    >>> str(unique("left", "sno"))
    'unique(sno)'
    """
    names = None
    if columns is not None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        if not names or len(set(names)) < len(names):
            raise InvalidArgument(
                f"unique(columns={columns!r}) names {'a column twice' if names else 'no column'}.",
                remedy="Name each column once, or leave `columns` out for the whole key.",
            )
        for name in names:
            _check_column(name, "unique")
    return Unique(_side(side, "unique"), names)


def clustered(side: str, column: str | None = None) -> Clustered:
    """Rows of an input that have one value come together: none follows after another value came.

    Parameters
    ----------
    side
        "left" or "right".
    column
        A column of the join; None for the whole key.

    Examples
    --------
    >>> str(clustered("right"))
    'clustered(the key)'
    """
    if column is not None:
        _check_column(column, "clustered")
    return Clustered(_side(side, "clustered"), column)


def ordered(
    side: str, column: str, ascending: bool = True, slack: Width | str | None = None
) -> Ordered:
    """Rows of an input come in the order of a column, but for a slack.

    Parameters
    ----------
    side
        "left" or "right".
    column
        A column of the join. NaN is the largest number, as in Spark; null says nothing.
    ascending
        Whether values rise.
    slack
        By how much a value may lie below the largest that came before (above the smallest, if
        values fall): a number, or a span of time as for `within`; None for not at all.

    Examples
    --------
    >>> str(ordered("left", "t", slack="5 seconds"))
    'ordered(t, slack 5 seconds)'
    """
    _check_column(column, "ordered")
    if not isinstance(ascending, bool):
        raise InvalidArgument(
            f"ordered(ascending={ascending!r}) is neither True nor False.",
            remedy="Give True if values rise, False if they fall.",
        )
    wide = None if slack is None else _not_negative(slack, "ordered(slack")
    return Ordered(_side(side, "ordered"), column, ascending, wide)


def punctuated(side: str, when: Any, pattern: Mapping[str, Any] | None = None) -> Punctuated:
    """Among the rows of an input are marker rows, which are no data: each says of certain rows that
    no more of them will come.

    Parameters
    ----------
    side
        "left" or "right".
    when
        A condition in SQL that is true for marker rows; on Spark, a Column may be given.
    pattern
        What a marker row says about columns: {column: how}. `how` is "equal" for the marker's own
        value in that column, a pair of columns in which the marker has the first and the last value
        of a range, or a column in which it has a list of values. Null stands for any value, or for
        no end of a range. Rows may have any value in columns that are left out. None: they have the
        marker's own value in each column in which it has one, but for columns that `when` names.

    Examples
    --------
    >>> str(punctuated("right", "is_marker", {"sno": "equal"}))
    'punctuated(when is_marker)'
    """
    if when is None or (isinstance(when, str) and not when.strip()):
        raise InvalidArgument(
            f"punctuated(when={when!r}) is no condition.",
            remedy='Give one that is true for marker rows, as in when="is_marker".',
        )
    hows = None
    if pattern is not None:
        if not isinstance(pattern, Mapping) or not pattern:
            raise InvalidArgument(
                f"punctuated(pattern={pattern!r}) says nothing about any column.",
                remedy='Give a dict, as in pattern={"sno": "equal"}, or leave it out.',
            )
        hows = tuple((_check_column(name, "pattern"), _how(how)) for name, how in pattern.items())
    return Punctuated(_side(side, "punctuated"), when, hows)


def watermark(side: str, column: str, delay: timedelta | str) -> Watermark:
    """Rows of an input are late by no more than a delay, as with Spark's `withWatermark`: after a
    batch, none comes whose time is before the latest time so far, less `delay`.

    Parameters
    ----------
    side
        "left" or "right".
    column
        A column of dates or timestamps that is part of the join.
    delay
        A span of time: a `timedelta`, or text such as "10 minutes".

    Examples
    --------
    >>> watermark("left", "clicked", "10 minutes").delay
    datetime.timedelta(seconds=600)
    """
    _check_column(column, "watermark")
    wide = _not_negative(delay, "watermark(delay")
    if not isinstance(wide, timedelta):
        raise InvalidArgument(
            f"watermark(delay={delay!r}) says nothing about its unit.",
            remedy='Give a timedelta, or text such as "10 minutes".',
        )
    return Watermark(_side(side, "watermark"), column, wide)


# ---- what can be wrong without knowing any column -----------------------------------------------


def _side(side: Any, kind: str) -> Side:
    if isinstance(side, Side):
        return side
    if isinstance(side, str):
        for each in Side:
            if side.strip().lower() == name_of(each):
                return each
    raise InvalidArgument(
        f"{kind}({side!r}, ...) is about no input of the join.",
        remedy='Give "left" or "right" as the first argument.',
    )


def _check_column(name: Any, kind: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(
            f"{kind} is about {name!r}, which is no column name.",
            remedy="Give the name of a column.",
        )
    return name


def _not_negative(width: Any, argument: str) -> Width:
    wide = parse_width(width)
    zero = timedelta(0) if isinstance(wide, timedelta) else 0
    if not isinstance(wide, timedelta) and not math.isfinite(wide):
        raise InvalidArgument(f"{argument}={width!r}) has no size.", remedy="Give a number.")
    if wide < zero:  # type: ignore[operator]
        raise InvalidArgument(
            f"{argument}={width!r}) is negative.",
            remedy="Give how far a value may lie behind others: zero, or more.",
        )
    return wide


def _how(how: Any) -> How:
    match how:
        case "equal":
            return Equality()
        case str() if how:
            return OneOf(how)
        case (None, None):
            pass
        case (str() | None as low, str() | None as high):
            return FromTo(low, high)
    raise InvalidArgument(
        f"A pattern says {how!r} about a column, which means nothing.",
        remedy='Say "equal", a pair of columns with the ends of a range, as in ("low", "high"), or '
        "the name of a column of lists.",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
