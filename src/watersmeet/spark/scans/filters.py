"""Can a filter in Spark's plan be computed outside Spark, row for row the same? If so, here it is.

The plan's expressions come as JSON in pre-order, which shows their shape. The values of constants
come from the plan's own objects: the JSON prints a timestamp in the session's time zone.
"""

from __future__ import annotations

import json
import re
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

from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.predicates import (
    OPERATIONS,
    Choice,
    Column,
    Computed,
    Condition,
    Constant,
    Expression,
    Widened,
)
from watersmeet.spark.scans.refusal import Refused

_SIGNS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_PLACES = {"StartsWith": "starts with", "EndsWith": "ends with", "Contains": "contains"}
_LOGIC = {
    "And": "and",
    "Or": "or",
    "Not": "not",
    "IsNull": "is null",
    "IsNotNull": "is not null",
    "IsNaN": "is nan",
}

_COMPUTED = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "UnaryMinus": "negative",
    "Abs": "abs",
    "DateDiff": "days between",
    "SubtractTimestamps": "time between",
    "UnixMicros": "microseconds",
}
_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")
# Those of each integer type at most.
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}

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
    """Turns a filter of a plan into a condition over the columns that `find` knows.

    Arithmetic is translated if `computes`. It can fail, in Spark as here, but Spark may have put a
    filter that would keep it from failing somewhere else.
    """

    condition: JavaObject
    find: Callable[[ExprId], Column | None]
    computes: bool = False

    def of(self, node: Node) -> Condition | Column:
        found = self._translate(_expanded(node) if self.computes else node)
        # Without a column there is no array of answers. The optimizer folds such filters away.
        if isinstance(found, Condition | Column) and found.kind == pa.bool_() and found.columns:
            return found
        raise self._refusal(node)

    def _translate(self, node: Node) -> Expression:
        if self.computes:
            if node.children and not _looks_at_columns(node):
                return self._folded(node)
            if "replacement" in node.fields and len(node.children) == 1:
                return self._translate(node.children[0])
            if node.name in _COMPUTED:
                return self._computed(node)
            if node.name == "Like":
                return self._like(node)
        if (special := _SPECIAL.get(node.name)) is not None:
            return special(self, node)
        if (operation := _LOGIC.get(node.name)) is not None:
            return Condition(operation, tuple(map(self._translate, node.children)))
        raise self._refusal(node)

    def _column(self, node: Node) -> Column:
        column = self.find(node.expr_id)
        if column is None:
            raise self._refusal(node)
        return column

    def _constant(self, node: Node) -> Constant:
        try:
            spark_type = _parse_datatype_json_value(node.fields["dataType"])
            kind = to_arrow_type(spark_type, timezone="UTC")
        except PySparkException as error:
            raise self._refusal(node) from error
        literal = self._live(node)
        # The JSON leaves a collation out.
        if pt.is_string(kind) and literal.dataType().simpleString() != "string":
            raise self._refusal(node)
        return Constant(self._value(node, literal.value(), kind), kind)

    def _folded(self, node: Node) -> Constant:
        """What has no column in it has one value, which Spark computes."""
        live = self._live(node)
        if not live.foldable() or "collate" in live.dataType().simpleString():
            raise self._refusal(node)
        try:
            kind = to_arrow_type(
                _parse_datatype_json_value(json.loads(live.dataType().json())), timezone="UTC"
            )
            return Constant(self._value(node, live.eval(None), kind), kind)
        except (PySparkException, Py4JError) as error:
            raise self._refusal(node) from error

    def _computed(self, node: Node) -> Computed:
        operands = tuple(map(self._translate, node.children))
        operation = _COMPUTED[node.name]
        live = self._live(node)
        if node.name == "SubtractTimestamps" and (
            node.fields["legacyInterval"] or node.fields.get("timeZoneId") not in _UTC
        ):
            raise self._refusal(node)
        safe = live.failOnError() if node.name in ("Abs", "UnaryMinus") else True
        if node.name in ("Add", "Subtract", "Multiply"):
            safe = live.evalMode().toString() == "ANSI"
        try:
            kind = to_arrow_type(
                _parse_datatype_json_value(json.loads(live.dataType().json())), timezone="UTC"
            )
            found = Computed(operation, operands, kind)
            trial = OPERATIONS[operation](*(pa.nulls(1, operand.kind) for operand in operands))
        except (PySparkException, pa.ArrowException) as error:
            raise self._refusal(node) from error
        if not safe or trial.type != kind:
            raise self._refusal(node)
        return found

    def _like(self, node: Node) -> Condition:
        """A pattern whose only signs are % at its ends; others follow rules of their own."""
        text, part = map(self._translate, node.children)
        pattern = part.value if isinstance(part, Constant) else None
        if not (pt.is_string(text.kind) and isinstance(pattern, str)):
            raise self._refusal(node)
        inner = pattern.removeprefix("%").removesuffix("%")
        if any(sign in inner for sign in "%_\\") or pattern in ("%", ""):
            raise self._refusal(node)
        first, last = pattern.startswith("%"), pattern.endswith("%")
        operation = {
            (True, True): "contains",
            (True, False): "ends with",
            (False, True): "starts with",
            (False, False): "=",
        }[first, last]
        return Condition(operation, (text, Constant(inner, pa.string())))

    def _value(self, node: Node, value: Any, kind: pa.DataType) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if pt.is_binary(kind):
            return bytes(value)
        if pt.is_string(kind):
            return value.toString()
        if pt.is_decimal(kind):
            return Decimal(value.toString())
        raise self._refusal(node)

    def _widened(self, node: Node) -> Widened:
        operand = self._translate(node.children[0])
        kind = _EXACT_CASTS.get((operand.kind, str(node.fields["dataType"])))
        if kind is None and self.computes:
            kind = _wider_decimal(operand.kind, str(node.fields["dataType"]))
        if kind is None:
            raise self._refusal(node)
        return Widened(operand, kind)

    def _compared(self, node: Node) -> Condition:
        operands = self._alike(node)
        sign = _SIGNS[node.name]
        floats = pt.is_floating(operands[0].kind)
        return Condition(f"float {sign}" if floats else sign, operands)

    def _alike(self, node: Node) -> tuple[Expression, ...]:
        """The operands, which all have one type that we can compare."""
        operands = tuple(map(self._translate, node.children))
        kind = operands[0].kind
        if not _is_comparable(kind) or any(operand.kind != kind for operand in operands):
            raise self._refusal(node)
        return operands

    def _among(self, node: Node) -> Condition:
        operand, *choices = self._alike(node)
        values = [choice.value for choice in choices if isinstance(choice, Constant)]
        if len(values) < len(choices) or pt.is_floating(operand.kind):
            equal = "float =" if pt.is_floating(operand.kind) else "="
            return reduce(
                lambda found, other: Condition("or", (found, other)),
                (Condition(equal, (operand, choice)) for choice in choices),
            )
        return _in(operand, values)

    def _among_many(self, node: Node) -> Condition:
        """A long IN. Its values are asked for in one text: one by one they take long."""
        (operand,) = self._alike(node)
        parse = _parser(operand.kind)
        if parse is None:
            raise self._refusal(node)
        chosen = self._live(node).hset()
        separator = uuid.uuid4().hex
        texts = chosen.mkString(separator).split(separator)
        if len(texts) != chosen.size():
            raise self._refusal(node)
        has_null = chosen.contains(None)
        if has_null:
            texts.remove("null")
        values = [parse(text) for text in texts]
        return _in(operand, [*values, None] if has_null else values)

    def _matched(self, node: Node) -> Condition:
        text, part = map(self._translate, node.children)
        if not (pt.is_string(text.kind) and isinstance(part, Constant) and part.value is not None):
            raise self._refusal(node)
        return Condition(_PLACES[node.name], (text, part))

    def _at_least(self, node: Node) -> Condition:
        needed = Constant(node.fields["n"], pa.int32())
        return Condition("at least", (needed, *map(self._translate, node.children)))

    def _live(self, node: Node) -> JavaObject:
        return self.condition.apply(node.index)

    def _refusal(self, node: Node) -> Refused:
        return Refused(f"the filter {self._live(node).sql()} does not translate exactly")


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


