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
from watersmeet.expressions.failing import can_fail
from watersmeet.expressions.functions import called
from watersmeet.expressions.nodes import (
    Absolute,
    Arithmetic,
    AtLeast,
    Call,
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
)
from watersmeet.expressions.numbers import Mask, Numbers, both, read, written
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
                return compute(
                    node.operator, left, right, kind=node.kind, active=active, failing=node.failing
                )
            case Negative(operand, kind, failing):
                numbers = self.numbers(operand, active)
                return negated(numbers, kind, active=active, failing=failing)
            case Absolute(operand, kind, failing):
                numbers = self.numbers(operand, active)
                return magnitude(numbers, kind, active=active, failing=failing)
            case Cast(operand, kind, failing):
                numbers = self.numbers(operand, active)
                return convert(numbers, kind, active=active, failing=failing)
            case Coalesce() if is_number(node.kind):
                return self._first(node, active)
            case Case() if is_number(node.kind):
                return self._choice(node, active)
            case _:
                return _counted(self._given(node, active))

    def values(self, node: Node, active: Active = None) -> Data:
        """Its value for each row, of any type, as an Arrow array; of a constant as a scalar."""
        given = self._as_given(node, active)
        if given is not None:
            return given
        if pt.is_boolean(node.kind):
            return self.truth(node, active).answer
        return written(self.numbers(node, active), node.kind)

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
                return Truth.of(_HAS_TEXT[place](self._given(operand, active), pattern=part))
            case AtLeast(needed, operands):
                return Truth.of(at_least(needed, [self.values(each, active) for each in operands]))
            case Cast(operand) if is_number(operand.kind):
                numbers = self.numbers(operand, active)
                return Truth.known(np.asarray(numbers.values != 0), numbers.valid)
            case _:
                return Truth.of(self._given(node, active))

    def valid(self, node: Node, active: Active = None) -> Mask | None:
        """Where the value is not null, of any type."""
        if is_number(node.kind):
            return self.numbers(node, active).valid
        if pt.is_boolean(node.kind):
            return self.truth(node, active).valid
        return _present(self.values(node, active))

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
            known = self._read[side, name] = _counted(self.columns[side, name])
        return known

    def _as_given(self, node: Node, active: Active) -> Data | None:
        """A value that Arrow has or computes as Spark would; None for others."""
        match node:
            case Literal(value, kind):
                return pa.scalar(value, kind)
            case Column(side, name, kind):
                array = self.columns[side, name]
                # Text may be encoded, or of other offsets than what it is compared with.
                return array if array.type == kind else array.cast(kind)
            case Cast(operand, kind) if holds_all(operand.kind, kind):
                given = self._as_given(operand, active)
                return None if given is None else given.cast(kind)
            case Ticks(operand, kind):
                given = self._as_given(operand, active)
                return None if given is None else given.cast(kind)
            case Call():
                return self._called(node, active)
            case Coalesce() if not is_number(node.kind):
                return self._first_given(node, active)
            case Case() if not is_number(node.kind):
                return self._chosen(node, active)
            case Arithmetic(operator, _, _, kind) if operator in _IN_ARROW:
                # Floats are as fast in numpy, which need not pack the answer into bits.
                whole = pt.is_integer(kind) or pt.is_temporal(kind)
                return self._computed(node, active) if whole else None
            case _:
                return None

    def _called(self, node: Call, active: Active) -> Data:
        operands: list[Data] = []
        for operand in node.operands:
            values = self.values(operand, active)
            if can_fail(node):
                # Spark stops at the first that is null.
                active = both(active, _present(values))
            operands.append(values)
        return called(node, operands)

    def _first_given(self, node: Coalesce, active: Active) -> Data:
        found: list[Data] = []
        for operand in node.operands:
            found.append(self.values(operand, active))
            if can_fail(node):
                present = _present(found[-1])
                active = both(active, np.asarray(False) if present is None else ~present)
        return pc.coalesce(*found)

    def _chosen(self, node: Case, active: Active) -> Data:
        """As `_choice`, of what is no number."""
        chosen: list[tuple[Data, Data]] = []
        open_rows = active
        for condition, value in zip(node.conditions, node.values, strict=True):
            holds = self.truth(condition, open_rows).holds
            mask = pa.array(holds) if holds.ndim else pa.scalar(bool(holds))
            chosen.append((mask, self.values(value, both(open_rows, holds))))
            open_rows = both(open_rows, np.asarray(~holds))
        result = self.values(node.otherwise, open_rows)
        for mask, values in reversed(chosen):
            result = pc.if_else(mask, values, result)
        return result

    def _computed(self, node: Arithmetic, active: Active) -> Data | None:
        """In Arrow, which is several times as fast. Where a number is too large for its type we
        must know who looks at it, and Arrow does not say which one it was."""
        left, right = self._both_given(node, active)
        if left is None or right is None:
            return None
        try:
            found = _IN_ARROW[node.operator](left, right)
        except pa.ArrowInvalid:
            return None
        return found if found.type == node.kind else found.cast(node.kind)

    def _both_given(
        self, node: Arithmetic | Compare, active: Active
    ) -> tuple[Data | None, Data | None]:
        left = self._as_given(node.left, active)
        if left is not None and node.operator != "<=>" and can_fail(node.right):
            active = both(active, _present(left))
        return left, self._as_given(node.right, active)

    def _given(self, node: Node, active: Active) -> Data:
        given = self._as_given(node, active)
        assert given is not None, f"{node} is no column or constant"
        return given

    def _compare(self, node: Compare, active: Active) -> Truth:
        kind = node.left.kind
        if pt.is_boolean(kind):
            return self._compare_conditions(node, active)
        if kind == node.right.kind or not is_number(kind):
            left, right = self._both_given(node, active)
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
        if can_fail(node.right):
            settled = left.fails if node.operator == "AND" else left.holds
            guarded = both(active, np.asarray(~settled))
        right = self.truth(node.right, guarded)
        return left.and_(right) if node.operator == "AND" else left.or_(right)

    def _is_null(self, operand: Node, active: Active) -> Truth:
        given = self._as_given(operand, active)
        if given is not None:
            return Truth.of(given.is_null() if isinstance(given, pa.Array) else pc.is_null(given))
        valid = self.valid(operand, active)
        return Truth.known(np.asarray(False) if valid is None else np.asarray(~valid), None)

    def _is_nan(self, operand: Node, active: Active) -> Truth:
        given = self._as_given(operand, active)
        if given is not None:
            return Truth.of(pc.coalesce(pc.is_nan(given), pa.scalar(False)))
        numbers = self.numbers(operand, active)
        nan = np.isnan(numbers.values)
        return Truth.known(np.asarray(nan if numbers.valid is None else nan & numbers.valid), None)

    def _among(self, node: In, active: Active) -> Truth:
        given = self._as_given(node.operand, active)
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


def _counted(data: Data) -> Numbers:
    """Days, instants and spans of time as the numbers that Spark has for them."""
    if pt.is_temporal(data.type):
        data = data.cast(pa.int32() if pt.is_date32(data.type) else pa.int64())
    if isinstance(data, pa.Scalar):
        return _constant(Literal(data.as_py(), data.type))
    return read(data)


def _present(values: Data) -> Mask | None:
    """Where there is a value; None if there is everywhere."""
    if isinstance(values, pa.Scalar):
        return _null_if(not values.is_valid)
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None


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
