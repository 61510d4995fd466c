"""Between what do an expression's values lie, if the files say what their columns lie between?

An estimate that has not seen values as large as the files hold is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.expressions.expression import Expression
from watersmeet.expressions.nodes import (
    Absolute,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Literal,
    Negative,
    Node,
)
from watersmeet.model import Side

Floats = NDArray[np.float64]
Bounds = tuple[float, float]
BlockBounds = tuple[Floats, Floats]
"""Of each block; NaN where nothing is known."""
Extremes = Mapping[tuple[Side, str], Bounds | BlockBounds]

_Ends = tuple[float | Floats, float | Floats]


def bounds_of(expression: Expression, extremes: Mapping[tuple[Side, str], Bounds]) -> Bounds | None:
    """Least and most, perhaps wider than needed; None where nothing is known.

    >>> import pyarrow as pa
    >>> from watersmeet.expressions.scope import Scope
    >>> items = pa.schema({"price": pa.float64(), "discount": pa.float64()})
    >>> expression = Expression.parse("price * (1 - discount)", Scope((items, pa.schema([]))))
    >>> known = {(Side.LEFT, "price"): (10.0, 90.0), (Side.LEFT, "discount"): (0.0, 0.1)}
    >>> bounds_of(expression, known)
    (9.0, 90.0)
    """
    found = _bounds(expression.tree, extremes)
    if found is None:
        return None
    least, most = (float(end) for end in found)
    return (least, most) if np.isfinite([least, most]).all() else None


def block_bounds(node: Node, extremes: Extremes, blocks: int) -> BlockBounds | None:
    """The same for every block; NaN for one that does not say. None if no block does."""
    found = _bounds(node, extremes)
    if found is None:
        return None
    least, most = (np.broadcast_to(np.asarray(end, np.float64), blocks).copy() for end in found)
    unknown = ~(np.isfinite(least) & np.isfinite(most))
    least[unknown] = most[unknown] = np.nan
    return None if unknown.all() else (least, most)


def _bounds(node: Node, extremes: Extremes) -> _Ends | None:
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
            return None if inner is None else (0.0, np.maximum(*map(np.abs, inner)))
        case Arithmetic(operator, left, right):
            return _combined(operator, _bounds(left, extremes), _bounds(right, extremes))
        case Coalesce(operands):
            return _either(operands, extremes)
        case Case(_, values, otherwise):
            return _either((*values, otherwise), extremes)
    return (0.0, 1.0) if pt.is_boolean(node.kind) else None


def _either(nodes: Sequence[Node], extremes: Extremes) -> _Ends | None:
    """What any of them may be; a null is none."""
    values = [n for n in nodes if not (isinstance(n, Literal) and n.value is None)]
    known = [each for node in values if (each := _bounds(node, extremes)) is not None]
    if not known or len(known) < len(values):
        return None
    least, most = known[0]
    for low, high in known[1:]:
        least, most = np.minimum(least, low), np.maximum(most, high)
    return least, most


def _combined(operator: str, left: _Ends | None, right: _Ends | None) -> _Ends | None:
    if left is None or right is None:
        return None
    if operator == "+":
        return left[0] + right[0], left[1] + right[1]
    if operator == "-":
        return left[0] - right[1], left[1] - right[0]
    if operator == "/" and np.all((np.asarray(right[0]) > 0) | (np.asarray(right[1]) < 0)):
        operator, right = "*", (1 / right[1], 1 / right[0])
    if operator == "*":
        corners = [a * b for a in left for b in right]
        least, most = corners[0], corners[0]
        for corner in corners[1:]:
            least, most = np.minimum(least, corner), np.maximum(most, corner)
        return least, most
    return None
