"""Which columns of two DataFrames must be equal, and how Spark would compare them.

Spark decides both: names by its rule of upper and lower case, conversions by its analyzer, whose
answer depends on the types, on lengths of CHAR columns and on settings of the session. So the
analyzer is asked, and a join that it would compare in another way than we do is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_json_value,
)

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.on import (
    KeyNames,
    Near,
    check_column,
    check_name,
    key_names,
    near_of,
    spelled,
)
from watersmeet.rows.output import Schemas
from watersmeet.rows.types import comparison_type, padding_of, with_padding
from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.filters import Node
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.sql import quoted

Frames = tuple[DataFrame, DataFrame]
OnSpark = (
    str | Near | Column | Mapping[str, str]
    | Sequence[str | tuple[str, str] | KeyNames | Near | Column]
)  # fmt: skip
"""What rows are joined on: as without Spark, or Columns over both DataFrames."""
# The position in a text of one line, and the semicolon before the plan.
_POSITION = re.compile(r"(; line \d+ pos \d+)?;?$")
_CERTAIN = (BooleanType, IntegralType, DateType, TimestampType, TimestampNTZType)
_REMEDY = "Give both DataFrames a column of one type to join on, with cast or withColumn."


@dataclass(frozen=True)
class JoinedPlan:
    """The analyzed join of two DataFrames on a Column: its condition, and whose each column is."""

    condition: JavaObject
    node: Node
    places: dict[int, tuple[Side, int]]
    """By Spark's number of a column, its side and its position there."""

    @classmethod
    def of(cls, frames: Frames, condition: Column, *, argument: str) -> JoinedPlan:
        try:
            joined = frames[Side.LEFT].join(frames[Side.RIGHT], condition)
            plan = joined._jdf.queryExecution().analyzed()
        except PySparkException as error:
            raise InvalidArgument(
                f"Spark does not understand {argument}={condition}: {first_line(error)}",
                remedy="Use columns of the two DataFrames, as in left.a == right.b.",
            ) from error
        found = plan.condition()
        if not found.isDefined():
            raise InvalidArgument(
                f"{argument}={condition} says nothing about the two DataFrames.",
                remedy="Use columns of the two DataFrames, as in left.a == right.b.",
            )
        places = {}
        for side, output in zip(Side, (plan.left().output(), plan.right().output()), strict=True):
            for position in range(output.size()):
                places[int(output.apply(position).exprId().id())] = (side, position)
        live = found.get()
        return cls(live, parsed(live), places)

    @property
    def conjuncts(self) -> list[Node]:
        return _conjuncts(self.node)


def parsed(expression: JavaObject) -> Node:
    return Node.parse(json.loads(expression.toJSON()))


def first_line(error: BaseException) -> str:
    """The message of Spark's error as a sentence, without the plan, which may be pages long."""
    line = str(error).strip().split("\n", 1)[0]
    line = _POSITION.sub("", line)
    return line if line.endswith((".", ")")) else line + "."


def _conjuncts(node: Node) -> list[Node]:
    if node.name != "And":
        return [node]
    return [part for child in node.children for part in _conjuncts(child)]


def named_keys(
    frames: Frames, on: Any
) -> tuple[list[KeyNames], JoinedPlan | None, tuple[Node, ...]]:
    """The key columns; if `on` is a Column, also its plan and its parts that are no equality."""
    columns = on if isinstance(on, list | tuple) else [on]
    if columns and all(isinstance(column, Column) for column in columns):
        return _from_columns(frames, reduce(and_, columns))
    return [_spelled(frames, each) for each in key_names(on)], None, ()


def spelled_bands(frames: Frames, on: Any) -> list[Near]:
    """The bands and intervals in `on`, with the names of columns as Spark has them."""
    return [each.renamed(partial(_name, frames)) for each in near_of(on)]


def _spelled(frames: Frames, names: KeyNames) -> KeyNames:
    left, right = (_name(frames, side, names.of(side)) for side in Side)
    return KeyNames(left, right, names.shared)


def _name(frames: Frames, side: Side, name: str) -> str:
    return column_name(frames[side], name, word=side.name.lower())


def column_name(frame: DataFrame, name: str, *, word: str) -> str:
    """The column of a DataFrame that Spark means by a name; `word` is what the input is called."""
    if frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        check_column(name, frame.columns, word)
        return name
    return spelled(name, frame.columns, word)


def _from_columns(
    frames: Frames, on: Column
) -> tuple[list[KeyNames], JoinedPlan, tuple[Node, ...]]:
    plan = JoinedPlan.of(frames, on, argument="on")
    keys: list[KeyNames] = []
    others: list[Node] = []
    for node in plan.conjuncts:
        names = _plain_equality(frames, plan, node)
        if names is None or names in keys:
            others.append(node)
        else:
            keys.append(names)
    if not keys:
        raise InvalidArgument(
            f"on={on} has no part that sets a column of the left DataFrame equal to one of the "
            "right, as they are.",
            remedy="Join on such columns, computed before the join where necessary, or on values "
            "that are close, with wm.within or wm.band; other parts may be given as condition=.",
        )
    return keys, plan, tuple(others)


def _plain_equality(frames: Frames, plan: JoinedPlan, node: Node) -> KeyNames | None:
    """The columns of `left.a == right.b`, if the user does not convert them; else None."""
    if node.name != "EqualTo":
        return None
    found: dict[Side, str] = {}
    shapes: dict[Side, list[str]] = {}
    for operand in node.children:
        inner = operand
        while inner.name in ("Cast", "StringRPad"):
            inner = inner.children[0]
        if inner.name != "AttributeReference" or inner.expr_id[0] not in plan.places:
            return None
        side, position = plan.places[inner.expr_id[0]]
        found[side] = frames[side].columns[position]
        shapes[side] = _shape(operand)
    if len(found) < 2:
        return None
    names = KeyNames(found[Side.LEFT], found[Side.RIGHT], False)
    own = _comparison(frames, [names])[0]
    return names if [shapes[side] for side in Side] == list(map(_shape, own.children)) else None


