"""Two aggregates over TPC-H's orders and lineitem, asked of every engine in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import watersmeet as wm
from benchmarks.relations import Relations

_REVENUE = "l_extendedprice * (1 - l_discount)"
LINEITEM = (
    "l_orderkey long, l_partkey long, l_suppkey long, l_linenumber int, "
    "l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), "
    "l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string"
)
"""Its columns in files of text."""


def _as_it_is() -> Any:
    """A function of whose values Spark knows nothing but the type."""
    from pyspark.sql import functions as sf

    def same(values):  # type: ignore[no-untyped-def]
        return values

    return sf.arrow_udf(same, "decimal(15,2)")  # type: ignore[attr-defined]


def _piece_by_piece() -> Any:
    """The same as a function that goes through a partition, which only Spark can call."""
    from pyspark.sql import functions as sf

    def same(pieces: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from pieces

    return sf.arrow_udf(same, "decimal(15,2)")  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Question:
    """`aggregates` are SQL by name; `where` is a condition on orders."""

    name: str
    aggregates: dict[str, str]
    group_by: str | None
    where: str | None

    def arguments(self) -> dict[str, Any]:
        """For `wm.aggregate` and `wm.local.aggregate`, lineitem first."""
        kinds = {"sum": wm.sum, "avg": wm.avg, "count": wm.count}
        asked = {}
        for name, text in self.aggregates.items():
            kind, _, inside = text.partition("(")
            asked[name] = kinds[kind](inside.removesuffix(")")) if inside != "*)" else wm.count()
        return {"on": {"l_orderkey": "o_orderkey"}, "group_by": self.group_by, **asked}

    def frames(self, spark: Any, relations: Relations, way: str = "") -> tuple[Any, Any]:
        """Lineitem and orders; the filter is on the DataFrame, as a user would write it. With a
        `way`, lineitem is text, or has a column that a function of the user's computes."""
        if way == "csv":
            lineitem = spark.read.csv(relations.right.folder, header=True, schema=LINEITEM)
        else:
            lineitem = spark.read.parquet(relations.right.folder)
        if way == "function":
            lineitem = lineitem.withColumn("l_discount", _as_it_is()("l_discount"))
        elif way == "pieces":
            lineitem = lineitem.withColumn("l_discount", _piece_by_piece()("l_discount"))
        orders = spark.read.parquet(relations.left.folder)
        return lineitem, orders if self.where is None else orders.where(self.where)

    def by_spark(self, spark: Any, relations: Relations, way: str = "") -> Any:
        from pyspark.sql import functions as sf

        lineitem, orders = self.frames(spark, relations, way)
        joined = lineitem.join(orders, lineitem["l_orderkey"] == orders["o_orderkey"])
        asked = [sf.expr(text).alias(name) for name, text in self.aggregates.items()]
        return joined.groupBy(*([self.group_by] if self.group_by else [])).agg(*asked)

    def by_sql(self, relations: Relations) -> str:
        """For DuckDB."""
        groups = [self.group_by] if self.group_by else []
        columns = ", ".join([*groups, *self.aggregates.values()])
        return (
            f"SELECT {columns} FROM read_parquet('{relations.right.folder}/*.parquet') "
            f"JOIN read_parquet('{relations.left.folder}/*.parquet') ON l_orderkey = o_orderkey"
            + (f" WHERE {self.where}" if self.where else "")
            + (f" GROUP BY {self.group_by}" if self.group_by else "")
        )

    def text(self, rows: Iterable[tuple[Any, ...]]) -> list[list[str]]:
        """An answer to compare: to the last digit."""
        return sorted([str(value) for value in row] for row in rows)


QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "Q1",
            {"revenue": f"sum({_REVENUE})"},
            None,
            "o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'",
        ),
        Question(
            "Q2",
            {"revenue": f"sum({_REVENUE})", "n": "count(*)", "quantity": "avg(l_quantity)"},
            "o_orderpriority",
            None,
        ),
    )
}
