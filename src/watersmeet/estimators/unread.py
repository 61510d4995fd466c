"""What has not been read: could it change an answer that the blocks so far agree on?

A random sample says much about what is common, and nothing about what is rare. How rare and how
large it may be is known from two sides: what the files say about unread blocks, and how much of
the spread so far is due to a single value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.estimators.moments import Floats, LinearForm
from watersmeet.estimators.quantities import Kind, Quantity
from watersmeet.estimators.totals import Totals

# A value so many times as large as the largest of a group is no surprise of chance.
UNSEEN_TIMES = 6.0
# For what depends on their squares.
UNSEEN_TIMES_OF_SPREAD = 2.5
# Where nothing is known, a block that would move an answer by this part of the width is too much.
UNKNOWN_TIMES = 3.0
# The part of the spread between units that one value may have, once there are enough of them.
MOST_SHARE = 0.25
MOST_SHARE_OF_SPREAD = 0.25
MOST_SHARE_OF_ROW = 0.10
# A hot row's value is one of few: that none so far was this many deviations off is chance.
FAR_VALUE = 3.0
# With fewer, a row is like another.
FEW_PARTNERS = 5
ROWS_TO_JUDGE = 200
ROWS_TO_JUDGE_SPREAD = 50

Mask = NDArray[np.bool_]


class Unread(NamedTuple):
    """What is known of the blocks that were not read, for one aggregate's expression.

    `bounds` are the least and the most value in them, None if nothing is known; `rows` are those
    of the largest of them, `keyed` whether the files tell what keys they hold. `partners` are the
    most that a row has had so far, and the most that any row may have.
    """

    bounds: tuple[float, float] | None = None
    rows: float = 0.0
    keyed: bool = True
    partners: tuple[int, int] = (1, 1)


class Seen(NamedTuple):
    """Of each group, the values that were drawn: how many rows, the least and the most."""

    rows: Floats
    least: Floats
    most: Floats

    @property
    def largest(self) -> Floats:
        """Of the absolute values; 0 where there is none."""
        ends = np.maximum(np.abs(self.least), np.abs(self.most))
        return np.where(np.isfinite(ends), ends, 0.0)


def one_value(
    totals: Totals, quantity: Quantity, form: LinearForm, seen: Seen, *, centre: float
) -> Floats:
    """The part of the spread between units that the farthest single value makes; 0 if few."""
    share = np.zeros(totals.groups)
    if quantity.kind is Kind.COUNT or quantity.expression is None:
        return share
    count, first = totals.value[:, 1 + 3 * quantity.expression : 3 + 3 * quantity.expression].T
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = first / count
        for end in (seen.least, seen.most):
            away = end - centre
            if quantity.kind.is_spread:
                alone = np.zeros_like(totals.value)
                start = 1 + 3 * quantity.expression
                alone[:, start], alone[:, start + 1], alone[:, start + 2] = 1, away, away**2
                pull = form.first(alone)
            else:
                # A total's own form counts a value from zero; its units have others, too.
                pull = (away - mean) * (1 if quantity.kind.is_total else 1 / count)
            for shape in totals.shapes:
                of_all = pull**2 / form.second(shape.second)
                share = np.fmax(share, np.where(np.isfinite(of_all), of_all, 0.0))
    fewest = ROWS_TO_JUDGE_SPREAD if quantity.kind.is_spread else ROWS_TO_JUDGE
    return np.where(seen.rows >= fewest, np.minimum(share, 1.0), 0.0)


def larger_unread(
    totals: Totals, quantity: Quantity, seen: Seen, unread: Unread, *, width: Floats
) -> Mask:
    """Where unread blocks hold values unlike any of a group, which would tell in its answer."""
    if unread.bounds is None or quantity.expression is None:
        return np.zeros(totals.groups, np.bool_)
    most = max(map(abs, unread.bounds))
    times = UNSEEN_TIMES_OF_SPREAD if quantity.kind.is_spread else UNSEEN_TIMES
    unlike = (most > times * seen.largest) & (seen.rows > 0)
    # None in the share that was read: about so many may be left.
    about = 1 / totals.fraction if totals.fraction else np.inf
    return unlike & (_change(totals, quantity, most * about) > width)


def one_row(totals: Totals, quantity: Quantity, unread: Unread) -> Floats:
    """The same for a row with many partners, of what is counted."""
    share = np.zeros(totals.groups)
    partners = unread.partners[0]
    if partners < FEW_PARTNERS:
        return share
    _, form = Quantity(Kind.COUNT, quantity.expression).evaluate(totals.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        for shape in totals.shapes:
            of_all = partners**2 / form.second(shape.second)
            share = np.fmax(share, np.where(np.isfinite(of_all), of_all, 0.0))
    return np.minimum(share, 1.0)


def hot_value(
    totals: Totals, quantity: Quantity, form: LinearForm, unread: Unread, *, deviation: Floats
) -> Floats:
    """The part of the spread between units that such a row would have, were its value far off.

    A key with many partners counts its row's value as often. Ten such rows show how many there
    are, and hardly what their values are: whether one that is far off was among them decides.
    """
    share = np.zeros(totals.groups)
    partners = unread.partners[0]
    if partners < FEW_PARTNERS or quantity.kind is Kind.COUNT or quantity.expression is None:
        return share
    count, first = totals.value[:, 1 + 3 * quantity.expression : 3 + 3 * quantity.expression].T
    with np.errstate(divide="ignore", invalid="ignore"):
        far = FAR_VALUE * deviation
        if quantity.kind.is_spread:
            away = first / count + far
            alone = np.zeros_like(totals.value)
            start = 1 + 3 * quantity.expression
            alone[:, start], alone[:, start + 1], alone[:, start + 2] = 1, away, away**2
            pull = form.first(alone)
        else:
            pull = far if quantity.kind.is_total else far / count
        for shape in totals.shapes:
            of_all = (partners * pull) ** 2 / form.second(shape.second)
            share = np.fmax(share, np.where(np.isfinite(of_all), of_all, 0.0))
    return np.minimum(share, 1.0)


def hotter_key(
    totals: Totals, quantity: Quantity, seen: Seen, unread: Unread, *, width: Floats
) -> Mask:
    """Where the other side has a key with many more partners than any row so far."""
    met, there = unread.partners
    if there <= UNSEEN_TIMES * met or not unread.rows:
        return np.zeros(totals.groups, np.bool_)
    about = there / totals.fraction if totals.fraction else np.inf
    if quantity.kind is Kind.COUNT:
        return np.asarray(about > width)
    return np.asarray(_change(totals, quantity, about * seen.largest) > width)


def unknown_block(
    totals: Totals, quantity: Quantity, seen: Seen, unread: Unread, *, width: Floats
) -> Mask:
    """Where nothing is known of a block that could change the answer by more than its width."""
    none = np.zeros(totals.groups, np.bool_)
    if not unread.rows:
        return none
    if quantity.kind is Kind.COUNT:
        return none if unread.keyed else np.asarray(UNKNOWN_TIMES * unread.rows > width)
    if unread.bounds is not None:
        return none
    amount = UNKNOWN_TIMES * unread.rows * seen.largest
    return np.asarray(_change(totals, quantity, amount) > width)


def _change(totals: Totals, quantity: Quantity, amount: float | Floats) -> Floats:
    """What so much more in a sum does to an aggregate; to a spread, more than can be said."""
    if quantity.kind is Kind.SUM:
        return np.broadcast_to(np.asarray(amount, np.float64), totals.groups)
    if quantity.kind.is_spread or quantity.expression is None:
        return np.full(totals.groups, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(amount / totals.value[:, 1 + 3 * quantity.expression])
