"""The value of a tree for every row of a batch, by whole columns.

Conditions guard what they stand before: `CASE WHEN b <> 0 THEN a / b END` must not fail where b is
zero. Columns are computed for all rows, so each step is told for which rows its value is looked
at (`active`), and only those can fail.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.expressions.arithmetic import Active, compute, convert, magnitude, negated
from watersmeet.expressions.nodes import (
    Absolute,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    IsNull,
    Literal,
    Logic,
    Negative,
    Node,
    Not,
)
from watersmeet.expressions.numbers import Mask, Numbers, both, read
from watersmeet.expressions.promotion import is_number
from watersmeet.model import Side

_NUMPY = {
    "=": operators.eq,
    "<>": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
_ARROW = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TRUE = np.asarray(True)
# Python's decimals round to 28 digits unless told not to.
_WIDE = Context(prec=80)


@dataclass(frozen=True, slots=True)
class Truth:
    """True, false or unknown for each row: `values` counts where `valid`."""

    values: Mask
    valid: Mask | None

    @property
    def holds(self) -> Mask:
        return self.values if self.valid is None else np.asarray(self.values & self.valid)

    @property
    def fails(self) -> Mask:
        fails = np.asarray(~self.values)
        return fails if self.valid is None else np.asarray(fails & self.valid)


@dataclass
class Evaluation:
    """One batch and what has been read of it."""

    columns: Mapping[tuple[Side, str], pa.Array]
    _read: dict[tuple[Side, str], Numbers] = field(default_factory=dict)

    def numbers(self, node: Node, active: Active = None) -> Numbers:
        if pt.is_boolean(node.kind):
            truth = self.truth(node, active)
            return Numbers(np.asarray(truth.values, np.int64), truth.valid, 0, (0, 1))
        match node:
            case Column(side, name):
                return self._column(side, name)
            case Literal():
                return _constant(node)
            case Arithmetic():
                left, right = self._operands(node, active)
                return compute(node.operator, left, right, kind=node.kind, active=active)
            case Negative():
                return negated(self.numbers(node.operand, active), node.kind, active=active)
            case Absolute():
                return magnitude(self.numbers(node.operand, active), node.kind, active=active)
            case Cast():
                return convert(self.numbers(node.operand, active), node.kind, active=active)
            case Coalesce():
                return self._first(node, active)
            case Case():
                return self._choice(node, active)
            case _:
                raise AssertionError(f"{node} is no number")

    def truth(self, node: Node, active: Active = None) -> Truth:
        match node:
            case Compare():
                return self._compare(node, active)
            case Logic():
                return self._logic(node, active)
            case Not():
                truth = self.truth(node.operand, active)
                return Truth(np.asarray(~truth.values), truth.valid)
            case IsNull():
                valid = self.valid(node.operand, active)
                return Truth(np.asarray(False) if valid is None else np.asarray(~valid), None)
            case Literal():
                return Truth(np.asarray(bool(node.value)), _null_if(node.value is None))
            case _:
                return _truth(self._array(node))

    def valid(self, node: Node, active: Active = None) -> Mask | None:
        """Where the value is not null, of any type."""
        if is_number(node.kind):
            return self.numbers(node, active).valid
        if pt.is_boolean(node.kind):
            return self.truth(node, active).valid
        values = self._array(node)
        if isinstance(values, pa.Scalar):
            return _null_if(not values.is_valid)
        return _truth(values.is_null()).fails if values.null_count else None

    def _operands(self, node: Arithmetic | Compare, active: Active) -> tuple[Numbers, Numbers]:
        """Where one is null Spark does not compute the other; it begins with a divisor, or left."""
        if node.operator in ("/", "%"):
            right = self.numbers(node.right, active)
            return self.numbers(node.left, both(active, right.valid)), right
        left = self.numbers(node.left, active)
        return left, self.numbers(node.right, both(active, left.valid))

    def _column(self, side: Side, name: str) -> Numbers:
        known = self._read.get((side, name))
        if known is None:
            known = self._read[side, name] = read(self.columns[side, name])
        return known

    def _array(self, node: Node) -> pa.Array | pa.Scalar:
        """A column or constant that is no number: dates, text."""
        if isinstance(node, Literal):
            return pa.scalar(node.value, node.kind)
        assert isinstance(node, Column)
        array = self.columns[node.side, node.name]
        # Text may be encoded, or of other offsets than what it is compared with.
        return array if array.type == node.kind else array.cast(node.kind)

    def _compare(self, node: Compare, active: Active) -> Truth:
        compare = _NUMPY[node.operator]
        kind = node.left.kind
        if is_number(kind):
            left, right = self._operands(node, active)
            valid = both(left.valid, right.valid)
            if not left.exact:
                return Truth(_compare_floats(compare, left.values, right.values), valid)
            scale = max(left.scale, right.scale)
            mine, others = left.at_scale(scale).values, right.at_scale(scale).values
            return Truth(np.asarray(compare(mine, others), np.bool_), valid)
        if pt.is_boolean(kind):
            one, other = self.truth(node.left, active), self.truth(node.right, active)
            values = np.asarray(compare(one.values, other.values))
            return Truth(values, both(one.valid, other.valid))
        return _truth(_ARROW[node.operator](self._array(node.left), self._array(node.right)))

    def _logic(self, node: Logic, active: Active) -> Truth:
        left = self.truth(node.left, active)
        settled = left.fails if node.operator == "AND" else left.holds
        right = self.truth(node.right, both(active, np.asarray(~settled)))
        valid = both(left.valid, right.valid)
        if node.operator == "AND":
            values, decided = left.holds & right.holds, left.fails | right.fails
        else:
            values = decided = left.holds | right.holds
        # One side can settle the matter where the other is unknown.
        return Truth(np.asarray(values), None if valid is None else np.asarray(valid | decided))

    def _first(self, node: Coalesce, active: Active) -> Numbers:
        first, *others = node.operands
        result = self.numbers(first, active)
        for other in others:
            if result.valid is None:
                break
            missing = np.asarray(~result.valid)
            values = self.numbers(other, both(active, missing))
            result = _merged(missing, values, result)
        return result

    def _choice(self, node: Case, active: Active) -> Numbers:
        """The branches from last to first, each over the rows where its condition holds."""
        chosen: list[tuple[Mask, Numbers]] = []
        open_rows = active
        for condition, value in zip(node.conditions, node.values, strict=True):
            holds = self.truth(condition, open_rows).holds
            chosen.append((holds, self.numbers(value, both(open_rows, holds))))
            open_rows = both(open_rows, np.asarray(~holds))
        result = self.numbers(node.otherwise, open_rows)
        for holds, values in reversed(chosen):
            result = _merged(holds, values, result)
        return result


def _merged(where: Mask, first: Numbers, second: Numbers) -> Numbers:
    valid = None
    if first.valid is not None or second.valid is not None:
        mine, others = (_TRUE if n.valid is None else n.valid for n in (first, second))
        valid = np.asarray(np.where(where, mine, others))
    values = np.asarray(np.where(where, first.values, second.values))
    bounds = (min(first.bounds[0], second.bounds[0]), max(first.bounds[1], second.bounds[1]))
    return Numbers(values, valid, first.scale, bounds)


def _null_if(null: bool) -> Mask | None:
    return np.asarray(False) if null else None


def _constant(node: Literal) -> Numbers:
    kind, value = node.kind, node.value
    scale = kind.scale if pt.is_decimal(kind) else 0
    valid = _null_if(value is None)
    if pt.is_floating(kind):
        return Numbers(np.asarray(value or 0, kind.to_pandas_dtype()), valid)
    assert value is None or isinstance(value, int | Decimal)
    whole = int(_WIDE.scaleb(Decimal(value or 0), scale))
    return Numbers(np.asarray(whole, object), valid, scale).tight()


def _truth(answer: pa.Array | pa.Scalar) -> Truth:
    if isinstance(answer, pa.Scalar):
        return Truth(np.asarray(answer.as_py() is True), _null_if(not answer.is_valid))
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    valid = None
    if answer.null_count:
        valid = answer.is_valid().to_numpy(zero_copy_only=False)
        answer = answer.fill_null(False)
    return Truth(answer.to_numpy(zero_copy_only=False), valid)


def _compare_floats(compare: Any, left: Any, right: Any) -> Mask:
    """In Spark NaN equals itself and is greater than every other number."""
    values = compare(left, right)
    left_nan, right_nan = np.isnan(left), np.isnan(right)
    if left_nan.any() or right_nan.any():
        values = np.where(left_nan | right_nan, compare(left_nan, right_nan), values)
    return np.asarray(values, np.bool_)
