"""An expression has the type and the values that Spark gives it."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt
import pytest

from tests.aggregates.table import TABLE
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.numbers import ArithmeticFailed, Numbers
from watersmeet.expressions.scope import Scope
from watersmeet.model import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUMBERS = ["i8", "i16", "i32", "i64", "f32", "f64", "d5", "d15", "d0", "d30"]
SMALL = ["i32", "i64", "f32", "f64", "d5", "d15", "d0"]

EXPRESSIONS = [
    *NUMBERS,
    *[f"{a} {op} {b}" for op in "+-" for a in NUMBERS for b in SMALL],
    *[f"{a} * {b}" for a in SMALL for b in SMALL if {a, b} - {"i32"} - {"i64"}],
    *[f"{a} {op} nonzero" for op in "/%" for a in NUMBERS],
    *[f"{a} {op} nonzero_decimal" for op in "/%" for a in NUMBERS],
    *[f"{a} {op} {number}" for op in "+-*/%" for a in [*SMALL, "d30"] for number in ("1", "2.50")],
    *[f"{number} - {a}" for a in SMALL for number in ("1", "0.05", "-3", "1e2", "3000000000")],
    *[f"-{a}" for a in NUMBERS],
    *[f"abs({a})" for a in NUMBERS],
    *[f"coalesce({a}, {b}, 0)" for a in NUMBERS for b in ("i64", "f64", "d15")],
    *[f"if({a} > {b}, {a}, {b})" for a in SMALL for b in SMALL],
    *[f"CASE WHEN {a} IS NULL THEN -1 ELSE {a} END" for a in NUMBERS],
    *[f"cast({a} as double)" for a in NUMBERS],
    *[f"cast({a} as float)" for a in ("i8", "i64", "f64")],
    *[f"cast({a} as decimal(38, 10))" for a in ("i8", "i64", "d5", "d15")],
    *[f"cast({a} as decimal(34, 1))" for a in ("i32", "d5", "d15", "d30")],
    *[f"cast({a} as int)" for a in ("i8", "i32", "d5", "flag")],
    "cast(d5 as decimal)", "cast(d15 as bigint)", "cast(f32 > 0 as bigint)",
    "cast(case when f64 < 1e9 then f64 else 0 end as bigint)",
    "cast(if(f32 < 1e6, -f32, 0) as int)", "cast(d0 as numeric(12))", "d5::int + 1",
    "d15 * (1 - d5)", "(d15 - 0.01) * (1 + d5) * (1 - d5)", "d15 * (1 - d5) / 2",
    "123456789012345678901234567890.25 - d5", "-(5) * d5",
    "-5 * d5", "2L * d5", "cast(2 as bigint) * d5", "cast(2 as int) * d5",
    "i32 + 1 / i8", "if(i32 > 1 / i8, 1, 0)", "(1 / i8) / i32", "if(i32 in (1 / i8), 1, 0)",
    "0 * d5", "0.00 + d5", "1. * d5",
    ".5 * d5", "1 + 2 * 3 - 4 % 3", "i32 - -5", "- i32 % 3", "(i32)", "`odd name` * 2",
    "`f64` - `f64`", "left.i32 + 1", "I32 + 1",
    "case when nonzero > 0 then i32 / nonzero else 0 end",
    "case when i32 <> 0 then 1 / i32 end", "if(i64 = 0, null, 10 / i64)",
    "case when i64 <> 0 and 10 / i64 > 0 then 1 else 0 end",
    "case when i64 = 0 or 10 % i64 > 0 then 1 else 0 end", "coalesce(i8, 1 / i8)",
    "case when i64 = 0 then 0 when 10 / i64 > 0 then 1 end",
    "case i32 when 5 then 1.5 when 7 then 2 end", "case text when 'a' then 1 else 0 end",
    *[f"if({condition}, 1, 0)" for condition in (
        "flag", "not flag", "flag and i32 > 0", "flag or i32 > 0", "flag = (i32 > 0)",
        "text = 'a'", "text > 'a'", "text <> 'bb'", "text in ('a', 'bb')", "text is null",
        "'a' <= text", "text between 'a' and 'b'", "text = \"a'b\"", "text not in ('a', null)",
        "day >= date '1995-03-15'", "day < '1996-01-01'", "day between '1995-03-14' and "
        "date '1995-12-31'", "day is not null", "i32 in (5, 7, null)", "i32 not in (5, 12)",
        "d5 in (1.25, 3)", "d15 = 0", "d15 > d5", "d15 <= i32", "f64 = f64", "f64 > 1e300",
        "f64 >= f32", "f32 < d5", "f64 <> f64", "d30 > i64", "not (f64 < 1)", "i64 = 0.0",
        "f32 = 0.1", "f64 = 0.1", "i32 is null and f64 is null", "true", "null", "i8 between i16 "
        "and i32", "i32 == 7", "i32 != 7",
    )],
]  # fmt: skip

_WIDE = Context(prec=60)

# Values outside their type, or no quotient: an error here as there.
FAILING = [
    "i32 * 2000", "i8 + i8", "i8 * 2Y", "i64 * i64", "cast(i32 as tinyint)", "cast(f64 as int)",
    "cast(d15 as decimal(5, 2))", "cast(i32 as decimal(3, 1))", "1 / i64", "i64 / i8", "i8 % i16",
    "f64 / 0.0", "d5 / d5", "cast(i64 as int)", "9223372036854775807 + i32", "1 % f64",
    "d30 * 1000000000000", "1 / i8 + i32",
    "i32 / (1 / i8)", "if(1 / i8 > i32, 1, 0)",
]  # fmt: skip


def parsed(text: str) -> Expression:
    return Expression.parse(text, Scope((TABLE.schema, pa.schema([]))))


def evaluated(expression: Expression) -> Numbers:
    names = expression.columns(Side.LEFT)
    columns = {(Side.LEFT, name): TABLE.column(name).combine_chunks() for name in names}
    return expression.evaluate(columns, TABLE.num_rows)


def as_python(numbers: Numbers, kind: pa.DataType) -> list[Any]:
    values: list[Any] = numbers.values.tolist()
    if pt.is_decimal(kind):
        values = [_WIDE.scaleb(Decimal(value), -numbers.scale) for value in values]
    valid = [True] * len(values) if numbers.valid is None else numbers.valid.tolist()
    return [value if known else None for value, known in zip(values, valid, strict=True)]


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and isinstance(ours, float) and math.isnan(theirs):
        return math.isnan(ours)
    return type(ours) is type(theirs) and bool(ours == theirs)


def test_types_and_values(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(TABLE)
    texts = list(dict.fromkeys(EXPRESSIONS))
    plain = [text.replace("left.", "") for text in texts]
    theirs = frame.select(*[F.expr(t).alias(f"c{k}") for k, t in enumerate(plain)]).toArrow()
    wrong = []
    for text, column in zip(texts, theirs.columns, strict=True):
        expression = parsed(text)
        expected = column.to_pylist()
        if pt.is_boolean(column.type):
            expected = [None if v is None else int(v) for v in expected]
        actual = as_python(evaluated(expression), expression.kind)
        if expression.kind != column.type or not all(map(same, actual, expected)):
            wrong.append((text, expression.kind, column.type, actual, expected))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("text", FAILING)
def test_what_ansi_mode_refuses(spark: SparkSession, text: str) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    with pytest.raises(PySparkException):
        spark.createDataFrame(TABLE).select(F.expr(text)).collect()
    with pytest.raises(ArithmeticFailed):
        evaluated(parsed(text))
