"""Which rows of a batch does a filter keep? The conditions that we compute exactly as Spark does.

A condition is a picklable tree over columns by position. It yields true, false or null per row with
SQL's three-valued logic, and Spark's order of floating point numbers: NaN equals NaN and is above
all others, -0.0 equals 0.0. Text is compared byte by byte, in Spark as in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Data = Any
"""An Arrow array or scalar: pyarrow has no types of its own to say so."""


@dataclass(frozen=True)
class Column:
    position: int
    kind: pa.DataType

    @property
    def columns(self) -> frozenset[int]:
        return frozenset({self.position})

    def evaluate(self, columns: Sequence[pa.Array]) -> Data:
        return columns[self.position]


@dataclass(frozen=True)
class Constant:
    """Dates and timestamps are given as Spark holds them: days, microseconds."""

    value: Any
    kind: pa.DataType
    columns = frozenset[int]()

    def evaluate(self, columns: Sequence[pa.Array]) -> Data:
        return pa.scalar(self.value, self.kind)


@dataclass(frozen=True)
class Choice:
    """The values of an IN, without nulls."""

    values: tuple[Any, ...]
    kind: pa.DataType
    columns = frozenset[int]()

    def evaluate(self, columns: Sequence[pa.Array]) -> Data:
        return pa.array(self.values, self.kind)


@dataclass(frozen=True)
class Widened:
    """A cast that changes no value."""

    operand: Expression
    kind: pa.DataType

    @property
    def columns(self) -> frozenset[int]:
        return self.operand.columns

    def evaluate(self, columns: Sequence[pa.Array]) -> Data:
        return self.operand.evaluate(columns).cast(self.kind)


@dataclass(frozen=True)
class Computed:
    """A value that is computed from others. Too large a whole number is an error, as in Spark."""

    operation: str
    operands: tuple[Expression, ...]
    kind: pa.DataType

    @property
    def columns(self) -> frozenset[int]:
        return frozenset[int]().union(*(operand.columns for operand in self.operands))

    def evaluate(self, columns: Sequence[pa.Array]) -> Data:
        data = [operand.evaluate(columns) for operand in self.operands]
        return OPERATIONS[self.operation](*data)


@dataclass(frozen=True)
class Condition:
    """An operation on other expressions that yields true, false or null."""

    operation: str
    operands: tuple[Expression, ...]
    kind = pa.bool_()

    @property
    def columns(self) -> frozenset[int]:
        """The positions of the columns that it looks at."""
        return frozenset[int]().union(*(operand.columns for operand in self.operands))

    @property
    def conjuncts(self) -> tuple[Expression, ...]:
        """The parts that must all be true for it to be true."""
        if self.operation != "and":
            return (self,)
        return tuple(
            part
            for operand in self.operands
            for part in (operand.conjuncts if isinstance(operand, Condition) else (operand,))
        )

    def evaluate(self, columns: Sequence[pa.Array]) -> Data:
        data = [operand.evaluate(columns) for operand in self.operands]
        return OPERATIONS[self.operation](*data)


Expression = Column | Constant | Choice | Widened | Computed | Condition


def _or_both_null(equal: Callable[[Data, Data], Data]) -> Callable[[Data, Data], Data]:
    def null_safe(left: Data, right: Data) -> Data:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.coalesce(equal(left, right), pa.scalar(False)))

    return null_safe


def _float_equal(left: Data, right: Data) -> Data:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _float_less(left: Data, right: Data) -> Data:
    below_nan = pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left)))
    return pc.or_(pc.less(left, right), below_nan)


def _in(operand: Data, choice: pa.Array) -> Data:
    found = pc.is_in(operand, value_set=choice)
    return pc.if_else(pc.is_valid(operand), found, pa.scalar(None, pa.bool_()))


def _in_with_null(operand: Data, choice: pa.Array) -> Data:
    """What is not found might equal the null."""
    return pc.if_else(pc.is_in(operand, value_set=choice), True, pa.scalar(None, pa.bool_()))


def _at_least(needed: pa.Scalar, *operands: Data) -> Data:
    """Spark's `dropna`: how many are neither null nor NaN."""
    present = [pc.is_valid(operand).cast(pa.int32()) for operand in map(_without_nan, operands)]
    return pc.greater_equal(reduce(pc.add, present), needed)


def _without_nan(data: Data) -> Data:
    if not pt.is_floating(data.type):
        return data
    return pc.if_else(pc.is_nan(data), pa.scalar(None, data.type), data)


def _time_between(end: Data, start: Data) -> Data:
    return pc.subtract_checked(end.cast(pa.int64()), start.cast(pa.int64())).cast(pa.duration("us"))


OPERATIONS: dict[str, Callable[..., Data]] = {
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is null": pc.is_null,
    "is not null": pc.is_valid,
    "is nan": lambda data: pc.coalesce(pc.is_nan(data), pa.scalar(False)),
    "at least": _at_least,
    "=": pc.equal,
    "<=>": _or_both_null(pc.equal),
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "float =": _float_equal,
    "float <=>": _or_both_null(_float_equal),
    "float <": _float_less,
    "float <=": lambda left, right: pc.invert(_float_less(right, left)),
    "float >": lambda left, right: _float_less(right, left),
    "float >=": lambda left, right: pc.invert(_float_less(left, right)),
    "in": _in,
    "in with null": _in_with_null,
    "starts with": lambda text, part: pc.starts_with(text, pattern=part.as_py()),
    "ends with": lambda text, part: pc.ends_with(text, pattern=part.as_py()),
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "negative": pc.negate_checked,
    "abs": pc.abs_checked,
    "days between": lambda end, start: pc.subtract_checked(
        end.cast(pa.int32()), start.cast(pa.int32())
    ),
    "time between": _time_between,
    "microseconds": lambda moment: moment.cast(pa.int64()),
    "contains": lambda text, part: pc.match_substring(text, pattern=part.as_py()),
}
