"""From SQL text to a tree: sqlglot reads it, names are resolved, Spark's conversions are added."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.expressions.nodes import (
    Absolute,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Compare,
    IsNull,
    Literal,
    Logic,
    Negative,
    Node,
    Not,
)
from watersmeet.expressions.promotion import (
    MOST_DIGITS,
    arithmetic_type,
    as_decimal,
    common_type,
    is_number,
)
from watersmeet.expressions.scope import Scope

if TYPE_CHECKING:
    from sqlglot import exp

_ADD_A_COLUMN = "Add it as a column of the DataFrame and use that column."
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_COMPARE = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_SUFFIXED = re.compile(r"\b\d+[lsy]\b", re.IGNORECASE)
_CAST = re.compile(r"\bcast\b|::", re.IGNORECASE)
_TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
}


def parse(text: str, scope: Scope) -> Node:
    """The tree of an arithmetic expression over the columns in scope."""
    # Here, because it takes a tenth of a second that only aggregates need.
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        # As a condition: as a statement, `comment` and `show` would be commands.
        tree = sqlglot.parse_one(text, read="spark", into=exp.Condition)
    except SqlglotError:
        raise InvalidArgument(
            f"{text!r} is no SQL expression.",
            remedy="Write arithmetic over column names, as in price * (1 - discount).",
        ) from None
    except RecursionError:
        raise _too_deep(text) from None
    suffixed = _SUFFIXED.search(text) is not None
    if suffixed and _CAST.search(text):
        raise InvalidArgument(
            f"{text!r} has both a cast and a number with a suffix, which look alike to its reader.",
            remedy="Write the number without its suffix.",
        )
    try:
        return _Reader(text, scope, suffixed=suffixed).read(tree)
    except RecursionError:
        raise _too_deep(text) from None


def _too_deep(text: str) -> InvalidArgument:
    return InvalidArgument(
        f"{text[:60]!r}... is nested too deeply to be read.",
        remedy="Make parts of it columns of the DataFrame.",
    )


class _Reader:
    def __init__(self, text: str, scope: Scope, *, suffixed: bool) -> None:
        self._text = text
        self._suffixed = suffixed
        self._scope = scope
        self._readers: dict[str, Callable[..., Node]] = {
            "Paren": lambda tree: self.read(tree.this),
            "Column": self._column,
            "Literal": self._literal,
            "Null": lambda tree: Literal(None, pa.null()),
            "Boolean": lambda tree: Literal(bool(tree.this), pa.bool_()),
            "Neg": self._negative,
            "Abs": self._absolute,
            "Cast": self._cast,
            "TryCast": self._cast,
            "Coalesce": self._coalesce,
            "Case": self._case,
            "If": self._if,
            "And": self._logic,
            "Or": self._logic,
            "Not": lambda tree: Not(self._condition(tree.this), pa.bool_()),
            "Between": self._between,
            "In": self._in,
            "Is": self._is,
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys(_COMPARE, self._compare),
        }

    def read(self, tree: exp.Expr) -> Node:
        reader = self._readers.get(type(tree).__name__)
        if reader is None:
            raise self._refused(tree)
        return reader(tree)

    def _column(self, tree: exp.Column) -> Node:
        if tree.args.get("db") is not None:
            raise self._refused(tree)
        return self._scope.column(tree.name, qualifier=tree.table or None)

    def _literal(self, tree: exp.Literal) -> Node:
        return Literal(tree.this, pa.string()) if tree.is_string else _number(tree.this)

    def _negative(self, tree: exp.Neg) -> Node:
        inner = tree.this
        if type(inner).__name__ == "Literal" and not inner.is_string:
            # To Spark's parser the sign is part of the number.
            return _number("-" + inner.this)
        operand = self._numeric(inner, "-")
        return Negative(operand, operand.kind)

    def _absolute(self, tree: exp.Abs) -> Node:
        operand = self._numeric(tree.this, "abs")
        return Absolute(operand, operand.kind)

    def _arithmetic(self, tree: exp.Binary) -> Node:
        operator = _ARITHMETIC[type(tree).__name__]
        left, right = self._numeric(tree.left, operator), self._numeric(tree.right, operator)
        left, right = _literal_as_decimal(left, right), _literal_as_decimal(right, left)
        kind = arithmetic_type(operator, left.kind, right.kind)
        if not pt.is_decimal(kind):
            # Decimals are computed each at its own scale, all others in the result's type.
            left, right = cast(left, kind), cast(right, kind)
        return Arithmetic(operator, left, right, kind)

    def _cast(self, tree: exp.Cast) -> Node:
        operand = self.read(tree.this)
        name = tree.to.this.name
        if name == "DATE" and isinstance(operand, Literal) and isinstance(operand.value, str):
            return Literal(_date(operand.value), pa.date32())
        kind = self._cast_type(tree, name, operand)
        if type(tree.this).__name__ == "Literal" and pt.is_signed_integer(kind) and self._suffixed:
            # sqlglot reads 2L as a cast, Spark as a literal.
            value, half = int(tree.this.this), 1 << (kind.bit_width - 1)
            if not value < half:
                raise self._refused(tree)
            return Literal(value, kind)
        # Kept if it changes nothing: beside a decimal a literal has only the digits it shows.
        return Cast(operand, kind) if isinstance(operand, Literal) else cast(operand, kind)

    def _cast_type(self, tree: exp.Cast, name: str, operand: Node) -> pa.DataType:
        kind = _TYPES.get(name)
        if name == "DECIMAL":
            if not all(size.name.isdecimal() for size in tree.to.expressions):
                raise self._refused(tree)
            sizes = [int(size.name) for size in tree.to.expressions] or [10]
            precision, scale = (*sizes, 0)[:2]
            if 0 <= scale <= precision <= MOST_DIGITS and precision:
                kind = pa.decimal128(precision, scale)
        possible = is_number(operand.kind) or pt.is_boolean(operand.kind)
        # Spark goes through the text of a double here, and text depends on the Java version.
        rounded = pt.is_floating(operand.kind) and kind is not None and pt.is_decimal(kind)
        twice = pt.is_decimal(operand.kind) and kind == pa.float32()
        if kind is None or not possible or rounded or twice or tree.args.get("safe"):
            raise self._refused(tree)
        return kind

    def _coalesce(self, tree: exp.Coalesce) -> Node:
        operands = [self.read(part) for part in (tree.this, *tree.expressions)]
        kind = self._common(tree, operands)
        return Coalesce(tuple(cast(operand, kind) for operand in operands), kind)

    def _case(self, tree: exp.Case) -> Node:
        subject = None if tree.this is None else self.read(tree.this)
        branches = tree.args["ifs"]
        if subject is None:
            conditions = [self._condition(branch.this) for branch in branches]
        else:
            conditions = [
                self._comparison("=", subject, self.read(branch.this), tree) for branch in branches
            ]
        values = [self.read(branch.args["true"]) for branch in branches]
        return self._choice(tree, conditions, values, tree.args.get("default"))

    def _if(self, tree: exp.If) -> Node:
        conditions, values = [self._condition(tree.this)], [self.read(tree.args["true"])]
        return self._choice(tree, conditions, values, tree.args.get("false"))

    def _choice(
        self,
        tree: exp.Expr,
        conditions: Sequence[Node],
        values: Sequence[Node],
        default: exp.Expr | None,
    ) -> Node:
        otherwise = Literal(None, pa.null()) if default is None else self.read(default)
        kind = self._common(tree, [*values, otherwise])
        cases = tuple(cast(value, kind) for value in values)
        return Case(tuple(conditions), cases, cast(otherwise, kind), kind)

    def _common(self, tree: exp.Expr, values: Sequence[Node]) -> pa.DataType:
        kind = common_type([value.kind for value in values])
        if kind is None or not is_number(kind):
            raise SchemaError(
                f"In {self._text!r} the values of {tree.key.upper()} are of types "
                f"{', '.join(str(value.kind) for value in values)}.",
                remedy="Make all of them numbers.",
            )
        return kind

    def _logic(self, tree: exp.Connector) -> Node:
        left, right = self._condition(tree.left), self._condition(tree.right)
        return Logic(tree.key.upper(), left, right, pa.bool_())

    def _compare(self, tree: exp.Binary) -> Node:
        operator = _COMPARE[type(tree).__name__]
        return self._comparison(operator, self.read(tree.left), self.read(tree.right), tree)

    def _between(self, tree: exp.Between) -> Node:
        value = self.read(tree.this)
        low = self._comparison(">=", value, self.read(tree.args["low"]), tree)
        high = self._comparison("<=", value, self.read(tree.args["high"]), tree)
        return Logic("AND", low, high, pa.bool_())

    def _in(self, tree: exp.In) -> Node:
        if not tree.expressions:
            raise self._refused(tree)
        value = self.read(tree.this)
        found, *others = [
            self._comparison("=", value, self.read(item), tree) for item in tree.expressions
        ]
        for other in others:
            found = Logic("OR", found, other, pa.bool_())
        return found

    def _is(self, tree: exp.Is) -> Node:
        if type(tree.expression).__name__ != "Null":
            raise self._refused(tree)
        return IsNull(self.read(tree.this), pa.bool_())

    def _comparison(self, operator: str, left: Node, right: Node, tree: exp.Expr) -> Node:
        left, right = _literal_as_date(left, right), _literal_as_date(right, left)
        kind = common_type([left.kind, right.kind])
        if kind is None or pt.is_null(kind):
            raise SchemaError(
                f"{tree.sql('spark')!r} compares {left.kind} with {right.kind}.",
                remedy="Compare numbers with numbers, text with text and dates with dates.",
            )
        if pt.is_floating(kind) or pt.is_null(left.kind) or pt.is_null(right.kind):
            left, right = cast(left, kind), cast(right, kind)
        return Compare(operator, left, right, pa.bool_())

    def _numeric(self, tree: exp.Expr, operator: str) -> Node:
        node = self.read(tree)
        if not is_number(node.kind):
            raise SchemaError(
                f"{tree.sql('spark')!r} in {self._text!r} is of type {node.kind}, "
                f"and {operator} needs a number.",
                remedy="Use a numeric column.",
            )
        return node

    def _condition(self, tree: exp.Expr) -> Node:
        node = self.read(tree)
        if not (pt.is_boolean(node.kind) or pt.is_null(node.kind)):
            raise SchemaError(
                f"{tree.sql('spark')!r} in {self._text!r} is of type {node.kind}, "
                "where a condition is needed.",
                remedy="Compare its value with something.",
            )
        return cast(node, pa.bool_())

    def _refused(self, tree: exp.Expr) -> InvalidArgument:
        part = tree.sql("spark")
        what = repr(part) if part == self._text else f"{part!r} in {self._text!r}"
        return InvalidArgument(
            f"{what} is more than arithmetic and conditions over columns.", remedy=_ADD_A_COLUMN
        )


def cast(node: Node, kind: pa.DataType) -> Node:
    if node.kind == kind:
        return node
    if isinstance(node, Literal) and node.value is None:
        return Literal(None, kind)
    return Cast(node, kind)


def _number(text: str) -> Literal:
    """A number with the type that Spark's parser gives it."""
    if "e" in text.lower():
        return Literal(float(text), pa.float64())
    if "." not in text:
        value = int(text)
        for kind, bits in ((pa.int32(), 31), (pa.int64(), 63)):
            if -(1 << bits) <= value < 1 << bits:
                return Literal(value, kind)
    decimal = Decimal(text)
    _, digits, exponent = decimal.as_tuple()
    assert isinstance(exponent, int)
    precision, scale = max(len(digits), -exponent), -exponent
    if precision > MOST_DIGITS:
        raise InvalidArgument(
            f"{text} has more than {MOST_DIGITS} digits.", remedy="Write it with fewer."
        )
    return Literal(decimal, pa.decimal128(precision, scale))


def _literal_as_decimal(node: Node, other: Node) -> Node:
    """Beside a decimal an integer literal counts only the digits it has."""
    if not pt.is_decimal(other.kind) or not pt.is_signed_integer(node.kind):
        return node
    if isinstance(node, Literal) and node.value is not None:
        digits = len(str(abs(int(node.value))))  # type: ignore[arg-type]
        return Literal(Decimal(int(node.value)), pa.decimal128(digits, 0))  # type: ignore[arg-type]
    return cast(node, as_decimal(node.kind))


def _literal_as_date(node: Node, other: Node) -> Node:
    """Text is compared with a date as a date."""
    if isinstance(node, Literal) and isinstance(node.value, str) and pt.is_date(other.kind):
        return Literal(_date(node.value), pa.date32())
    return node


def _date(text: str) -> date:
    try:
        # One form only: Python and Spark each know others that mean different days.
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise InvalidArgument(
            f"{text!r} is no date.", remedy="Write it as in DATE '1995-03-15'."
        ) from None
