"""Can an expression of Spark's plan be computed outside Spark, row for row the same? If so, here
it is: a filter, a column of the plan, or a condition of a join.

The plan's expressions come as JSON in pre-order, which shows their shape. The values of constants
come from the plan's own objects: the JSON prints a timestamp in the session's time zone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import _parse_datatype_json_value

from watersmeet.errors import SchemaError
from watersmeet.expressions import nodes
from watersmeet.expressions.nodes import AtLeast, Compare, HasText, In, Literal, Logic
from watersmeet.expressions.promotion import arithmetic_type, is_number
from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.functions import FUNCTIONS, failing, is_utc, ticks
from watersmeet.spark.scans.refusal import Refused

Expression = nodes.Node

_SIGNS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_PLACES = {"StartsWith": "begin", "EndsWith": "end", "Contains": "anywhere"}
_ARITHMETIC = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%"}
_TRUTH = pa.bool_()
# A column that is computed from another has that one's expression in its own, in every place.
_LARGEST = 2_000
# A condition is pickled on its way to tasks, and each level takes several of Python's thousand.
_DEEPEST = 100

ExprId = tuple[int, str]
"""Spark's identity of a column through a plan."""


@dataclass(frozen=True)
class Node:
    """One expression of a plan; `index` is its place in pre-order."""

    index: int
    name: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    @classmethod
    def parse(cls, nodes: Sequence[Mapping[str, Any]]) -> Node:
        node, end = cls._parse(nodes, 0, depth=0)
        assert end == len(nodes)
        return node

    @classmethod
    def _parse(
        cls, nodes: Sequence[Mapping[str, Any]], index: int, *, depth: int
    ) -> tuple[Node, int]:
        if depth > _DEEPEST:
            raise Refused(f"an expression of it is nested more than {_DEEPEST} deep")
        fields = nodes[index]
        children, end = [], index + 1
        for _ in range(fields["num-children"]):
            child, end = cls._parse(nodes, end, depth=depth + 1)
            children.append(child)
        name = fields["class"].rsplit(".", 1)[-1]
        return cls(index, name, fields, tuple(children)), end

    @property
    def expr_id(self) -> ExprId:
        identity = self.fields["exprId"]
        return identity["id"], identity["jvmId"]


