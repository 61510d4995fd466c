"""Heavy tails: rows with an extreme value are joined completely, and only the rest is sampled.

A sample of values whose largest few hold most of the total says little about the total, and its
own spread does not show it. Once the first look has shown such values, one more pass over the
sampled side takes all rows above a threshold; what remains has a tail that a sample can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.estimators.tails import TailSketch
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.nodes import Absolute, Cast, Compare, IsNull, Literal, Logic, Node, Not
from watersmeet.model import Side

_TRUTH = pa.bool_()
_DOUBLE = pa.float64()


@dataclass(frozen=True)
class Strata:
    """One question as two, about different rows of the sampled side."""

    extreme: ResolvedQuestion
    rest: ResolvedQuestion


def strata(
    question: ResolvedQuestion, tails: Sequence[TailSketch], *, sampled: Side
) -> Strata | None:
    """How to divide the sampled side where an expression over it alone has a heavy tail."""
    extreme: Node | None = None
    rest: Node | None = None
    for expression, tail in zip(question.aggregates.expressions, tails, strict=True):
        if expression.sides != {sampled} or not tail.heavy():
            continue
        size: Node = Absolute(_double(expression.tree), _DOUBLE)
        above = Compare(">", size, Literal(tail.threshold(), _DOUBLE), _TRUTH)
        # A null is not above, and must not be lost.
        below = Logic("OR", IsNull(expression.tree, _TRUTH), Not(above, _TRUTH), _TRUTH)
        extreme = above if extreme is None else Logic("OR", extreme, above, _TRUTH)
        rest = below if rest is None else Logic("AND", rest, below, _TRUTH)
    if extreme is None or rest is None:
        return None
    return Strata(_narrowed(question, extreme, sampled), _narrowed(question, rest, sampled))


def _double(tree: Node) -> Node:
    return tree if tree.kind == _DOUBLE else Cast(tree, _DOUBLE)


def _narrowed(question: ResolvedQuestion, condition: Node, side: Side) -> ResolvedQuestion:
    before = question.sides[side]
    whole = condition if before is None else Logic("AND", before.tree, condition, _TRUTH)
    sides = list(question.sides)
    sides[side] = Expression(whole)
    return replace(question, sides=(sides[0], sides[1]))
