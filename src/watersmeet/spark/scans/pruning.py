"""Can a row group hold a row that the filter keeps? Its least and greatest values may rule it out.

Only whole numbers are looked at, days and microseconds among them: of text a writer may have kept a
shortened form, and of floats NaN is in no statistics.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from watersmeet.expressions.nodes import Column, Compare, In, Literal, Node
from watersmeet.parquet.footers import Range
from watersmeet.spark.scans.footers import FileFooter

_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def may_hold(footer: FileFooter, group: int, conditions: Iterable[Node]) -> bool:
    """Whether a row of a row group can fulfil all of them."""
    return all(_may_fulfil(footer, group, condition) for condition in conditions)


def _may_fulfil(footer: FileFooter, group: int, condition: Node) -> bool:
    match condition:
        case Compare(sign, Column(_, name), Literal(value)) if isinstance(value, int):
            ends = footer.range(group, name)
            return ends is None or _meets(sign, ends, value)
        case In(Column(_, name), values):
            ends = footer.range(group, name)
            return ends is None or any(_meets("=", ends, value) for value in values)
    return True


def _meets(sign: str, ends: Range, value: Any) -> bool:
    least, greatest = ends
    if sign in ("=", "<=>"):
        return bool(least <= value <= greatest)
    if sign in ("<", "<="):
        return bool(_ORDERS[sign](least, value))
    if sign in (">", ">="):
        return bool(_ORDERS[sign](greatest, value))
    return True
