"""When not to believe an interval, and why, in one sentence.

The thresholds were set by simulation (benchmarks/coverage.py, seeds 4 to 9): an interval whose
coverage is below 93% must be flagged, and few others. After a change here, those seeds show
what the change was fitted to; only another seed shows whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.estimators.moments import Floats, Integers, LinearForm
from watersmeet.estimators.order import unshuffled
from watersmeet.estimators.quantities import Kind, Quantity
from watersmeet.estimators.skewness import skewness
from watersmeet.estimators.tails import LEAST_INDEX, LEAST_INDEX_OF_SPREAD, TailSketch
from watersmeet.estimators.totals import Totals
from watersmeet.estimators.unread import (
    MOST_SHARE,
    MOST_SHARE_OF_ROW,
    MOST_SHARE_OF_SPREAD,
    Seen,
    Unread,
    hot_value,
    hotter_key,
    larger_unread,
    one_row,
    one_value,
    unknown_block,
)

UNITS_NEEDED = 20
ROWS_FOR_T = 8
ROWS_FOR_GAMMA = 5
UNITS_WITH_ROWS = 4
# Where each of them holds many rows, as if sorted by group: whether one more was drawn decides.
UNITS_WITH_HEAPS = 7
# Below this many rows a total of non-negative values gets the gamma interval, if the rows came
# one by one: so many units per row hold them.
GAMMA_BELOW = 30
UNITS_PER_ROW = 0.8
# Cochran's rule says 25 for 95%; the units drawn are a good part of all units here.
UNITS_PER_SKEWNESS = 7.0
# The gamma interval expects skewness and needs fewer.
UNITS_PER_SKEWNESS_OF_GAMMA = 4.0
# Squares of values are more skewed than a sample of blocks shows.
UNITS_PER_SKEWNESS_OF_SPREAD = 8.0
# For the count that an average divides by: its skewness is not corrected for.
UNITS_PER_SKEWNESS_OF_DIVISOR = 12.0
# Rows needed per (kurtosis - 1) before a standard deviation's interval holds.
ROWS_PER_KURTOSIS = 30.0
# A random draw of blocks looks this unlike one only once in ten thousand queries.
ORDER_TEST = 1e-4


class OrderCheck(NamedTuple):
    """What is known about the order of the files, before and while they are read."""

    # Why the blocks read are no random sample, if so: a failed order test, a pushed-down limit.
    objection: str = ""

    @classmethod
    def tested(cls, *strata: tuple[Integers, int]) -> OrderCheck:
        """Do the numbers of the blocks read look like a random draw? A prefix does not.

        Of each stratum the numbers among its own blocks, and how many it has.
        """
        if unshuffled(*strata) < ORDER_TEST:
            return cls("the blocks read lie together in the file: they are no random sample")
        return cls()


class Doubts:
    """Per group the first reason that applies, as a number until the end."""

    def __init__(self, groups: int) -> None:
        self._texts = [""]
        self._which = np.zeros(groups, np.int64)

    def add(self, where: bool | NDArray[np.bool_], reason: str) -> None:
        self._which[where & (self._which == 0)] = len(self._texts)
        self._texts.append(reason)

    def add_each(
        self, where: NDArray[np.bool_], numbers: Floats, reason: Callable[[float], str]
    ) -> None:
        where = where & (self._which == 0)
        if where.any():
            distinct, which = np.unique(numbers[where], return_inverse=True)
            self._which[where] = len(self._texts) + which
            self._texts += [reason(number) for number in distinct.tolist()]

    def reasons(self) -> NDArray[np.object_]:
        return np.array(self._texts, object)[self._which]


def doubts(
    totals: Totals,
    quantity: Quantity,
    form: LinearForm,
    *,
    value: Floats,
    variance: Floats,
    rows: Floats,
    non_negative: NDArray[np.bool_],
    tail: TailSketch | None,
    layout: OrderCheck,
    seen: Seen,
    unread: Unread,
    width: Floats,
    centre: float,
) -> NDArray[np.object_]:
    """Reasons per group; empty is trusted. `width` is half of each interval's."""
    kind = quantity.kind
    found = Doubts(len(value))
    if totals.exact:
        return found.reasons()
    if kind.is_total and not totals.scaled:
        found.add(True, "the size of an input is unknown, so a total cannot be scaled up")
    if layout.objection:
        found.add(True, layout.objection)
    for reading in totals.readings:
        if reading.read < UNITS_NEEDED and not reading.complete:
            of = f" of {reading.of}" if reading.of else ""
            found.add(
                True,
                f"only {reading.read} {reading.noun}{of} were read, {UNITS_NEEDED} are needed",
            )
    nothing = totals.seen[:, 0] == 0
    found.add((rows == 0) & nothing, "no matching row so far")
    found.add(rows == 0, "matching rows only in blocks that are read in any case")
    needed = np.where(non_negative, ROWS_FOR_GAMMA, ROWS_FOR_T)
    found.add_each(rows < needed, rows, lambda number: f"only {number:.0f} matching rows so far")
    if totals.contributing is not None:
        noun = totals.readings[0].noun.split()[-1] if totals.readings else "units"
        heaped = rows > UNITS_WITH_HEAPS * totals.contributing
        found.add_each(
            totals.contributing < np.where(heaped, UNITS_WITH_HEAPS, UNITS_WITH_ROWS),
            totals.contributing,
            lambda number: f"only {number:.0f} {noun} hold matching rows",
        )
    found.add(~np.isfinite(variance) | np.isnan(value), "too little was read for a variance")
    usual = UNITS_PER_SKEWNESS_OF_SPREAD if kind.is_spread else UNITS_PER_SKEWNESS
    few = few_rows(totals, rows, non_negative)
    _skewed(found, totals, form, np.where(few, UNITS_PER_SKEWNESS_OF_GAMMA, usual))
    if not kind.is_total:
        # A ratio is as good as what it divides by: a hot block may be missing from both.
        count = Quantity(Kind.COUNT, quantity.expression)
        _skewed(found, totals, count.evaluate(totals.value)[1], UNITS_PER_SKEWNESS_OF_DIVISOR)
    if kind is not Kind.COUNT and tail is not None:
        # Where files say which blocks hold the largest values, those have a stratum of their own.
        least = 0.0 if unread.bounds is not None else LEAST_INDEX
        reason = tail.reason(LEAST_INDEX_OF_SPREAD if kind.is_spread else least)
        found.add(bool(reason), reason)
    spread = value if kind.is_root else np.sqrt(value) if kind.is_spread else None
    deviation = np.full(len(value), 0.0 if tail is None else tail.deviation())
    _unlike(
        found, totals, quantity, form, seen, unread, width=width, centre=centre,
        deviation=deviation if spread is None else spread,
    )  # fmt: skip
    if kind.is_spread:
        with np.errstate(divide="ignore", invalid="ignore"):
            loose = variance / value**2 * (4 if kind.is_root else 1) * ROWS_PER_KURTOSIS
        found.add(
            # Even of values without any skewness so many.
            ~(loose <= 1) | (rows < 2 * ROWS_PER_KURTOSIS),
            "the spread of skewed values needs more rows: "
            f"{ROWS_PER_KURTOSIS:.0f} times (kurtosis - 1)",
        )
    return found.reasons()


