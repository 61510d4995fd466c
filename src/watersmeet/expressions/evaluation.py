"""The value of a tree for every row of a batch, by whole columns.

Numbers are computed on numpy arrays, because Arrow's arithmetic is not Spark's. Conditions over
columns as they are stay in Arrow from the comparison to the mask.

Conditions guard what they stand before: `CASE WHEN b <> 0 THEN a / b END` must not fail where b is
zero. Columns are computed for all rows, so each step is told for which rows its value is looked
at (`active`), and only those can fail.

Values are Spark's: of floats NaN equals NaN and is above all others, -0.0 equals 0.0; text is
compared byte by byte.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.expressions.arithmetic import Active, compute, convert, magnitude, negated
from watersmeet.expressions.nodes import (
    Absolute,
    Arithmetic,
    AtLeast,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    HasText,
    In,
    IsNan,
    IsNull,
    Literal,
    Logic,
    Negative,
    Node,
    Not,
    Ticks,
    children,
)
from watersmeet.expressions.numbers import Mask, Numbers, both, read
from watersmeet.expressions.promotion import holds_all, is_number
from watersmeet.expressions.truth import Data, Truth, at_least, compare_floats, compared, null_safe
from watersmeet.model import Side

_NUMPY = {
    "=": operators.eq,
    "<>": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
# Of whole numbers Arrow's values are Spark's.
_IN_ARROW = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_HAS_TEXT = {
    "begin": pc.starts_with,
    "end": pc.ends_with,
    "anywhere": pc.match_substring,
}
_TRUE = np.asarray(True)
# Python's decimals round to 28 digits unless told not to.
_WIDE = Context(prec=80)


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
            case Ticks():
                return self.numbers(node.operand, active)
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
                return self.truth(node.operand, active).opposite()
            case IsNull():
                return self._is_null(node.operand, active)
            case IsNan():
                return self._is_nan(node.operand, active)
            case In():
                return self._among(node, active)
            case HasText(place, operand, part):
                return Truth.of(_HAS_TEXT[place](self._given(operand), pattern=part))
            case AtLeast(needed, operands):
                return Truth.of(at_least(needed, [self._given(each) for each in operands]))
            case _:
                return Truth.of(self._given(node))

    def valid(self, node: Node, active: Active = None) -> Mask | None:
        """Where the value is not null, of any type."""
        if is_number(node.kind):
            return self.numbers(node, active).valid
        if pt.is_boolean(node.kind):
            return self.truth(node, active).valid
        values = self._given(node)
        if isinstance(values, pa.Scalar):
            return _null_if(not values.is_valid)
        return Truth.of(values.is_valid()).values if values.null_count else None

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
            array = self.columns[side, name]
            if pt.is_temporal(array.type):
                array = array.cast(pa.int32() if pt.is_date32(array.type) else pa.int64())
            known = self._read[side, name] = read(array)
        return known

    def _as_given(self, node: Node) -> Data | None:
        """A value that Arrow has or computes as Spark would; None for others."""
        match node:
            case Literal(value, kind):
                return pa.scalar(value, kind)
            case Column(side, name, kind):
                array = self.columns[side, name]
                # Text may be encoded, or of other offsets than what it is compared with.
                return array if array.type == kind else array.cast(kind)
            case Cast(operand, kind) if holds_all(operand.kind, kind):
                given = self._as_given(operand)
                return None if given is None else given.cast(kind)
            case Ticks(operand, kind):
                given = self._as_given(operand)
                return None if given is None else given.cast(kind)
            case Arithmetic(operator, _, _, kind) if operator in _IN_ARROW:
                # Floats are as fast in numpy, which need not pack the answer into bits.
                whole = pt.is_integer(kind) or pt.is_temporal(kind)
                return self._computed(node) if whole else None
            case _:
                return None

    def _computed(self, node: Arithmetic) -> Data | None:
        """In Arrow, which is several times as fast. Where a number is too large for its type we
        must know who looks at it, and Arrow does not say which one it was."""
        left, right = self._as_given(node.left), self._as_given(node.right)
        if left is None or right is None:
            return None
        try:
            found = _IN_ARROW[node.operator](left, right)
        except pa.ArrowInvalid:
            return None
        return found if found.type == node.kind else found.cast(node.kind)

    def _given(self, node: Node) -> Data:
        given = self._as_given(node)
        assert given is not None, f"{node} is no column or constant"
        return given

    def _compare(self, node: Compare, active: Active) -> Truth:
        kind = node.left.kind
        if pt.is_boolean(kind):
            return self._compare_conditions(node, active)
        if kind == node.right.kind or not is_number(kind):
            left, right = self._as_given(node.left), self._as_given(node.right)
            if left is not None and right is not None:
                return Truth.of(compared(node.operator, left, right))
        return self._compare_numbers(node, active)

    def _compare_numbers(self, node: Compare, active: Active) -> Truth:
        if node.operator == "<=>":
            # Here the value of each side is looked at wherever the other is null.
            left, right = self.numbers(node.left, active), self.numbers(node.right, active)
            return null_safe(_compared("=", left, right), left.valid, right.valid)
        left, right = self._operands(node, active)
        return Truth.known(_compared(node.operator, left, right), both(left.valid, right.valid))

    def _compare_conditions(self, node: Compare, active: Active) -> Truth:
        one, other = self.truth(node.left, active), self.truth(node.right, active)
        if node.operator == "<=>":
            return null_safe(np.asarray(one.values == other.values), one.valid, other.valid)
        values = np.asarray(_NUMPY[node.operator](one.values, other.values))
        return Truth.known(values, both(one.valid, other.valid))

    def _logic(self, node: Logic, active: Active) -> Truth:
        left = self.truth(node.left, active)
        guarded = active
        if _can_fail(node.right):
            settled = left.fails if node.operator == "AND" else left.holds
            guarded = both(active, np.asarray(~settled))
        right = self.truth(node.right, guarded)
        return left.and_(right) if node.operator == "AND" else left.or_(right)

    def _is_null(self, operand: Node, active: Active) -> Truth:
        given = self._as_given(operand)
        if given is not None:
            return Truth.of(given.is_null() if isinstance(given, pa.Array) else pc.is_null(given))
        valid = self.valid(operand, active)
        return Truth.known(np.asarray(False) if valid is None else np.asarray(~valid), None)

    def _is_nan(self, operand: Node, active: Active) -> Truth:
        given = self._as_given(operand)
        if given is not None:
            return Truth.of(pc.coalesce(pc.is_nan(given), pa.scalar(False)))
        numbers = self.numbers(operand, active)
        nan = np.isnan(numbers.values)
        return Truth.known(np.asarray(nan if numbers.valid is None else nan & numbers.valid), None)

    def _among(self, node: In, active: Active) -> Truth:
        given = self._as_given(node.operand)
        unknown = pa.scalar(None, pa.bool_())
        if given is not None and not pt.is_floating(node.operand.kind):
            found = pc.is_in(given, value_set=pa.array(node.values, node.operand.kind))
            if node.or_null:
                return Truth.of(pc.if_else(found, True, unknown))
            return Truth.of(pc.if_else(pc.is_valid(given), found, unknown))
        equal = (
            Compare("=", node.operand, Literal(value, node.operand.kind), node.kind)
            for value in node.values
        )
        found = reduce(Truth.or_, (self.truth(each, active) for each in equal))
        return found.or_(Truth.of(unknown)) if node.or_null else found

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


def _compared(operator: str, left: Numbers, right: Numbers) -> Mask:
    compare = _NUMPY[operator]
    if not left.exact:
        return compare_floats(compare, left.values, right.values)
    scale = max(left.scale, right.scale)
    mine, others = left.at_scale(scale).values, right.at_scale(scale).values
    return np.asarray(compare(mine, others), np.bool_)


def _can_fail(node: Node) -> bool:
    """Whether a value can be one that its type does not hold: only then guards matter."""
    if isinstance(node, Arithmetic | Negative | Absolute):
        return True
    if isinstance(node, Cast) and not holds_all(node.operand.kind, node.kind):
        return True
    return any(map(_can_fail, children(node)))
