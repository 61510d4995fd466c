"""Small joins after the join tests of other projects: the situations are theirs, the rows ours.

Each names where its idea comes from. What is right is not written down here: DuckDB says it, and
Spark where it knows the types (`answers.py`).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.schema import On

field = pc.field
NAN, INF = float("nan"), float("inf")
TEXT = pa.string()
WORDS = pa.dictionary(pa.int8(), pa.string())


@dataclass(frozen=True)
class Example:
    """Two tables and what makes their rows partners.

    `condition` is for us, `sql` the same for others, over `l.` and `r.`. Not all types that we
    join are Spark's, nor does DuckDB know all of Arrow's.
    """

    origin: str
    what: str
    left: pa.Table
    right: pa.Table
    on: On
    condition: pc.Expression | None = None
    sql: str | None = None
    spark_knows: bool = True

    def __str__(self) -> str:
        return f"{self.origin}: {self.what}"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The key columns, left and right."""
        if isinstance(self.on, str):
            return [(self.on, self.on)]
        items: Any = self.on.items() if isinstance(self.on, dict) else self.on
        return [(item, item) if isinstance(item, str) else item for item in items]


def table(**columns: Any) -> pa.Table:
    """Columns of values, or of (type, values)."""
    return pa.table(
        {
            name: pa.array(given[1], given[0]) if isinstance(given, tuple) else pa.array(given)
            for name, given in columns.items()
        }
    )


def day(number: int) -> datetime.date:
    return datetime.date(2026, 1, 1) + datetime.timedelta(days=number)


def moment(seconds: float) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=seconds)


def _chunked(whole: pa.Table, *lengths: int) -> pa.Table:
    """The same rows in chunks, of which none begins where its buffers do."""
    padded = pa.concat_tables([whole.slice(0, 1), whole]).combine_chunks()
    pieces, start = [], 1
    for length in lengths:
        pieces.append(padded.slice(start, length))
        start += length
    return pa.concat_tables([*pieces, padded.slice(start)])


_ARROW = "Arrow, test_exec_plan.py"
_NUMBERED = table(k=[4, 2, 6, 2], a=["d", "b", "f", "bb"])
ARROW = [
    Example(_ARROW, "keys of two names", table(x=[1, 2, 6], a=["p", "q", "r"]),
            table(y=[99, 2, 1], b=["P", "Q", "R"]), {"x": "y"}),
    Example(_ARROW, "several keys in another order, and names that clash",
            table(x=[1, 2, 6], y=[10, 20, 60], v=["a", "b", "f"]),
            table(y=[99, 20, 10], v=["Z", "B", "A"], u=[7, 8, 9], x=[99, 2, 1]), ["x", "y"]),
    Example(_ARROW, "the key is not the first column",
            table(v=["a", "b"], k=[1, 2], w=[0.5, 1.5]), table(u=[9, 8], k=[2, 3]), "k"),
    Example(_ARROW, "only a key", table(k=[1, 1, 2]), table(k=[1, 3, 3]), "k"),
    Example(_ARROW, "chunks", _chunked(_NUMBERED, 1, 2), _chunked(_NUMBERED, 3), "k"),
    Example(_ARROW, "chunks without rows", _chunked(_NUMBERED, 0, 2, 0, 0),
            _chunked(_NUMBERED, 0, 4), "k"),
    Example(_ARROW, "dictionaries", table(k=(WORDS, ["a", "b", None, "a"]), a=[1, 2, 3, 4]),
            table(k=(WORDS, ["c", "a", None, "b"]), b=[1, 2, 3, 4]), "k", spark_knows=False),
    Example(_ARROW, "a dictionary and plain text",
            table(k=(WORDS, ["a", "b", None]), a=[1, 2, 3]),
            table(k=["b", "b", "z"], b=[1, 2, 3]), "k", spark_knows=False),
    Example(_ARROW, "filtered: only pairs for which it holds",
            table(k=[1, 1, 2, 3], a=[1, 5, 2, 3]), table(k=[1, 2, 2, 4], b=[3, 1, 2, 9]), "k",
            field("a") >= field("b"), "l.a >= r.b"),
    Example(_ARROW, "filtered by one side", table(k=[1, 1, 2], a=[1, 5, 2]),
            table(k=[1, 2, 2], b=[3, 1, 2]), "k", field("b") > 1, "r.b > 1"),
    Example(_ARROW, "filtered: none is left", table(k=[1, 2], a=[1, 2]), table(k=[1, 2], b=[1, 2]),
            "k", field("a") > field("b"), "l.a > r.b"),
    Example(_ARROW, "filtered: null is not true", table(k=[1, 1, 2], a=[None, 5, None]),
            table(k=[1, 2, 2], b=[3, None, 2]), "k", field("a") > field("b"), "l.a > r.b"),
]  # fmt: skip