def _unlike(
    found: Doubts,
    totals: Totals,
    quantity: Quantity,
    form: LinearForm,
    seen: Seen,
    unread: Unread,
    *,
    width: Floats,
    centre: float,
    deviation: Floats,
) -> None:
    """Of each group by itself: what others show may hide that it has not shown its own."""
    share = one_value(totals, quantity, form, seen, centre=centre)
    most = MOST_SHARE_OF_SPREAD if quantity.kind.is_spread else MOST_SHARE
    found.add_each(
        share > most,
        share.round(2),
        lambda number: f"one value holds {number:.0%} of the spread between blocks: heavy tail",
    )
    hot = one_row(totals, quantity, unread)
    found.add_each(
        hot > MOST_SHARE_OF_ROW,
        hot.round(2),
        lambda number: (
            f"one row with {unread.partners[0]:,} partners holds {number:.0%} of the "
            "spread between blocks"
        ),
    )
    hot_by_value = hot_value(totals, quantity, form, unread, deviation=deviation)
    found.add_each(
        hot_by_value > MOST_SHARE,
        hot_by_value.round(2),
        lambda number: (
            f"one row with {unread.partners[0]:,} partners and a value far off would hold "
            f"{number:.0%} of the spread between blocks"
        ),
    )
    found.add(
        hotter_key(totals, quantity, seen, unread, width=width),
        f"a key of the other side has {unread.partners[1]:,} rows, "
        f"none so far has met more than {unread.partners[0]:,}",
    )
    if unread.bounds is not None:
        largest = max(map(abs, unread.bounds))
        found.add_each(
            larger_unread(totals, quantity, seen, unread, width=width),
            seen.largest,
            lambda number: (
                f"values of up to {largest:.4g} are unread, the largest so far is {number:.4g}"
            ),
        )
    found.add(
        unknown_block(totals, quantity, seen, unread, width=width),
        "the files do not say what unread blocks hold, and one may change this",
    )


def few_rows(totals: Totals, rows: Floats, non_negative: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where the gamma interval applies: rows, or units full of rows, that come one by one."""
    few = non_negative & (rows >= 1) & (rows < GAMMA_BELOW)
    found = totals.contributing
    if found is None:
        return few
    # Many rows in few of the units: again Poisson's, with a unit that has rows as the event.
    units = min((reading.read for reading in totals.readings), default=0)
    sparse = (rows >= GAMMA_BELOW) & (found < GAMMA_BELOW) & (found <= units / 2)
    return (few & (found >= UNITS_PER_ROW * rows)) | (non_negative & sparse)


def _skewed(found: Doubts, totals: Totals, form: LinearForm, needed: float | Floats) -> None:
    for shape in totals.shapes:
        units = shape.reading.read
        skew = skewness(form, shape, seen=totals.seen)
        found.add_each(
            units < needed * skew**2,
            np.abs(skew).round(1),
            lambda number, noun=shape.reading.noun: (  # type: ignore[misc]
                f"a few {noun} hold most of the spread (skewness {number:.1f})"
            ),
        )


def pick(tails: Sequence[TailSketch | None] | None, number: int | None) -> TailSketch | None:
    return None if tails is None or number is None else tails[number]
