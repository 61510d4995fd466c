"""The rules of keys and columns that we follow, asked of Spark itself."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.keyed import matching
from watersmeet.errors import SchemaError
from watersmeet.model import JoinType
from watersmeet.rows.schema import JoinSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Column = tuple[pa.DataType, list[Any]]

FLOATS = [0.0, -0.0, 1.0, 0.1, math.nan, -math.nan, math.inf, None]
INTS = [0, 1, None, 16_777_217, 2_147_483_647]
LONGS = [0, 1, None, 2**53, 2**53 + 1, -(2**63)]
MIDNIGHT = datetime(2020, 1, 1)
INNER = pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.float64()})})
NESTED: list[dict[str, Any] | None] = [
    None,
    {"x": None, "y": None},
    {"x": None, "y": {"z": None}},
    {"x": 1, "y": {"z": math.nan}},
    {"x": 1, "y": {"z": -0.0}},
    {"x": 1, "y": {"z": 0.0}},
]

COLUMNS: dict[str, Column] = {
    "int": (pa.int32(), INTS),
    "long": (pa.int64(), LONGS),
    "float": (pa.float32(), [*FLOATS, 16_777_216.0]),
    "double": (pa.float64(), [*FLOATS, 2.0**53, 16_777_216.0]),
    "text": (pa.string(), ["", "a", "a ", "A", "é", None]),
    "binary": (pa.binary(), [b"", b"a", b"a ", "é".encode(), None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [date(2020, 1, 1), date(2020, 1, 2), None]),
    "moment": (pa.timestamp("us"), [MIDNIGHT, MIDNIGHT.replace(hour=1), None]),
    "instant": (pa.timestamp("us", "UTC"), [MIDNIGHT, MIDNIGHT.replace(second=1), None]),
    "small decimal": (pa.decimal128(9, 2), [Decimal("0.10"), Decimal("1.00"), None]),
    "decimal": (pa.decimal128(18, 1), [Decimal("0.1"), Decimal(2**53 + 1), Decimal(0), None]),
    "wide decimal": (pa.decimal128(38, 4), [Decimal("0.1"), Decimal(10) ** 30, Decimal(1), None]),
    "huge decimal": (pa.decimal128(38, 30), [Decimal(1), None]),
    "struct": (INNER, NESTED),
    "other names": (pa.struct({"p": pa.int32(), "q": pa.struct({"r": pa.float64()})}), []),
    "wider": (pa.struct({"x": pa.int64(), "y": pa.struct({"z": pa.float64()})}), NESTED),
    "list": (pa.list_(pa.int64()), [[1], None]),
}
COLUMNS["other names"][1].extend(
    row and {"p": row["x"], "q": row["y"] and {"r": row["y"]["z"]}} for row in NESTED
)

COMPARED = [
    *((name, name) for name in COLUMNS if name not in ("list", "other names", "wider")),
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("int", "decimal"),
    ("long", "wide decimal"),
    ("decimal", "double"),
    ("wide decimal", "double"),
    ("decimal", "float"),
    ("small decimal", "decimal"),
    ("decimal", "wide decimal"),
    ("text", "binary"),
    ("date", "moment"),
    ("struct", "other names"),
    ("struct", "wider"),
]
NEITHER = [
    ("int", "boolean"),
    ("int", "date"),
    ("long", "moment"),
    ("boolean", "double"),
    ("binary", "long"),
    ("wider", "other names"),
    ("struct", "int"),
]
# Spark answers, but by parsing text, by its session's time zone, or by rounding.
ONLY_SPARK = [
    ("text", "int"),
    ("text", "date"),
    ("text", "decimal"),
    ("date", "instant"),
    ("moment", "instant"),
    ("long", "huge decimal"),
    ("list", "list"),
]


def batch(name: str) -> pa.RecordBatch:
    kind, values = COLUMNS[name]
    return pa.record_batch({"k": pa.array(values, kind), "row": list(range(len(values)))})


def frame(spark: SparkSession, name: str) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch(name)]))


def pairs_in_spark(spark: SparkSession, left: str, right: str) -> set[tuple[int, int]]:
    a, b = frame(spark, left), frame(spark, right)
    joined = a.join(b, a["k"] == b["k"]).select(a["row"].alias("i"), b["row"].alias("j"))
    return {(row["i"], row["j"]) for row in joined.collect()}


@pytest.mark.parametrize(("left", "right"), COMPARED)
def test_the_same_rows_match(spark: SparkSession, left: str, right: str) -> None:
    ours = matching(
        JoinSchema.resolve(batch(left).schema, batch(right).schema, "k"), batch(left), batch(right)
    )
    assert ours == pairs_in_spark(spark, left, right)


@pytest.mark.parametrize(("left", "right"), NEITHER)
def test_neither_compares(spark: SparkSession, left: str, right: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(SchemaError):
        JoinSchema.resolve(batch(left).schema, batch(right).schema, "k")
    with pytest.raises(AnalysisException):
        pairs_in_spark(spark, left, right)


@pytest.mark.parametrize(("left", "right"), ONLY_SPARK)
def test_we_refuse_what_is_more_than_two_types_can_say(left: str, right: str) -> None:
    with pytest.raises(SchemaError, match="'k'"):
        JoinSchema.resolve(batch(left).schema, batch(right).schema, "k")


def test_any_null_in_a_composite_key_matches_nothing(spark: SparkSession) -> None:
    rows = pa.record_batch({"a": [1, 1, None, None], "b": ["x", None, "x", None]})
    ours = matching(JoinSchema.resolve(rows.schema, rows.schema, ["a", "b"]), rows, rows)
    table = spark.createDataFrame(pa.Table.from_batches([rows]))
    assert len(ours) == table.join(table, ["a", "b"]).count() == 1


NOT_NULL = pa.schema(
    [
        pa.field("v", pa.string(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("z", pa.int64(), nullable=False),
    ]
)
TABLES = {
    "left": pa.table([["l1", "l2"], [1, 2], [1, 2]], schema=NOT_NULL),
    "right": pa.table(
        {"w": ["r2", "r3"], "z": [2.0, 3.0], "k": pa.array([2, 3], pa.int64())},
    ),
    "same": pa.table([["s1", "s2"], [1, 3], [1, 2]], schema=NOT_NULL),
}
SPELLINGS = {JoinType.SEMI: "left_semi", JoinType.ANTI: "left_anti"}


@pytest.mark.parametrize("how", list(JoinType))
@pytest.mark.parametrize("on", [["k"], ["z", "k"]], ids=str)
@pytest.mark.parametrize("sides", ["left right", "right left", "left same"])
def test_the_output_has_the_same_columns(
    spark: SparkSession, how: JoinType, on: list[str], sides: str
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    tables = [TABLES[side] for side in sides.split()]
    ours = JoinSchema.resolve(tables[0].schema, tables[1].schema, on, how)
    frames = [spark.createDataFrame(table) for table in tables]
    theirs = to_arrow_schema(
        frames[0].join(frames[1], on, SPELLINGS.get(how, how.value)).schema, timezone="UTC"
    )
    # Spark leaves two columns of one name; ours tells them apart.
    named = [(f.name.removesuffix("_right"), f.type, f.nullable) for f in ours.output]
    assert named == [(f.name, f.type, f.nullable) for f in theirs]


@pytest.mark.parametrize("how", list(JoinType))
def test_keys_of_different_names_keep_their_places(spark: SparkSession, how: JoinType) -> None:
    left, right = TABLES["left"], TABLES["right"].rename_columns(["w", "y", "j"])
    ours = JoinSchema.resolve(left.schema, right.schema, {"k": "j"}, how)
    a, b = spark.createDataFrame(left), spark.createDataFrame(right)
    theirs = a.join(b, a["k"] == b["j"], SPELLINGS.get(how, how.value)).schema
    assert [(f.name, f.nullable) for f in ours.output] == [(f.name, f.nullable) for f in theirs]
