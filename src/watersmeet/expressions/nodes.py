"""An expression as a tree whose names are resolved and whose types are known.

Conversions that SQL makes silently stand in the tree as `Cast`, so evaluating it decides nothing.
Trees are values: equal text gives equal trees, and they travel to workers without a parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import pyarrow as pa

from watersmeet.model import Side


@dataclass(frozen=True, slots=True)
class Column:
    side: Side
    name: str
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Literal:
    value: int | float | Decimal | str | bool | date | None
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`, one of + - * / %."""

    operator: str
    left: Node
    right: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Absolute:
    operand: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Coalesce:
    operands: tuple[Node, ...]
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Case:
    """The value beside the first condition that holds, else `otherwise`."""

    conditions: tuple[Node, ...]
    values: tuple[Node, ...]
    otherwise: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`, one of = <> < <= > >=."""

    operator: str
    left: Node
    right: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Logic:
    """`left AND right` or `left OR right`."""

    operator: str
    left: Node
    right: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Node
    kind: pa.DataType


Node = (
    Column | Literal | Arithmetic | Negative | Absolute | Cast | Coalesce | Case | Compare
    | Logic | Not | IsNull
)  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Column() | Literal():
            return ()
        case Arithmetic() | Compare() | Logic():
            return (node.left, node.right)
        case Coalesce():
            return node.operands
        case Case():
            return (*node.conditions, *node.values, node.otherwise)
        case _:
            return (node.operand,)


def columns_of(node: Node) -> Iterator[Column]:
    if isinstance(node, Column):
        yield node
    for child in children(node):
        yield from columns_of(child)
