"""When not to believe an interval, and why, in one sentence.

The thresholds were set by simulation (benchmarks/coverage.py): an interval whose coverage is
below 93% must be flagged, and few others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.estimators.moments import Floats, Form
from watersmeet.estimators.quantities import Kind, Quantity
from watersmeet.estimators.tails import TailSketch
from watersmeet.estimators.totals import Shape, Totals

UNITS_NEEDED = 20
ROWS_FOR_T = 30
ROWS_FOR_GAMMA = 10
# Cochran's rule says 25 for 95%; the units drawn are a good part of all units here.
UNITS_PER_SKEWNESS = 25.0
# Rows needed per (kurtosis - 1) before a standard deviation's interval holds.
ROWS_PER_KURTOSIS = 200.0
# Share of the variance that one value allowed by the footers, but not seen, may have.
UNSEEN_SHARE = 0.10
# Below this, `order.clustering` says that a file is sorted by the column.
SORTED = 0.5


class Layout(NamedTuple):
    """What is known about the order of the files, before and while they are read."""

    # Mean range of the join key within a block over its range in the file: 1 is shuffled.
    key_clustering: tuple[float | None, float | None] = (None, None)
    # Why the blocks read are no random sample, if so: a failed order test, a pushed-down limit.
    objection: str = ""


class Doubts:
    """Per group the first reason that applies."""

    def __init__(self, groups: int) -> None:
        self.reasons: NDArray[np.object_] = np.full(groups, "", object)

    def add(self, where: bool | NDArray[np.bool_], reason: str) -> None:
        self.reasons[where & (self.reasons == "")] = reason

    def add_each(
        self, where: NDArray[np.bool_], numbers: Floats, reason: Callable[[float], str]
    ) -> None:
        where = where & (self.reasons == "")
        if where.any():
            distinct, which = np.unique(numbers[where], return_inverse=True)
            texts = np.array([reason(number) for number in distinct.tolist()], object)
            self.reasons[where] = texts[which]


def skewness(form: Form, shape: Shape, *, seen: Floats) -> Floats:
    """Of the units' residuals, for one aggregate; 0 where the units hardly differ."""
    units = shape.reading.read
    second = form.second(shape.second)
    third = form.third(shape.third)
    # Sums of cubes of numbers that nearly cancel say nothing.
    size = (form.first(seen) / max(units, 1)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = np.sqrt(units) * third / second**1.5
        return np.where((second > 1e-9 * units * size) & np.isfinite(skew), skew, 0.0)


def doubts(
    totals: Totals,
    quantity: Quantity,
    form: Form,
    *,
    value: Floats,
    variance: Floats,
    rows: Floats,
    non_negative: NDArray[np.bool_],
    most_seen: float,
    bound: tuple[float, float] | None,
    centre: float,
    tail: TailSketch | None,
    layout: Layout,
) -> NDArray[np.object_]:
    """Reasons per group; empty is trusted."""
    kind = quantity.kind
    found = Doubts(len(value))
    if totals.exact:
        return found.reasons
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
    if len(totals.readings) == 2 and all(
        clustering is not None and clustering < SORTED for clustering in layout.key_clustering
    ):
        found.add(True, "both inputs are sorted by the join key: few blocks of one meet the other")
    found.add(rows == 0, "no matching row so far")
    needed = np.where(non_negative, ROWS_FOR_GAMMA, ROWS_FOR_T)
    found.add_each(rows < needed, rows, lambda number: f"only {number:.0f} matching rows so far")
    found.add(~np.isfinite(variance) | np.isnan(value), "too little was read for a variance")
    _skewed(found, totals, form)
    if kind is not Kind.COUNT:
        if tail is not None and (reason := tail.reason()):
            found.add(True, reason)
        if bound is not None:
            _unseen_value(found, form, variance, totals, bound=bound, seen=most_seen, centre=centre)
    if kind.is_spread:
        with np.errstate(divide="ignore", invalid="ignore"):
            loose = variance / value**2 * (4 if kind.is_root else 1) * ROWS_PER_KURTOSIS
        found.add(
            ~(loose <= 1),
            "the spread of skewed values needs more rows: "
            f"{ROWS_PER_KURTOSIS:.0f} times (kurtosis - 1)",
        )
    return found.reasons


def _skewed(found: Doubts, totals: Totals, form: Form) -> None:
    for shape in totals.shapes:
        units = shape.reading.read
        skew = skewness(form, shape, seen=totals.seen)
        found.add_each(
            units < UNITS_PER_SKEWNESS * skew**2,
            np.abs(skew).round(1),
            lambda number, noun=shape.reading.noun: (  # type: ignore[misc]
                f"a few {noun} hold most of the spread (skewness {number:.1f})"
            ),
        )


def _unseen_value(
    found: Doubts,
    form: Form,
    variance: Floats,
    totals: Totals,
    *,
    bound: tuple[float, float],
    seen: float,
    centre: float,
) -> None:
    """The footers allow a value that was not seen and would widen the interval if it were."""
    extreme = max(bound, key=abs)
    if abs(extreme) <= seen or form.expression is None or not totals.fraction:
        return
    moments = np.zeros((1, totals.value.shape[1]))
    shifted = extreme - centre
    start = 1 + 3 * form.expression
    moments[0, start : start + 3] = 1.0, shifted, shifted**2
    influence = form.first(np.broadcast_to(moments, totals.value.shape))
    missing = influence**2 * (1 - totals.fraction) / totals.fraction
    found.add(
        missing > UNSEEN_SHARE * variance,
        f"a value of up to {extreme:.6g} may still be unread: heavy tail",
    )


def pick(tails: Sequence[TailSketch | None] | None, number: int | None) -> TailSketch | None:
    return None if tails is None or number is None else tails[number]
