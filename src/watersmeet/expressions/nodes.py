"""An expression as a tree whose names are resolved and whose types are known.

Conversions that SQL makes silently stand in the tree as `Cast`, so evaluating it decides nothing.
Trees are values: equal text gives equal trees, and they travel to workers without a parser.
They are made from SQL (`parsing`), and on Spark from the filters and columns of its plans.

Where a value does not fit its type, or a divisor is zero, SQL's ANSI mode fails ("error"); Spark
without it, and its try_ functions, give a null ("null") or, of whole numbers, what is left in the
type's bits ("wrap"). Each node that this can happen to says which (`failing`).
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
    """A day may be given as a date or as Spark holds it, in days; an instant in microseconds."""

    value: int | float | Decimal | str | bytes | bool | date | None
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`, one of + - * / %."""

    operator: str
    left: Node
    right: Node
    kind: pa.DataType
    failing: str = "error"


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Node
    kind: pa.DataType
    failing: str = "error"


@dataclass(frozen=True, slots=True)
class Absolute:
    operand: Node
    kind: pa.DataType
    failing: str = "error"


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Node
    kind: pa.DataType
    failing: str = "error"


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
    """`left operator right`, one of = <=> <> < <= > >=. With <=> two nulls are equal."""

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


@dataclass(frozen=True, slots=True)
class IsNan:
    """Never null: of a null it is false."""

    operand: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class In:
    """Whether a value is among `values`, of the operand's type and without nulls.

    `or_null`: a null was among them, which what is not found might equal.
    """

    operand: Node
    values: tuple[int | float | Decimal | str | bytes | bool, ...]
    or_null: bool
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class HasText:
    """Whether a text has a part: one of "begin", "end" or "anywhere" says where."""

    place: str
    operand: Node
    part: str
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Whether so many of the values are neither null nor NaN."""

    needed: int
    operands: tuple[Node, ...]
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Ticks:
    """The whole number that Spark holds for a day (days) or an instant (microseconds)."""

    operand: Node
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `functions`, by its name: null where an operand is, and it cannot fail."""

    function: str
    operands: tuple[Node, ...]
    kind: pa.DataType
    parameters: tuple[int | str, ...] = ()


Node = (
    Column | Literal | Arithmetic | Negative | Absolute | Cast | Coalesce | Case | Compare
    | Logic | Not | IsNull | IsNan | In | HasText | AtLeast | Ticks | Call
)  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Column() | Literal():
            return ()
        case Arithmetic() | Compare() | Logic():
            return (node.left, node.right)
        case Coalesce() | AtLeast() | Call():
            return node.operands
        case Case():
            return (*node.conditions, *node.values, node.otherwise)
        case _:
            return (node.operand,)


def conjuncts(node: Node) -> Iterator[Node]:
    """The parts of a condition that must all be true for it to be true."""
    if isinstance(node, Logic) and node.operator == "AND":
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    else:
        yield node


def columns_of(node: Node) -> Iterator[Column]:
    if isinstance(node, Column):
        yield node
    for child in children(node):
        yield from columns_of(child)
