"""From a ledger to cells, with values, intervals and whether to believe them, and to forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregates.answer.estimate import Unseen
from watersmeet.aggregates.answer.ledger import Ledger
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.estimators import Cells, OrderCheck, Totals, Unread, cells
from watersmeet.estimators.forecast import Forecast
from watersmeet.estimators.unseen import unseen_groups


def estimated(
    question: ResolvedQuestion,
    ledger: Ledger,
    settings: Settings,
    *,
    looks: int | None,
    unread: Sequence[Unread] | None,
    order: OrderCheck,
) -> tuple[Cells, Unseen | None]:
    """What the sample of a ledger says of the whole, and about groups that are not in it.

    `looks` is how many there will be, None if nobody knows. `unread` is what is known of blocks
    that were not read, None where rows come one by one.
    """
    groups = max(ledger.groups, 1)
    totals = ledger.totals().padded(groups)
    for tail, known in zip(ledger.tails, unread or (), strict=False):
        tail.bounds = known.bounds
    found = cells(
        totals,
        ledger.evidence,
        question.quantities,
        centres=ledger.centres,
        confidence=settings.confidence,
        statements=groups * len(question.aggregates.asked) if settings.simultaneous else 1,
        looks=looks if settings.every_look else 1,
        tails=ledger.tails or None,
        bounds=ledger.bounds,
        unread=unread,
        layout=order,
    )
    return found, _unseen(totals) if question.aggregates.groups else None


def forecasts(question: ResolvedQuestion, ledger: Ledger) -> list[Forecast]:
    """How the intervals of each aggregate will shrink; none if that cannot be told yet."""
    totals = ledger.totals()
    if not totals.groups or not totals.scaled:
        return []
    centres = ledger.centres
    return [
        Forecast.of(
            totals,
            quantity,
            centre=0.0 if quantity.expression is None else centres[quantity.expression],
        )
        for quantity in question.quantities
    ]


def _unseen(totals: Totals) -> Unseen | None:
    if totals.contributing is None:
        return None
    # By blocks: one brings many rows of a group at once.
    share, most = unseen_groups(totals.contributing, fraction=totals.fraction)
    return Unseen(share, most)


def exact_cells(columns: Iterable[Any]) -> Cells:
    """Of an answer in which nothing is left to chance."""
    values = np.array([_floats(column) for column in columns], np.float64)
    yes = np.ones(values.shape, np.bool_)
    still = np.where(np.isnan(values), np.nan, 0.0)
    return Cells(values, values, values, still, yes, yes, np.full(values.shape, "", object))


def _floats(column: Any) -> Any:
    """Nulls as NaN. Of decimals the nearest float, but for its last digit."""
    floats = column.cast(pa.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False)
