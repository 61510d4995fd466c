"""Is an expression a product of what the left row gives and what the right row gives?

If it is u(left) * w(right), its sum over all pairs of a key is the sum of u times the sum of w,
and no pair has to be made.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.expressions.expression import Expression
from watersmeet.expressions.nodes import Arithmetic, Cast, Literal, Negative, Node, columns_of
from watersmeet.expressions.parsing import cast
from watersmeet.expressions.promotion import arithmetic_type
from watersmeet.model import Side

Factors = tuple[Node | None, Node | None]
_Combine = Callable[[Node | None, Node | None], Node | None]
_LONG, _DOUBLE = pa.int64(), pa.float64()
_ONE = Literal(1.0, _DOUBLE)


def factored(expression: Expression) -> tuple[Expression | None, Expression | None] | None:
    """The factors of both sides; None for a side without one. None if it does not factor.

    Where u or w is null the product is, too. The factors' scales add up to the expression's, and
    integers are factored into 64-bit ones: whether a product fits the expression's own type is
    for the bounds of both factors to show. Floats are multiplied in another order than written.
    Single floats are rounded after each product, so they do not factor.
    """
    factors = _factors(expression.tree)
    if factors is None:
        return None
    left, right = (None if node is None else Expression(node) for node in factors)
    return left, right


def _factors(node: Node) -> Factors | None:
    sides = {column.side for column in columns_of(node)}
    if sides <= {Side.LEFT}:
        return node, None
    if sides == {Side.RIGHT}:
        return None, node
    match node:
        case Arithmetic("*", left, right, kind) if kind != pa.float32():
            return _combined(_factors(left), _factors(right), _product)
        case Arithmetic("/", left, right, kind) if kind == _DOUBLE:
            return _combined(_factors(left), _factors(right), _quotient)
        case Negative(operand, kind) if kind != pa.float32():
            return _combined((Literal(-1, pa.int32()), None), _factors(operand), _product)
        case Cast(operand, kind) if kind == _DOUBLE and not pt.is_integer(operand.kind):
            # A product of whole numbers might not fit its type, which nobody would notice then.
            inner = _factors(operand)
            return None if inner is None else (_as_float(inner[0]), _as_float(inner[1]))
    return None


def _product(left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return right if left is None else left
    if pt.is_signed_integer(left.kind) and pt.is_signed_integer(right.kind):
        return Arithmetic("*", cast(left, _LONG), cast(right, _LONG), _LONG)
    kind = arithmetic_type("*", left.kind, right.kind)
    if pt.is_floating(kind):
        left, right = cast(left, _DOUBLE), cast(right, _DOUBLE)
    return Arithmetic("*", left, right, kind)


def _quotient(dividend: Node | None, divisor: Node | None) -> Node | None:
    if divisor is None:
        return dividend
    over = _ONE if dividend is None else cast(dividend, _DOUBLE)
    return Arithmetic("/", over, cast(divisor, _DOUBLE), _DOUBLE)


def _as_float(node: Node | None) -> Node | None:
    return None if node is None else cast(node, _DOUBLE)


def _combined(left: Factors | None, right: Factors | None, combine: _Combine) -> Factors | None:
    if left is None or right is None:
        return None
    return combine(left[Side.LEFT], right[Side.LEFT]), combine(left[Side.RIGHT], right[Side.RIGHT])
