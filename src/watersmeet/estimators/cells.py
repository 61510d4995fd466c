"""One cell per aggregate and group: value, interval, and whether to believe it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.estimators.evidence import Evidence
from watersmeet.estimators.intervals import (
    gamma_interval,
    t_quantile,
    tail_probability,
    zero_match_bound,
)
from watersmeet.estimators.moments import Floats, LinearForm
from watersmeet.estimators.quantities import Kind, Quantity
from watersmeet.estimators.ratios import jackknife
from watersmeet.estimators.skewness import shift, skewness
from watersmeet.estimators.tails import TailSketch
from watersmeet.estimators.totals import Totals
from watersmeet.estimators.trust import OrderCheck, doubts, few_rows, pick
from watersmeet.estimators.unread import Unread

Bound = tuple[float, float]


class Cells(NamedTuple):
    """Arrays [aggregate, group]. A null (AVG of nothing) is NaN."""

    value: Floats
    low: Floats
    high: Floats
    relative: Floats  # half-width over |value|; 0 if exact, infinite if the value is 0
    exact: NDArray[np.bool_]
    trusted: NDArray[np.bool_]
    reason: NDArray[np.object_]  # one sentence; empty if trusted


def cells(
    totals: Totals,
    evidence: Evidence,
    kinds: Sequence[Quantity],
    *,
    centres: Sequence[float] = (),
    confidence: float = 0.95,
    statements: int = 1,
    looks: int | None = 1,
    tails: Sequence[TailSketch | None] | None = None,
    layout: OrderCheck | None = None,
    bounds: Sequence[Bound | None] | None = None,
    unread: Sequence[Unread] | None = None,
) -> Cells:
    """Intervals at `confidence` for each cell, or for `statements` of them at once.

    `looks` is how often the result will be shown (None: as often as you like). `bounds` are
    least and most value of each expression where the files' footers know them. `unread` is what
    is known of blocks that were not read: an item for each expression, and a last one for
    COUNT(*). A group that is known to `evidence` but has no totals yet has a cell too.
    """
    totals = totals.padded(evidence.groups)
    readings = [reading for reading in totals.readings if not reading.complete]
    units = min((r.read / (1 - r.fraction) for r in readings), default=np.inf)
    tail = tail_probability(confidence, statements=statements, looks=looks, units=units)
    columns = [
        _column(
            totals,
            evidence,
            quantity=quantity,
            centre=0.0 if quantity.expression is None else centres[quantity.expression],
            tail=tail,
            sketch=pick(tails, quantity.expression),
            bound=None
            if bounds is None or quantity.expression is None
            else bounds[quantity.expression],
            layout=layout or OrderCheck(),
            unread=Unread(bounds=(0.0, 0.0))
            if unread is None
            else unread[-1 if quantity.expression is None else quantity.expression],
        )
        for quantity in kinds
    ]
    return Cells(*(np.array(arrays) for arrays in zip(*columns, strict=True)))


def _column(
    totals: Totals,
    evidence: Evidence,
    *,
    quantity: Quantity,
    centre: float,
    tail: float,
    sketch: TailSketch | None,
    bound: Bound | None,
    layout: OrderCheck,
    unread: Unread,
) -> tuple[NDArray[np.generic], ...]:
    kind = quantity.kind
    groups = totals.groups
    value, form = quantity.evaluate(totals.value, centre=centre)
    if totals.exact:
        yes = np.ones(groups, np.bool_)
        still = np.where(np.isnan(value), np.nan, 0.0)
        return value, value, value, still, yes, yes, np.full(groups, "", object)
    variance = form.second(totals.covariance)
    if totals.floor is not None:
        variance = np.maximum(variance, form.second(totals.floor))
    variance = np.maximum(variance, 0.0)
    if not kind.is_total:
        variance = variance * jackknife(form, totals)
    rows = evidence.rows(groups)
    if totals.of_rows and totals.contributing is not None:
        rows = np.minimum(rows, totals.contributing)
    non_negative = _non_negative(quantity, evidence, groups=groups, bound=bound)
    degrees = _degrees(totals, form, kind, rows=rows)
    if kind.is_spread:
        # Squares have about twice the excess spread: their variance is known half as well.
        degrees = degrees / 2
    low, high = _t_interval(totals, kind, value, variance, form, degrees=degrees, tail=tail)
    if non_negative.any():
        low, high = _few_rows(
            totals, quantity, (low, high), value=value, variance=variance, rows=rows,
            non_negative=non_negative, centre=centre, tail=tail,
        )  # fmt: skip
    if kind.is_total:
        low, high = _no_rows(
            totals, evidence, (low, high), quantity=quantity, bound=bound, tail=tail
        )
        if not totals.scaled:
            value, low, high = (np.full(groups, np.nan) for _ in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (high - low) / 2 / np.abs(value)
    reasons = doubts(
        totals,
        quantity,
        form,
        value=value,
        variance=variance,
        rows=rows,
        non_negative=non_negative,
        tail=sketch,
        layout=layout,
        seen=evidence.seen(quantity.expression, groups, rows=rows),
        unread=unread,
        width=(high - low) / 2,
        centre=centre,
    )
    no = np.zeros(groups, np.bool_)
    return value, low, high, relative, no, reasons == "", reasons


def _degrees(totals: Totals, form: LinearForm, kind: Kind, *, rows: Floats) -> Floats:
    """Degrees of freedom of the variance: of the units, and of what they hold.

    A total also learns from units without a row. Its variance is then known as well as a count
    of k, to 1/k of its square: 2 k degrees. The residual of a ratio is 0 there, so only the k
    units with rows count; if they are skewed as a gamma law is, their kurtosis is
    3 + 1.5 skewness^2. Two sides that both vary add theirs (Welch).
    """
    found = rows if totals.contributing is None else np.minimum(rows, totals.contributing)
    degrees = np.full(totals.groups, totals.degrees)
    parts, squares = np.zeros(totals.groups), np.zeros(totals.groups)
    for shape in totals.shapes:
        read = shape.reading.read
        own = np.full(totals.groups, max(read - 1.0, 1.0))
        if kind is Kind.AVG:
            skew = skewness(form, shape, seen=totals.seen)
            own = np.minimum(own, found / (1 + 0.75 * skew**2 * found / max(read, 1)))
        part = (1 - shape.reading.fraction) * form.second(shape.second)
        parts += part
        with np.errstate(divide="ignore", invalid="ignore"):
            squares += part**2 / own
    if totals.strata:
        # Each stratum knows its own part only as well as its few blocks do.
        within = [form.second(each.second) for each in totals.strata]
        known = [max(each.reading.read - 1.0, 0.5) for each in totals.strata]
        own = np.sum([part**2 / few for part, few in zip(within, known, strict=True)], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.sum(within, axis=0) ** 2 / own
        squares = np.where(np.isfinite(least), np.maximum(squares, parts**2 / least), squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        welch = parts**2 / squares
    degrees = np.where(np.isfinite(welch), welch, degrees)
    most = np.where(found > 1, 2 * found, 0.0) if kind.is_total else found - 1
    return np.asarray(np.minimum(degrees, most))


def _t_interval(
    totals: Totals,
    kind: Kind,
    value: Floats,
    variance: Floats,
    form: LinearForm,
    *,
    degrees: Floats,
    tail: float,
) -> tuple[Floats, Floats]:
    quantile = t_quantile(tail, degrees)
    error = np.sqrt(variance)
    known = np.isfinite(quantile)
    finite = np.where(known, quantile, 0.0)
    moved = shift(form, totals, quantile=finite)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if kind.is_spread:
            # A spread is positive and skewed: its logarithm is nearer to normal, and what the
            # logarithm straightens need not be corrected again.
            error = np.where(error > 0, error / value, 0.0)
            moved = moved - error * finite**2 / 2
        below = error * (finite + np.maximum(-moved, 0))
        above = error * (finite + np.maximum(moved, 0))
        # Without degrees of freedom there is no interval, not even where nothing varied.
        below, above = (np.where(known, side, np.inf) for side in (below, above))
        if kind.is_spread:
            return value * np.exp(-below), value * np.exp(above)
        return value - below, value + above


def _non_negative(
    quantity: Quantity, evidence: Evidence, *, groups: int, bound: Bound | None
) -> NDArray[np.bool_]:
    """Totals that cannot fall: counts, and sums of values none of which is below zero."""
    if quantity.kind is Kind.COUNT:
        return np.ones(groups, np.bool_)
    if quantity.kind is not Kind.SUM or quantity.expression is None:
        return np.zeros(groups, np.bool_)
    if bound is not None:
        return np.full(groups, bound[0] >= 0)
    return np.asarray(evidence.least(groups)[:, quantity.expression] >= 0)


def _few_rows(
    totals: Totals,
    quantity: Quantity,
    interval: tuple[Floats, Floats],
    *,
    value: Floats,
    variance: Floats,
    rows: Floats,
    non_negative: NDArray[np.bool_],
    centre: float,
    tail: float,
) -> tuple[Floats, Floats]:
    """The gamma interval below 30 rows; and never an end below what has been seen."""
    low, high = interval
    few = few_rows(totals, rows, non_negative) & (value > 0) & np.isfinite(variance)
    if few.any() and totals.largest is not None:
        _, form = quantity.evaluate(totals.largest, centre=abs(centre))
        largest = np.maximum(form.first(totals.largest), 0) * np.sqrt(1 - totals.fraction)
        some = slice(None) if few.all() else few
        small = gamma_interval(value[some], variance[some], largest=largest[some], tail=tail)
        low[few], high[few] = small
    seen, _ = quantity.evaluate(totals.seen, centre=centre)
    low = np.where(non_negative, np.fmax(low, seen), low)
    # Where nothing is known above, the end is open: what was seen bounds from below only.
    high = np.where(np.isnan(high), np.inf, high)
    return low, np.where(non_negative, np.maximum(high, seen), high)


def _no_rows(
    totals: Totals,
    evidence: Evidence,
    interval: tuple[Floats, Floats],
    *,
    quantity: Quantity,
    bound: Bound | None,
    tail: float,
) -> tuple[Floats, Floats]:
    low, high = interval
    none = evidence.pairs(totals.groups) == 0
    if not none.any():
        return low, high
    fractions = tuple(reading.fraction for reading in totals.readings)
    pairs = zero_match_bound(tail, fractions)
    if quantity.kind is Kind.COUNT:
        least, most = 0.0, pairs
    elif bound is None:
        least, most = -np.inf, np.inf
    else:
        least, most = (pairs * end if end else 0.0 for end in (min(bound[0], 0), max(bound[1], 0)))
    return np.where(none, least, low), np.where(none, most, high)