@dataclass(frozen=True)
class Translation:
    """Turns an expression of a plan into one over the columns that `find` knows.

    `refused` is said of what is not translated, with Spark's words for it.
    """

    condition: JavaObject
    find: Callable[[ExprId], Expression | None]
    refused: str = "the filter {} does not translate exactly"

    def of(self, node: Node) -> Expression:
        """A condition."""
        found = self.value(node)
        # Without a column there is no array of answers. The optimizer folds such filters away.
        if found.kind == _TRUTH and any(nodes.columns_of(found)):
            return found
        raise self.refusal(node)

    def value(self, node: Node) -> Expression:
        found = self.translated(_expanded(node))
        # In this order: a small expression has no more levels than it has nodes.
        if _size(found, _LARGEST) > _LARGEST or _depth(found) > _DEEPEST:
            raise self.refusal(node)
        return found

    def translated(self, node: Node) -> Expression:
        if node.children and not _looks_at_columns(node):
            return self._folded(node)
        if "replacement" in node.fields and len(node.children) == 1:
            return self.translated(node.children[0])
        for table in (_SPECIAL, FUNCTIONS):
            if (special := table.get(node.name)) is not None:
                return special(self, node)
        raise self.refusal(node)

    def _column(self, node: Node) -> Expression:
        column = self.find(node.expr_id)
        if column is None:
            raise self.refusal(node)
        return column

    def _constant(self, node: Node) -> Literal:
        try:
            spark_type = _parse_datatype_json_value(node.fields["dataType"])
            kind = to_arrow_type(spark_type, timezone="UTC")
        except PySparkException as error:
            raise self.refusal(node) from error
        literal = self.live(node)
        # The JSON leaves a collation out.
        if pt.is_string(kind) and literal.dataType().simpleString() != "string":
            raise self.refusal(node)
        return Literal(self._value(node, literal.value(), kind), kind)

    def _folded(self, node: Node) -> Literal:
        """What has no column in it has one value, which Spark computes."""
        live = self.live(node)
        if not live.foldable() or "collate" in live.dataType().simpleString():
            raise self.refusal(node)
        try:
            kind = self.kind(node)
            return Literal(self._value(node, live.eval(None), kind), kind)
        except (PySparkException, Py4JError) as error:
            raise self.refusal(node) from error

    def _arithmetic(self, node: Node) -> Expression:
        left, right = map(self.translated, node.children)
        kind = self.kind(node)
        how = failing(self.live(node).evalMode().toString(), kind)
        found = nodes.Arithmetic(_ARITHMETIC[node.name], left, right, kind, how)
        return self._checked(node, found)

    def _unary(self, node: Node) -> Expression:
        operand = self.translated(node.children[0])
        kind = self.kind(node)
        if kind != operand.kind or not _is_counted(kind):
            raise self.refusal(node)
        how = failing("ANSI" if self.live(node).failOnError() else "LEGACY", kind)
        return (nodes.Absolute if node.name == "Abs" else nodes.Negative)(operand, kind, how)

    def _checked(self, node: Node, found: nodes.Arithmetic) -> Expression:
        """Refused if Spark has another type for the result than we would give it."""
        kinds = found.left.kind, found.right.kind
        if all(map(is_number, kinds)):
            try:
                same = arithmetic_type(found.operator, *kinds) == found.kind
            except SchemaError:
                same = False
        else:
            # Two intervals, counted in microseconds.
            same = kinds == (found.kind, found.kind) and bool(pt.is_duration(found.kind))
            same = same and found.operator in "+-" and found.failing == "error"
        if not same:
            raise self.refusal(node)
        return found

    def _days_between(self, node: Node) -> Expression:
        return self._between(node, pa.int32(), pt.is_date32)

    def _time_between(self, node: Node) -> Expression:
        if node.fields["legacyInterval"] or not is_utc(node):
            raise self.refusal(node)
        return self._between(node, pa.duration("us"), pt.is_timestamp)

    def _between(
        self, node: Node, kind: pa.DataType, is_time: Callable[[pa.DataType], bool]
    ) -> Expression:
        end, start = map(self.translated, node.children)
        if not (is_time(end.kind) and is_time(start.kind)) or self.kind(node) != kind:
            raise self.refusal(node)
        return nodes.Arithmetic("-", ticks(end), ticks(start), kind)

    def _microseconds(self, node: Node) -> Expression:
        moment = self.translated(node.children[0])
        if not pt.is_timestamp(moment.kind):
            raise self.refusal(node)
        return ticks(moment)

    def kind(self, node: Node) -> pa.DataType:
        spark_type = self.live(node).dataType()
        # Its JSON leaves a collation out.
        if "collate" in spark_type.simpleString():
            raise self.refusal(node)
        try:
            described = json.loads(spark_type.json())
            return to_arrow_type(_parse_datatype_json_value(described), timezone="UTC")
        except PySparkException as error:
            raise self.refusal(node) from error

    def _like(self, node: Node) -> Expression:
        """A pattern whose only signs are % at its ends; others follow rules of their own."""
        text, part = map(self.translated, node.children)
        pattern = part.value if isinstance(part, Literal) else None
        if not (pt.is_string(text.kind) and isinstance(pattern, str)):
            raise self.refusal(node)
        inner = pattern.removeprefix("%").removesuffix("%")
        if any(sign in inner for sign in "%_\\") or pattern in ("%", ""):
            raise self.refusal(node)
        first, last = pattern.startswith("%"), pattern.endswith("%")
        if not first and not last:
            return Compare("=", text, Literal(inner, pa.string()), _TRUTH)
        place = "anywhere" if first and last else "end" if first else "begin"
        return HasText(place, text, inner, _TRUTH)

    def _value(self, node: Node, value: Any, kind: pa.DataType) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if pt.is_binary(kind):
            return bytes(value)
        if pt.is_string(kind):
            return value.toString()
        if pt.is_decimal(kind):
            return Decimal(value.toString())
        raise self.refusal(node)

    def _compared(self, node: Node) -> Compare:
        left, right = self._alike(node)
        return Compare(_SIGNS[node.name], left, right, _TRUTH)

    def _logic(self, node: Node) -> Logic:
        left, right = map(self._condition, node.children)
        return Logic(node.name.upper(), left, right, _TRUTH)

    def _not(self, node: Node) -> nodes.Not:
        return nodes.Not(self._condition(node.children[0]), _TRUTH)

    def _condition(self, node: Node) -> Expression:
        found = self.translated(node)
        if found.kind != _TRUTH:
            raise self.refusal(node)
        return found

    def _is_null(self, node: Node) -> Expression:
        null = nodes.IsNull(self.translated(node.children[0]), _TRUTH)
        return null if node.name == "IsNull" else nodes.Not(null, _TRUTH)

    def _is_nan(self, node: Node) -> nodes.IsNan:
        operand = self.translated(node.children[0])
        if not pt.is_floating(operand.kind):
            raise self.refusal(node)
        return nodes.IsNan(operand, _TRUTH)

    def _alike(self, node: Node) -> tuple[Expression, ...]:
        """The operands, which all have one type that we can compare."""
        operands = tuple(map(self.translated, node.children))
        kind = operands[0].kind
        if not _is_comparable(kind) or any(operand.kind != kind for operand in operands):
            raise self.refusal(node)
        return operands

    def _among(self, node: Node) -> Expression:
        operand, *choices = self._alike(node)
        values = [choice.value for choice in choices if isinstance(choice, Literal)]
        if len(values) < len(choices) or pt.is_floating(operand.kind):
            equal: list[Expression] = [Compare("=", operand, each, _TRUTH) for each in choices]
            return reduce(lambda found, other: Logic("OR", found, other, _TRUTH), equal)
        return _in(operand, values)

    def _among_many(self, node: Node) -> In:
        """A long IN. Its values are asked for in one text: one by one they take long."""
        (operand,) = self._alike(node)
        parse = _parser(operand.kind)
        if parse is None:
            raise self.refusal(node)
        chosen = self.live(node).hset()
        separator = uuid.uuid4().hex
        texts = chosen.mkString(separator).split(separator)
        if len(texts) != chosen.size():
            raise self.refusal(node)
        has_null = chosen.contains(None)
        if has_null:
            texts.remove("null")
        values = [parse(text) for text in texts]
        return _in(operand, [*values, None] if has_null else values)

    def _matched(self, node: Node) -> HasText:
        text, part = map(self.translated, node.children)
        pattern = part.value if isinstance(part, Literal) else None
        if not (pt.is_string(text.kind) and isinstance(pattern, str)):
            raise self.refusal(node)
        return HasText(_PLACES[node.name], text, pattern, _TRUTH)

    def _at_least(self, node: Node) -> AtLeast:
        operands = tuple(map(self.translated, node.children))
        return AtLeast(int(node.fields["n"]), operands, _TRUTH)

    def live(self, node: Node) -> JavaObject:
        return self.condition.apply(node.index)

    def refusal(self, node: Node) -> Refused:
        return Refused(self.refused.format(self.live(node).sql()))