_SPARK_OUTER = "Spark, OuterJoinSuite"
_OUTER = (
    table(x=(pa.int32(), [1, 2, 2, 2, 3, 5, 6, None]),
          b=[2.0, 100.0, 1.0, 1.0, 3.0, 1.0, 6.0, None]),
    table(y=(pa.int32(), [0, 2, 2, 2, 2, 3, 4, 5, 7, None]),
          d=[0.0, 3.0, -1.0, -1.0, 3.0, 2.0, 1.0, 3.0, 7.0, None]),
)  # fmt: skip
_EXISTS = (
    table(x=(pa.int32(), [1, 1, 2, 2, 3, None, None, 6]),
          b=[2.0, 2.0, 1.0, 1.0, 3.0, None, 5.0, None]),
    table(y=(pa.int32(), [2, 2, 3, 4, None, None, 6]), d=[3.0, 3.0, 2.0, 1.0, None, 5.0, None]),
)  # fmt: skip
_SPARK_USING = "Spark, using-join.sql"
_NAMED = table(k=["one", "two", "three"], v=[1, 2, 3])
SPARK = [
    Example(_SPARK_OUTER, "rows of a key on both sides, and nulls", *_OUTER, {"x": "y"}),
    Example(_SPARK_OUTER, "with a condition", *_OUTER, {"x": "y"},
            field("b") < field("d"), "l.b < r.d"),
    Example(_SPARK_OUTER, "no row on the left", _OUTER[0].slice(0, 0), _OUTER[1], {"x": "y"}),
    Example(_SPARK_OUTER, "no row on the right", _OUTER[0], _OUTER[1].slice(0, 0), {"x": "y"}),
    Example(_SPARK_OUTER, "no row at all", _OUTER[0].slice(0, 0), _OUTER[1].slice(0, 0),
            {"x": "y"}, field("b") < field("d"), "l.b < r.d"),
    Example("Spark, ExistenceJoinSuite", "a row counts once", *_EXISTS, {"x": "y"}),
    Example("Spark, ExistenceJoinSuite", "with a condition", *_EXISTS, {"x": "y"},
            field("b") < field("d"), "l.b < r.d"),
    Example("Spark, ExistenceJoinSuite", "keys that are unique", _EXISTS[0],
            table(y=(pa.int32(), [2, 3, 4, None, 6]), d=[3.0, 2.0, 1.0, 5.0, None]), {"x": "y"},
            field("b") < field("d"), "l.b < r.d"),
    Example(_SPARK_USING, "USING", _NAMED, table(k=["one", "two", "one", "four"], w=[1, 22, 5, 4]),
            "k"),
    Example(_SPARK_USING, "USING two", table(k=["one", "two"], v=[1, 2], a=[7, 8]),
            table(k=["one", "one", "two"], v=[1, 2, 2], b=[5, 6, 7]), ["k", "v"]),
    Example("Spark, natural-join.sql", "all columns are keys", _NAMED,
            table(k=["one", "two", "one"], v=[1, 22, 5]), ["k", "v"]),
    Example("Spark, outer-join.sql", "keys of which none meets", table(x=[-234, 145, 367, 975]),
            table(x=[-769, -800, 940], y=[-244, -409, 86]), "x"),
    Example("Spark, outer-join.sql", "a condition that is never true", table(k=[97], a=[1]),
            table(k=[97], b=[2]), "k", field("a") > field("b"), "l.a > r.b"),
    Example("Spark, JoinSuite", "NaN and the two zeros",
            table(k=[0.0, -0.0, NAN, None, 1.5], a=range(5)),
            table(k=[-0.0, NAN, NAN, None, 1.5], b=range(5)), "k"),
    Example("Spark, JoinSuite", "NaN and zeros of floats",
            table(k=(pa.float32(), [0.0, -0.0, NAN, None]), a=range(4)),
            table(k=(pa.float32(), [-0.0, NAN, NAN, INF]), b=range(4)), "k"),
    Example("Spark, JoinSuite", "the greatest and the smallest number",
            table(k=[2**63 - 1, -(2**63), 0, None], a=range(4)),
            table(k=[-(2**63), 2**63 - 1, 2**63 - 1, -1], b=range(4)), "k"),
    Example("Spark, JoinSuite", "a row of a key for each of thousands",
            table(k=[7] * 300, a=range(300)), table(k=[7] * 40 + [8], b=range(41)), "k"),
    Example("Spark, JoinSuite", "int and bigint", table(k=(pa.int32(), [1, 2, -1]), a=[1, 2, 3]),
            table(k=(pa.int64(), [1, 2**32 + 1, -1]), b=[1, 2, 3]), "k"),
    Example("Spark, JoinSuite", "smallint and int with two keys",
            table(x=(pa.int16(), [1, 1, None]), y=(pa.int64(), [5, 6, 7]), a=[1, 2, 3]),
            table(x=(pa.int32(), [1, 1, 1]), y=(pa.int32(), [5, 5, 7]), b=[1, 2, 3]), ["x", "y"]),
    Example("Spark, JoinSuite", "decimals of two scales",
            table(k=(pa.decimal128(5, 1), [Decimal("1.5"), Decimal("2.0"), None]), a=[1, 2, 3]),
            table(k=(pa.decimal128(9, 4), [Decimal("1.5000"), Decimal("1.5001"), Decimal(2)]),
                  b=[1, 2, 3]), "k"),
    Example("Spark, JoinSuite", "texts that differ in what ends them",
            table(k=["a", "a ", "", "A", "\x00", None, "ä", "a\u0308"], a=range(8)),
            table(k=["a", " a", "", "b", "\x00", None, "ä", "á"], b=range(8)), "k"),
    Example("Spark, JoinSuite", "bytes", table(k=[b"", b"\x00", b"\x00\x00", None], a=range(4)),
            table(k=[b"\x00", b"", b"\xff\xfe", b"\x00"], b=range(4)), "k"),
    Example("Spark, JoinSuite", "dates", table(k=[day(0), day(1), None], a=range(3)),
            table(k=[day(1), day(1), day(-25_000)], b=range(3)), "k"),
    Example("Spark, JoinSuite", "true and false", table(k=[True, False, None, True], a=range(4)),
            table(k=[True, True, None], b=range(3)), "k"),
]  # fmt: skip

