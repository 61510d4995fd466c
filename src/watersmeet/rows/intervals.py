"""Intervals as users ask for them: a point between two columns, and two intervals that overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.interval_codecs import Comparison, OverlapCodec
from watersmeet.rows.types import Incomparable, common_type, plain

Ends = tuple[str, str]
"""The columns in which intervals start and end; twice the same for points."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The user's predicate `left start <= right end AND right start <= left end`.

    >>> str(Overlap(("price", "price"), ("low", "high"), right_open=True))
    'low < price <= high'
    >>> str(Overlap(("start", "end"), ("from", "to")))
    'start to end overlaps from to to'
    """

    left: Ends
    right: Ends
    left_open: bool = False
    """Whether the left start must be less than the right end."""
    right_open: bool = False
    """Whether the right start must be less than the left end."""
    ends: tuple[int, int] = (0, 1)
    """The two inputs, if there are more than two."""

    def __str__(self) -> str:
        signs = ["<" if strict else "<=" for strict in (self.left_open, self.right_open)]
        if _is_point(self.left):
            return f"{self.right[0]} {signs[1]} {self.left[0]} {signs[0]} {self.right[1]}"
        if _is_point(self.right):
            return f"{self.left[0]} {signs[0]} {self.right[0]} {signs[1]} {self.left[1]}"
        more = " by more than an end" if self.left_open else ""
        return f"{' to '.join(self.left)} overlaps {' to '.join(self.right)}{more}"

    def columns_of(self, side: Side) -> Ends:
        return self.left if side is Side.LEFT else self.right

    def renamed(self, rename: Callable[[Side, str], str]) -> Overlap:
        left, right = (
            (rename(side, ends[0]), rename(side, ends[1]))
            for side, ends in zip(Side, (self.left, self.right), strict=True)
        )
        return replace(self, left=left, right=right)

    def check(self, left: Sequence[str], right: Sequence[str]) -> None:
        """Refuse columns that are there, but on the other sides."""
        if set(self.left) <= set(left) and set(self.right) <= set(right):
            return
        if set(self.left) <= set(right) and set(self.right) <= set(left):
            mine, others = (_in_code(each) for each in (self.right, self.left))
            turned = f"({mine}, {others})"
            raise SchemaError(
                f"{self} names columns of the other sides: the right input has "
                f"{_listed(self.left)}, and the left one {_listed(self.right)}.",
                remedy="The left input's columns come first: "
                f"{'wm.between' if self._has_point else 'wm.overlaps'}{turned}.",
            )

    @property
    def _has_point(self) -> bool:
        return _is_point(self.left) or _is_point(self.right)

    def resolve(
        self, left: tuple[pa.Field, pa.Field], right: tuple[pa.Field, pa.Field]
    ) -> OverlapCodec:
        """The codec for columns of these types, or an error that says why there is none."""
        return OverlapCodec(
            _common([*left, *right]),
            Comparison(_compared(left[0], right[1]), self.left_open),
            Comparison(_compared(right[0], left[1]), self.right_open),
        )


def between(
    left: str | Ends,
    right: str | Ends,
    end: str | None = None,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> Overlap:
    """A value of one input that lies between two columns of the other.

    Parameters
    ----------
    left, right, end
        `between("price", "low", "high")`: the left input's price lies between low and high of the
        right one. `between(("low", "high"), "price")`: the left input has the interval.
    low_open, high_open
        Whether a value that equals the end is left out.

    Examples
    --------
    >>> str(between("price", "low", "high"))
    'low <= price <= high'
    >>> str(between(("since", "until"), "at", high_open=True))
    'since <= at < until'
    """
    other: Any = right if end is None else (right, end)
    match left, other:
        case str(), (str() as low, str() as high):
            _check_different(low, high)
            return Overlap((left, left), (low, high), left_open=high_open, right_open=low_open)
        case (str() as low, str() as high), str():
            _check_different(low, high)
            return Overlap((low, high), (other, other), left_open=low_open, right_open=high_open)
    raise InvalidArgument(
        f"{left!r} and {other!r} are not the column of a value and the two of an interval.",
        remedy='Write wm.between("price", "low", "high") if the left input has the value, and '
        'wm.between(("low", "high"), "price") if the right one has it.',
    )


def overlaps(left: Ends, right: Ends, *, open: bool = False) -> Overlap:
    """An interval of the left input that overlaps one of the right: each starts before the other
    ends, `start <= to AND from <= end`.

    By this condition an interval that ends before it starts overlaps those that hold both its ends.

    Parameters
    ----------
    left, right
        The columns in which intervals start and end.
    open
        Whether intervals are left out of which one starts just where the other ends.

    Examples
    --------
    >>> str(overlaps(("start", "end"), ("from", "to")))
    'start to end overlaps from to to'
    """
    match left, right:
        case (str() as start, str() as end), (str() as since, str() as until):
            _check_different(start, end)
            _check_different(since, until)
            return Overlap((start, end), (since, until), left_open=open, right_open=open)
    raise InvalidArgument(
        f"{left!r} and {right!r} are not the columns of two intervals.",
        remedy='Give two pairs, as in wm.overlaps(("start", "end"), ("from", "to")); '
        "wm.between takes a value and an interval.",
    )


def _check_different(start: str, end: str) -> None:
    if start == end:
        raise InvalidArgument(
            f"Both ends of an interval are the column {start!r}.",
            remedy="Name two columns; a value between two columns is wm.between, and two values "
            "that are equal are a pair of keys.",
        )


def _is_point(ends: Ends) -> bool:
    return ends[0] == ends[1]


def _in_code(ends: Ends) -> str:
    return f'"{ends[0]}"' if _is_point(ends) else f'("{ends[0]}", "{ends[1]}")'


def _listed(ends: Ends) -> str:
    return " and ".join(repr(name) for name in dict.fromkeys(ends))


def _compared(low: pa.Field, high: pa.Field) -> pa.DataType:
    """The type in which Spark compares two columns, one of each side."""
    try:
        for field in (low, high):
            _check_ordered(field)
        return common_type(low.type, high.type)
    except Incomparable as reason:
        raise SchemaError(
            f"There is no interval of {low.name!r} ({low.type}) and {high.name!r} ({high.type}): "
            f"{reason}.",
            remedy=reason.remedy,
        ) from None


def _check_ordered(field: pa.Field) -> None:
    kind = plain(field.type)
    numbers = (pt.is_integer, pt.is_floating, pt.is_decimal)
    times = (pt.is_date, pt.is_timestamp, pt.is_time, pt.is_duration)
    if not any(test(kind) for test in (*numbers, *times)):
        raise Incomparable(
            f"{field.name!r} is neither a number nor a date or time",
            "Cast it to one, or compare it in condition=, beside equal keys.",
        )


def _common(fields: Sequence[pa.Field]) -> pa.DataType:
    """A type in which values of all columns have an order. Pairs of them are compared in types of
    their own, which may be more exact."""
    try:
        return reduce(common_type, (field.type for field in fields))
    except Incomparable:
        # Pairs that cannot be compared are refused; so these are decimals with too many digits.
        return pa.float64()
