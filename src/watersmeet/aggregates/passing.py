"""Which blocks can hold a row that passes a filter, as far as the files say?

A block that cannot adds nothing, and to one whose every row passes the filter does nothing: both
are another kind than those in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

import numpy as np

from watersmeet.aggregates.bounds import BlockBounds, block_bounds
from watersmeet.aggregates.facts import ColumnFacts, Floats
from watersmeet.aggregates.nodes import Column, Compare, Literal, Logic, Node, Not
from watersmeet.model import Side


def passing(node: Node, facts: Mapping[str, ColumnFacts], side: Side, blocks: int) -> Floats:
    """0 for a block without a row that passes, 1 where all do, 0.5 where it may be either."""
    least, most = _truth(node, facts, side, blocks)
    return (least + most) / 2


def _truth(
    node: Node, facts: Mapping[str, ColumnFacts], side: Side, blocks: int
) -> tuple[Floats, Floats]:
    match node:
        case Logic(operator, left, right):
            one, two = (_truth(each, facts, side, blocks) for each in (left, right))
            both = np.minimum if operator == "AND" else np.maximum
            return both(one[0], two[0]), both(one[1], two[1])
        case Not(operand):
            least, most = _truth(operand, facts, side, blocks)
            return 1 - most, 1 - least
        case Compare(operator, left, right):
            ends = [_ends(each, facts, side, blocks) for each in (left, right)]
            if ends[0] is not None and ends[1] is not None:
                return _compared(operator, ends[0], ends[1])
    return np.zeros(blocks), np.ones(blocks)


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