_POLARS = "Polars, test_join.py"
_DEEP = table(
    k=[1, 2, 3],
    l=(pa.list_(pa.float64()), [[], [4.0, None], None]),
    s=(pa.struct({"x": pa.int64(), "y": TEXT}), [{"x": 1, "y": "a"}, None, {"x": None, "y": ""}]),
)
POLARS = [
    Example(_POLARS, "null on the right only", table(k=[1, 2, 3], p=["f", "i", None]),
            table(k=[3, 4, 5, None]), "k"),
    Example(_POLARS, "semi and anti with two keys and rows that repeat",
            table(a=[1, 2, 3, 1], b=["a", "b", "c", "a"], p=[10, 20, 30, 40]),
            table(a=[3, 3, 4, 5], b=["c", "c", "d", "e"]), ["a", "b"]),
    Example(_POLARS, "sorted", table(k=sorted([3, 1, 4, 1, 5, 9, 2, 6, 5, 3]), a=range(10)),
            table(k=sorted([2, 7, 1, 8, 2, 8]), b=range(6)), "k"),
    Example(_POLARS, "sorted downwards", table(k=[9, 6, 5, 5, 4, 3, 3, 2, 1, 1], a=range(10)),
            table(k=[8, 8, 7, 2, 2, 1], b=range(6)), "k"),
    *(
        Example(_POLARS, f"negative numbers of {kind}",
                table(k=(kind, [-1, -6, -3, 0]), a=range(4)),
                table(k=(kind, [-6, -1, -4, -2, 0]), b=range(5)), "k")
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    *(
        Example(_POLARS, f"numbers of {kind}", table(k=(kind, [0, 1, 200, None]), a=range(4)),
                table(k=(kind, [200, 200, 0, 7]), b=range(4)), "k", spark_knows=False)
        for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    Example(_POLARS, "text keys and columns that clash",
            table(a=["a", "b", "a", "z"], b=[1, 2, 3, 4], c=[6, 5, 4, 3]),
            table(a=["b", "c", "b", "a"], k=[0, 3, 9, 6], c=[1, 0, 2, 1]), "a"),
    Example(_POLARS, "four keys of four types",
            table(a=["a", "b", "c", "a"], b=[1, 2, 3, 1], d=[day(1), day(2), day(3), day(1)],
                  m=[moment(1.5), moment(2), moment(3), moment(1.5)]),
            table(a=["a", "b", "c", "x"], b=[1, 2, 3, 1], d=[day(1), day(2), day(9), day(1)],
                  m=[moment(1.5), moment(7), moment(3), moment(1.5)]), ["a", "b", "d", "m"]),
    Example(_POLARS, "three keys in another order",
            table(x=[0, 0, 1, 1], y=[10, 10, 11, 11], z=[100, 101, 100, 101]),
            table(x=[0, 1], y=[10, 11], z=[100, 101]), ["z", "x", "y"]),
    Example(_POLARS, "the right side's key is called like another column of the left",
            table(x=["a", "b", "c"], y=["b", "c", "d"], v=[1, 2, 3]),
            table(y=["a", "c", "d"], w=[7, 8, 9]), {"x": "y"}),
    Example(_POLARS, "null against zero", table(k=[0, 0, 1]), table(k=[0, None], b=[0, 1]), "k"),
    Example(_POLARS, "lists and structs beside the key", _DEEP,
            table(k=[2, 2, 4], m=(pa.list_(pa.list_(TEXT)), [[["x"], []], None, [None]])), "k"),
    Example(_POLARS, "true and false, all pairs", table(k=[True, False], a=[1, 2]),
            table(k=[True, False], b=[0, -1]), "k"),
    Example(_POLARS, "four keys with nulls in 138 rows",
            table(**{n: [None if i % 6 == 0 else i for i in range(138)] for n in "abcd"}),
            table(**{n: [None if i % 6 == 0 else i for i in range(138)] for n in "abcd"}),
            list("abcd")),
    Example(_POLARS, "self", table(k=[1, 0, 1], a=[1, 2, 3]), table(k=[1, 0, 1], a=[1, 2, 3]), "k"),
    Example(_POLARS, "a column of nothing but null",
            table(k=[1, 2], a=(pa.int64(), [None, None])),
            table(k=[2, 3], b=(pa.float64(), [None, None])), "k"),
    Example(_POLARS, "keys that are all null", table(k=(pa.int64(), [None, None]), a=[1, 2]),
            table(k=(pa.int64(), [None]), b=[1]), "k"),
]  # fmt: skip

_PANDAS = "pandas, test_merge.py"
_ZONE = pa.timestamp("us", "US/Eastern")
PANDAS = [
    Example(_PANDAS, "days in a zone", table(k=(_ZONE, [moment(0), moment(86_400)]), v=[1, 2]),
            table(k=(_ZONE, [moment(86_400), moment(172_800)]), v=[1, 2]), "k"),
    Example(_PANDAS, "times in a zone beside the key",
            table(k=[1, 2], v=(_ZONE, [moment(0), moment(86_400)])),
            table(k=[2, 3], v=(_ZONE, [moment(1), None])), "k"),
    Example(_PANDAS, "the hour that comes twice",
            table(k=(pa.timestamp("us", "Europe/Madrid"),
                     [datetime.datetime(2025, 10, 25, hour) for hour in (23,)]
                     + [datetime.datetime(2025, 10, 26, hour) for hour in (0, 1, 2)]), a=range(4)),
            table(k=(pa.timestamp("us", "Europe/Madrid"),
                     [datetime.datetime(2025, 10, 26, hour) for hour in (1, 2, 3)]), b=range(3)),
            "k"),
    *(
        Example(_PANDAS, f"times in {unit}",
                table(k=(pa.timestamp(unit), [moment(0), moment(1), None]), a=range(3)),
                table(k=(pa.timestamp(unit), [moment(1), moment(1), moment(2)]), b=range(3)), "k",
                spark_knows=unit == "us")
        for unit in ("s", "ms", "us", "ns")
    ),
    *(
        Example(_PANDAS, f"lengths of time in {unit}",
                table(k=(pa.duration(unit), [datetime.timedelta(1), datetime.timedelta(2), None]),
                      a=range(3)),
                table(k=(pa.duration(unit), [datetime.timedelta(2), datetime.timedelta(-2)]),
                      b=range(2)), "k", spark_knows=False)
        for unit in ("s", "ms", "us")
    ),
    Example(_PANDAS, "one left row for many right", table(k=["a", "b"], v=[1, 2]),
            table(k=["a"] * 7 + ["c"], w=range(8)), "k"),
    Example(_PANDAS, "many for many", table(k=["a"] * 4 + ["b"] * 3, v=range(7)),
            table(k=["b"] * 4 + ["a"] * 5, w=range(9)), "k"),
    Example(_PANDAS, "empty left, every type",
            table(k=(pa.int64(), []), a=(TEXT, []), b=(pa.bool_(), []), c=(pa.date32(), [])),
            table(k=[1, 2], d=[day(0), None]), "k"),
    Example(_PANDAS, "empty right, every type", table(k=[1, 2], d=[day(0), None]),
            table(k=(pa.int64(), []), a=(TEXT, []), b=(pa.bool_(), []), c=(pa.date32(), [])), "k"),
    Example(_PANDAS, "int and float", table(k=[1, 2, 3, None], a=range(4)),
            table(k=[1.0, 2.5, 3.0, NAN], b=range(4)), "k"),
    Example(_PANDAS, "int8 and float32", table(k=(pa.int8(), [-128, 127, 0]), a=range(3)),
            table(k=(pa.float32(), [-128.0, 127.5, -0.0]), b=range(3)), "k"),
    Example(_PANDAS, "large integers and floats",
            table(k=[2**53, 2**53 + 1, 2**53 + 2], a=range(3)),
            table(k=[float(2**53), float(2**53 + 2)], b=range(2)), "k"),
    Example(_PANDAS, "long texts", table(k=["x" * n for n in (7, 8, 9, 64, 4_000)], a=range(5)),
            table(k=["x" * n for n in (8, 64, 65, 4_000, 4_000)], b=range(5)), "k"),
]  # fmt: skip

_DUCKDB, _FUSION, _SQLITE = "DuckDB, test/sql/join", "DataFusion, joins.slt", "SQLite, join.test"
_T1 = table(id=(pa.int32(), [11, 11, 22, 33, 44, None]), name=list("aabcde"), n=[1, 1, 2, 3, 4, 0])
_T2 = table(
    id2=(pa.int32(), [11, 11, 22, 44, 55, None]), name2=list("zzyxwv"), n2=[3, 3, 1, 3, 3, 0]
)
_TYPES = (
    table(d=(pa.date32(), [day(1), day(2), None, day(3)]),
          c=(pa.decimal128(5, 2),
             [Decimal("1.23"), Decimal(456), Decimal(789), Decimal("-123.12")]),
          t=(WORDS, ["abc", "def", "ghi", "jkl"])),
    table(d=(pa.date32(), [day(1), None, None, day(3)]),
          c=(pa.decimal128(10, 2), [Decimal("-123.12"), Decimal(10**5), Decimal(0), Decimal(789)]),
          t=(WORDS, ["abc", "abcdefg", "qwerty", "qwe"])),
)  # fmt: skip
ENGINES = [
    Example(_DUCKDB, "every pair of 100 x 100", table(k=[1] * 100, a=range(100)),
            table(k=[1] * 100, b=range(100)), "k"),
    Example(_DUCKDB, "keys that all have one value but one", table(k=[0] * 60 + [1], a=range(61)),
            table(k=[0] * 3 + [1] * 50, b=range(53)), "k"),
    Example(_DUCKDB, "dense keys", table(k=range(200), a=range(200)),
            table(k=range(100, 300), b=range(200)), "k"),
    Example(_DUCKDB, "keys far apart", table(k=[i << 40 for i in range(50)], a=range(50)),
            table(k=[i << 41 for i in range(50)], b=range(50)), "k"),
    Example(_DUCKDB, "no column but the keys, all types",
            table(a=[1, None], b=["x", "y"], c=[1.5, NAN], d=[True, False]),
            table(a=[1, None], b=["x", "y"], c=[1.5, NAN], d=[True, False]), list("abcd")),
    Example(_DUCKDB, "ten keys",
            table(**{f"k{n}": [n, n + 1, None] for n in range(10)}, a=range(3)),
            table(**{f"k{n}": [n, n + 2, None] for n in range(10)}, b=range(3)),
            [f"k{n}" for n in range(10)]),
    Example(_DUCKDB, "residual predicates: three of them", table(k=[1, 1, 2, 2], a=[1, 2, 3, 4]),
            table(k=[1, 2, 2, 3], b=[2, 3, 9, 1]), "k",
            (field("a") != field("b")) & (field("a") + field("b") < 12) & (field("b") > 1),
            "l.a <> r.b AND l.a + r.b < 12 AND r.b > 1"),
    Example(_DUCKDB, "residual predicates over texts", table(k=[1, 1, 2], a=["x", "yy", None]),
            table(k=[1, 2, 2], b=["y", "a", None]), "k", field("a") < field("b"), "l.a < r.b"),
    Example(_DUCKDB, "a condition with IS NULL", table(k=[1, 1, 2], a=[None, 1, None]),
            table(k=[1, 2, 2], b=[1, None, 3]), "k",
            field("a").is_null() | (field("b") == field("a")), "l.a IS NULL OR r.b = l.a"),
    Example(_DUCKDB, "duplicates of text keys", table(k=["a", "b", None, "a"] * 9, a=range(36)),
            table(k=["b", "a", "c"] * 5, b=range(15)), "k"),
    Example(_DUCKDB, "an empty text, and null", table(k=["", None, " "], a=range(3)),
            table(k=["", "", None], b=range(3)), "k"),
    Example(_DUCKDB, "structs", table(
                k=(pa.struct({"x": pa.int32(), "y": TEXT}),
                   [{"x": 1, "y": "a"}, {"x": None, "y": "a"}, None, {"x": 2, "y": None}]),
                a=range(4)),
            table(k=(pa.struct({"x": pa.int32(), "y": TEXT}),
                     [{"x": None, "y": "a"}, {"x": 1, "y": "a"}, None, {"x": 2, "y": None}]),
                  b=range(4)), "k"),
    Example(_DUCKDB, "more rows than a vector", table(k=np.arange(2_500) % 700, a=range(2_500)),
            table(k=np.arange(2_100) % 900, b=range(2_100)), "k"),
    Example(_FUSION, "semi and anti with nulls and twins", _T1, _T2, {"id": "id2"}),
    Example(_FUSION, "semi and anti with a condition", _T1, _T2, {"id": "id2"},
            field("n") != field("n2"), "l.n <> r.n2"),
    Example(_FUSION, "unbalanced", table(id=[11, 22, 33, 44, 77], name=list("abcde")),
            table(id=[11, 22, 44, 55], other=list("zyxw")), "id"),
    Example(_FUSION, "nulls in what is carried",
            table(id=[11, 22, 88, 99], name=["a", "b", None, None]),
            table(id=[11, 22, 55, 99], other=["z", None, "w", "u"]), "id"),
    Example(_FUSION, "moments a nanosecond apart",
            table(k=(pa.timestamp("ns"), [131_964_190_213_133, 131_964_190_213_134]), a=range(2)),
            table(k=(pa.timestamp("ns"), [131_964_190_213_134, 131_964_190_213_135]), b=range(2)),
            "k", spark_knows=False),
    Example(_FUSION, "floats of a city",
            table(c=list("abc"), k=(pa.float32(), [838.698, 1778.9, 0.1])),
            table(k=(pa.float32(), [0.1, 838.698, 838.699]), b=range(3)), "k"),
    Example(_FUSION, "a date, a decimal and a dictionary", *_TYPES, ["d"], spark_knows=False),
    Example(_FUSION, "decimals of two precisions", *_TYPES, ["c"], spark_knows=False),
    Example(_FUSION, "dictionaries of two sets of words", *_TYPES, ["t"], spark_knows=False),
    Example(_FUSION, "nothing but null on both sides", table(x=(pa.int64(), [None])),
            table(y=(pa.int64(), [None])), {"x": "y"}),
    Example(_FUSION, "none meets: a against b", table(a=[1, 2, 3], b=[10, 20, 30]),
            table(a=[1, 2, 9], b=[100, 200, 300]), {"a": "b"}),
    Example(_SQLITE, "natural join of three and three",
            table(a=[1, 2, 3], b=[2, 3, 4], c=[3, 4, 5]),
            table(b=[1, 2, 3], c=[2, 3, 4], d=[3, 4, 5]), ["b", "c"]),
    Example(_SQLITE, "one of two shared columns is the key",
            table(a=[1, 2, 3], b=[2, 3, 4], c=[3, 4, 5]),
            table(b=[1, 2, 3], c=[2, 3, 4], d=[3, 4, 5]), "b"),
    Example(_SQLITE, "the keys the other way round",
            table(a=[1, 2, 3], b=[2, 3, 4], c=[3, 4, 5]),
            table(b=[1, 2, 3], c=[2, 3, 4], d=[3, 4, 5]), ["c", "b"]),
    Example(_SQLITE, "many nulls against an empty side", table(k=(pa.int64(), [None] * 128)),
            table(k=(pa.int64(), [])), "k"),
    Example(_SQLITE, "a centre that a person lacks",
            table(person=["a", "b", "c"], centre=[1, 1, None]), table(centre=[1], name=["x"]),
            "centre"),
    Example(_SQLITE, "texts that look like numbers", table(k=["1", "01", "1.0", "1 "], a=range(4)),
            table(k=["1", "1.0", "1e0", " 1"], b=range(4)), "k"),
    Example(_SQLITE, "a key that is there once on the left and twice on the right, with more keys",
            table(p=["pa1", "pa2", "pa3", "pa4"], y=[1, None, None, 131]),
            table(y=[1, 131, 131, None], b=["x", "y", "z", None]), "y"),
]  # fmt: skip

EXAMPLES = [*ARROW, *SPARK, *POLARS, *PANDAS, *ENGINES]
