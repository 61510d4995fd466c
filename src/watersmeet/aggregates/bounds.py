"""Between what do an expression's values lie, if the files say what their columns lie between?

An estimate that has not seen values as large as the files hold is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.types as pt

from watersmeet.aggregates.expression import Expression
from watersmeet.aggregates.nodes import (
    Absolute,
    Arithmetic,
    Cast,
    Column,
    Literal,
    Negative,
    Node,
)
from watersmeet.model import Side

Bounds = tuple[float, float]
Extremes = Mapping[tuple[Side, str], Bounds]


def bounds_of(expression: Expression, extremes: Extremes) -> Bounds | None:
    """Least and most, perhaps wider than needed; None where nothing is known.

    >>> import pyarrow as pa
    >>> from watersmeet.aggregates.scope import Scope
    >>> items = pa.schema({"price": pa.float64(), "discount": pa.float64()})
    >>> expression = Expression.parse("price * (1 - discount)", Scope((items, pa.schema([]))))
    >>> known = {(Side.LEFT, "price"): (10.0, 90.0), (Side.LEFT, "discount"): (0.0, 0.1)}
    >>> bounds_of(expression, known)
    (9.0, 90.0)
    """
    return _bounds(expression.tree, extremes)


def extremes_in(statistics: Any) -> Bounds | None:
    """Least and most of a column of numbers, from the footer of one row group."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        return float(statistics.min), float(statistics.max)
    except (TypeError, ValueError):  # Texts, days, and whatever else is no number.
        return None


def _bounds(node: Node, extremes: Extremes) -> Bounds | None:
    match node:
        case Column(side, name):
            return extremes.get((side, name))
        case Literal(value) if isinstance(value, int | float):
            return float(value), float(value)
        case Literal(value, kind) if value is not None and pt.is_decimal(kind):
            return float(str(value)), float(str(value))
        case Cast(operand):
            return _bounds(operand, extremes)
        case Negative(operand):
            inner = _bounds(operand, extremes)
            return None if inner is None else (-inner[1], -inner[0])
        case Absolute(operand):
            inner = _bounds(operand, extremes)
            return None if inner is None else (0.0, max(map(abs, inner)))
        case Arithmetic(operator, left, right):
            return _combined(operator, _bounds(left, extremes), _bounds(right, extremes))
    return None


def _combined(operator: str, left: Bounds | None, right: Bounds | None) -> Bounds | None:
    if left is None or right is None:
        return None
    if operator == "+":
        return left[0] + right[0], left[1] + right[1]
    if operator == "-":
        return left[0] - right[1], left[1] - right[0]
    if operator == "*":
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    return None
