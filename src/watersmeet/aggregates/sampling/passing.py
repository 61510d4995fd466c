"""Which blocks can hold a row that passes a filter, as far as the files say?

A block that cannot adds nothing, and to one whose every row passes the filter does nothing: both
are another kind than those in between. Among these, blocks at the edge of a filter (the days
around its first one) may hold all or nothing of what those inside it hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

import numpy as np

from watersmeet.aggregates.sampling.facts import ColumnFacts, Floats
from watersmeet.expressions.bounds import BlockBounds, block_bounds
from watersmeet.expressions.nodes import Column, Compare, Literal, Logic, Node, Not
from watersmeet.model import Side

# Of blocks in which a filter leaves no condition open but those that are open in all.
_INSIDE = 0.5
# Of blocks in which more is open: its edges, where all, some or none of the rows may pass.
_EDGE = 0.25


def passing(node: Node, facts: Mapping[str, ColumnFacts], side: Side, blocks: int) -> Floats:
    """0 for a block without a row that passes, 1 where all do, between them where it may be
    either: 0.25 at the edges of the filter, and 0.5 inside."""
    score = _score(node, facts, side, blocks)
    open_ = (score > 0) & (score < 1)
    inside = open_ & (score == score[open_].max(initial=0))
    return np.where(inside, _INSIDE, np.where(open_, _EDGE, score))


def _score(node: Node, facts: Mapping[str, ColumnFacts], side: Side, blocks: int) -> Floats:
    """0 never, 1 always; the less, the more conditions are open."""
    match node:
        case Logic(operator, left, right):
            one, two = (_score(each, facts, side, blocks) for each in (left, right))
            return one * two if operator == "AND" else 1 - (1 - one) * (1 - two)
        case Not(operand):
            return 1 - _score(operand, facts, side, blocks)
        case Compare(operator, left, right):
            ends = [_ends(each, facts, side, blocks) for each in (left, right)]
            if ends[0] is not None and ends[1] is not None:
                least, most = _compared(operator, ends[0], ends[1])
                return (least + most) / 2
    return np.full(blocks, 0.5)


def _compared(operator: str, left: BlockBounds, right: BlockBounds) -> tuple[Floats, Floats]:
    if operator in (">", ">="):
        return _compared({">": "<", ">=": "<="}[operator], right, left)
    if operator == "<>":
        least, most = _compared("=", left, right)
        return 1 - most, 1 - least
    if operator == "<":
        always, never = left[1] < right[0], left[0] >= right[1]
    elif operator == "<=":
        always, never = left[1] <= right[0], left[0] > right[1]
    else:
        always = (left[0] == left[1]) & (right[0] == right[1]) & (left[0] == right[0])
        never = (left[1] < right[0]) | (left[0] > right[1])
    # A comparison with what is not known is neither.
    return always.astype(np.float64), 1 - never.astype(np.float64)


def _ends(
    node: Node, facts: Mapping[str, ColumnFacts], side: Side, blocks: int
) -> BlockBounds | None:
    match node:
        case Literal(value) if isinstance(value, date) and not isinstance(value, datetime):
            day = np.full(blocks, float(value.toordinal()))
            return day, day
        case Column(of, name) if of is side and name in facts and facts[name].days:
            return facts[name].ends
    known = {(side, name): each.ends for name, each in facts.items() if each.values}
    return block_bounds(node, known, blocks)
