"""Which expressions have values that their type does not hold, or divisors that may be zero."""

from __future__ import annotations

import pyarrow.types as pt

from watersmeet.expressions.nodes import Absolute, Arithmetic, Cast, Negative, Node, children
from watersmeet.expressions.promotion import holds_all


def can_fail(node: Node) -> bool:
    """Whether there are rows for which it is an error: only then guards matter."""
    if isinstance(node, Arithmetic | Negative | Absolute) and node.failing == "error":
        return True
    if isinstance(node, Cast) and node.failing == "error" and not pt.is_boolean(node.kind):
        return not holds_all(node.operand.kind, node.kind) or can_fail(node.operand)
    return any(map(can_fail, children(node)))