def _wider_decimal(kind: pa.DataType, name: str) -> pa.DataType | None:
    """A decimal type that holds every value of an integer or decimal type."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", name)
    if found is None:
        return None
    precision, scale = int(found[1]), int(found[2])
    if pt.is_decimal128(kind):
        digits, places = kind.precision - kind.scale, kind.scale
    elif kind in _DIGITS:
        digits, places = _DIGITS[kind], 0
    else:
        return None
    if precision - scale < digits or scale < places:
        return None
    return pa.decimal128(precision, scale)


def _in(operand: Expression, values: Sequence[Any]) -> Condition:
    known = tuple(value for value in values if value is not None)
    operation = "in" if len(known) == len(values) else "in with null"
    return Condition(operation, (operand, Choice(known, operand.kind)))


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


def _is_integral(kind: pa.DataType) -> bool:
    """Spark holds such values as integers: days and microseconds too."""
    times = pt.is_date32(kind) or pt.is_timestamp(kind) or pt.is_duration(kind)
    return bool(pt.is_signed_integer(kind) or times)


_SPECIAL: dict[str, Callable[[Translation, Node], Expression]] = {
    "AttributeReference": Translation._column,
    "Literal": Translation._constant,
    "Cast": Translation._widened,
    "In": Translation._among,
    "InSet": Translation._among_many,
    "AtLeastNNonNulls": Translation._at_least,
    **dict.fromkeys(_SIGNS, Translation._compared),
    **dict.fromkeys(_PLACES, Translation._matched),
}
# (old type, Spark's name of the new type) -> the new type, which holds every value of the old.
_EXACT_CASTS: dict[tuple[pa.DataType, str], pa.DataType] = {
    (pa.int8(), "short"): pa.int16(),
    (pa.int8(), "integer"): pa.int32(),
    (pa.int8(), "long"): pa.int64(),
    (pa.int16(), "integer"): pa.int32(),
    (pa.int16(), "long"): pa.int64(),
    (pa.int32(), "long"): pa.int64(),
    (pa.int8(), "double"): pa.float64(),
    (pa.int16(), "double"): pa.float64(),
    (pa.int32(), "double"): pa.float64(),
    (pa.float32(), "double"): pa.float64(),
}