def _shape(operand: Node) -> list[str]:
    """The conversions around a column, outermost first."""
    if operand.name == "AttributeReference":
        return []
    rest = [str(child.fields.get("value")) for child in operand.children[1:]]
    kind = str(operand.fields.get("dataType"))
    return [operand.name, kind, *rest, *_shape(operand.children[0])]


def compared(frames: Frames, keys: Sequence[KeyNames], schemas: Schemas) -> Schemas:
    """The schemas, with metadata that says to which length Spark pads texts of CHAR columns.

    Raises an error if Spark would compare two columns in another way than we do.
    """
    kinds = []
    for names in keys:
        for side in Side:
            check_name(names.of(side), schemas[side].names, side)
            _check_collation(frames[side].schema[names.of(side)].dataType, names.of(side), side)
        fields = [schemas[side].field(names.of(side)) for side in Side]
        kinds.append(comparison_type(fields[0], fields[1]))
    found = list(schemas)
    asked = [place for place, names in enumerate(keys) if not _is_certain(frames, names)]
    keys, kinds = [keys[place] for place in asked], [kinds[place] for place in asked]
    for names, kind, node in zip(keys, kinds, _comparison(frames, keys), strict=True):
        for side, operand in zip(Side, node.children, strict=True):
            length = _length(operand, names, kind=kind)
            found[side] = _marked(found[side], names.of(side), length)
    return found[0], found[1]


def _is_certain(frames: Frames, names: KeyNames) -> bool:
    """Whether Spark compares two columns as they are: both are of one type that knows no padding,
    collations or conversions. To ask the analyzer takes as long as a join of 1,000 rows."""
    left, right = (frames[side].schema[names.of(side)].dataType for side in Side)
    return left == right and isinstance(left, _CERTAIN)


def _comparison(frames: Frames, keys: Sequence[KeyNames]) -> list[Node]:
    """Spark's analyzed `EqualTo` of each pair, with the conversions around the columns."""
    if not keys:
        return []
    sides = [
        frames[side].select(
            *(
                sf.col(quoted(names.of(side))).alias(f"{side.name.lower()}{number}")
                for number, names in enumerate(keys)
            )
        )
        for side in Side
    ]
    equal = [sf.col(f"left{number}") == sf.col(f"right{number}") for number in range(len(keys))]
    try:
        joined = sides[0].join(sides[1], reduce(and_, equal))
        return _conjuncts(parsed(joined._jdf.queryExecution().analyzed().condition().get()))
    except PySparkException as error:
        raise SchemaError(
            f"Spark cannot compare the key columns: {first_line(error)}", remedy=_REMEDY
        ) from error
    except Refused as error:
        raise SchemaError(f"The key columns are not compared: {error}.", remedy=_REMEDY) from error


def _length(operand: Node, names: KeyNames, *, kind: pa.DataType) -> int:
    """To how many characters Spark pads an operand, 0 if it does not."""
    if operand.name == "StringRPad" and operand.children[0].name == "AttributeReference":
        length, pad = (child.fields["value"] for child in operand.children[1:])
        if pad == " " and pa.types.is_string(kind):
            return int(length)
    inner = operand
    while inner.name == "Cast":
        inner = inner.children[0]
    if inner.name == "AttributeReference":
        theirs = _parse_datatype_json_value(operand.fields["dataType"])
        if _is_same(theirs, kind):
            return 0
        how = f"as {theirs.simpleString()}, where watersmeet would compare them as {kind}"
    else:
        how = f"by way of {operand.name}, which watersmeet does not"
    raise SchemaError(
        f"Spark compares key columns {names.left!r} and {names.right!r} {how}.", remedy=_REMEDY
    )


def _is_same(spark_type: DataType, kind: pa.DataType) -> bool:
    """Whether Spark's type is this Arrow type, whatever the names of fields of structs."""
    if isinstance(spark_type, StructType):
        return bool(pa.types.is_struct(kind)) and all(
            _is_same(field.dataType, other.type)
            for field, other in zip(spark_type, kind, strict=True)
        )
    try:
        return bool(to_arrow_type(spark_type, timezone="UTC") == kind)
    except PySparkException:
        return False


def _marked(schema: pa.Schema, name: str, length: int) -> pa.Schema:
    place = schema.get_field_index(name)
    before = padding_of(schema.field(place))
    if not length:
        return schema
    if before not in (0, length):
        raise SchemaError(
            f"Key column {name!r} is compared with CHAR columns of several lengths.",
            remedy='Cast it to string, as in withColumn("k", col("k").cast("string")).',
        )
    return schema.set(place, with_padding(schema.field(place), length))


def _check_collation(kind: DataType, name: str, side: Side) -> None:
    collated = next(collations(kind), None)
    if collated is not None:
        raise SchemaError(
            f"Key column {name!r} of the {side.name.lower()} DataFrame has the collation "
            f"{collated.collation}, and keys are compared byte by byte.",
            remedy='Join on collate(column, "UTF8_BINARY"), or on lower(column).',
        )


def collations(kind: DataType) -> Any:
    """The text types in a type that are not compared byte by byte."""
    match kind:
        case StringType():
            if not kind.isUTF8BinaryCollation():
                yield kind
        case ArrayType():
            yield from collations(kind.elementType)
        case MapType():
            yield from collations(kind.keyType)
            yield from collations(kind.valueType)
        case StructType():
            for field in kind.fields:
                yield from collations(field.dataType)