def _expanded(node: Node) -> Node:
    """An expression that names a part of itself, as BETWEEN does, with that part in its places.

    The JSON does not say which name is meant, so one inside another is left as it is.
    """
    if node.name == "With" and len(node.children) == 2 and not _has(node.children[0], "With"):
        body, definition = node.children
        return _put(body, _expanded(definition.children[0]))
    return replace(node, children=tuple(map(_expanded, node.children)))


def _put(node: Node, part: Node) -> Node:
    if node.name == "CommonExpressionRef":
        return part
    return replace(node, children=tuple(_put(child, part) for child in node.children))


def _has(node: Node, name: str) -> bool:
    return node.name == name or any(_has(child, name) for child in node.children)


def _looks_at_columns(node: Node) -> bool:
    return _has(node, "AttributeReference")


def _size(expression: Expression, most: int) -> int:
    """How many nodes it has; or more than `most`."""
    size = 1
    for child in nodes.children(expression):
        if size <= most:
            size += _size(child, most - size)
    return size


def _depth(expression: Expression) -> int:
    return 1 + max(map(_depth, nodes.children(expression)), default=0)


def _in(operand: Expression, values: Sequence[Any]) -> In:
    known = tuple(value for value in values if value is not None)
    return In(operand, known, len(known) < len(values), _TRUTH)


def _parser(kind: pa.DataType) -> Callable[[str], Any] | None:
    """None for floats, which Spark looks up by their bits, and for bytes, which have no text."""
    if pt.is_string(kind):
        return str
    if pt.is_decimal128(kind):
        return Decimal
    return int if _is_integral(kind) else None


def _is_comparable(kind: pa.DataType) -> bool:
    """Whether Arrow orders and equates values of this type as Spark does."""
    if kind in (pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.binary()):
        return True
    return _is_integral(kind) or bool(pt.is_decimal128(kind))


def _is_counted(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pt.is_duration(kind))


def _is_integral(kind: pa.DataType) -> bool:
    """Spark holds such values as integers: days and microseconds too."""
    times = pt.is_date32(kind) or pt.is_timestamp(kind) or pt.is_duration(kind)
    return bool(pt.is_signed_integer(kind) or times)


_SPECIAL: dict[str, Callable[[Translation, Node], Expression]] = {
    "AttributeReference": Translation._column,
    "Literal": Translation._constant,
    "And": Translation._logic,
    "Or": Translation._logic,
    "Not": Translation._not,
    "IsNull": Translation._is_null,
    "IsNotNull": Translation._is_null,
    "IsNaN": Translation._is_nan,
    "In": Translation._among,
    "InSet": Translation._among_many,
    "AtLeastNNonNulls": Translation._at_least,
    **dict.fromkeys(_SIGNS, Translation._compared),
    **dict.fromkeys(_PLACES, Translation._matched),
    "Like": Translation._like,
    **dict.fromkeys(_ARITHMETIC, Translation._arithmetic),
    "UnaryMinus": Translation._unary,
    "Abs": Translation._unary,
    "DateDiff": Translation._days_between,
    "SubtractTimestamps": Translation._time_between,
    "UnixMicros": Translation._microseconds,
}
