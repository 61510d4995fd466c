"""What pairs of rows add to each group, as a join finds them one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.key_sums import holds
from watersmeet.aggregates.partials.sums import Sums
from watersmeet.aggregates.partials.totals import BlockTotals, GroupTotals
from watersmeet.aggregates.partials.value_stats import ValueStats, with_ends
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.numbers import Numbers
from watersmeet.model import Side

Columns = Mapping[tuple[Side, str], pa.Array]


@dataclass(frozen=True)
class Pairs:
    """What pairs add: the group of each among those of `totals`, the value of each expression."""

    totals: BlockTotals
    groups: NDArray[np.int64]
    values: tuple[Numbers, ...]


def wanted(question: ResolvedQuestion, columns: Columns, count: int) -> NDArray[np.bool_] | None:
    """The pairs that meet the condition on both rows; None for all."""
    if question.pairs is None:
        return None
    return holds(question.pairs.evaluate(_needed(question.pairs, columns), count))


def aggregated(
    question: ResolvedQuestion, columns: Columns, count: int, *, sketched: bool
) -> Pairs:
    """Totals of pairs. While they are `sketched`, also what lets their intervals be trusted."""
    asked = question.aggregates
    groups = Groups.of([columns[group.side, group.column] for group in asked.groups])
    codes, size = groups.codes, groups.count
    values, sums, stats = [], [], []
    for expression, spread in zip(asked.expressions, question.spreads, strict=True):
        value = expression.evaluate(_needed(expression, columns), count)
        found = Sums.of(value, codes, groups=size, spread=spread)
        noted = ValueStats(sketched=sketched)
        noted.take(value)
        values.append(value)
        sums.append(with_ends(found, value, codes, size) if sketched else found)
        stats.append(noted.traits())
    one = np.zeros(count, np.int64) if codes is None else codes
    # In the types of the answer, as those of other parts: all will be added up.
    typed = zip(groups.values, asked.groups, strict=True)
    part = GroupTotals(
        tuple(each.cast(group.kind) for each, group in typed),
        np.bincount(one, minlength=size),
        np.zeros(size, np.int64),
        tuple(sums),
    )
    return Pairs(BlockTotals(0, 0, part, tuple(stats)), one, tuple(values))


def _needed(expression: Expression, columns: Columns) -> dict[tuple[Side, str], pa.Array]:
    return {(side, name): columns[side, name] for side in Side for name in expression.columns(side)}
