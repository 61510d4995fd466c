"""What a join must return, computed by DuckDB and compared as multisets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

_SQL = {
    "inner": "SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k",
    "left": "SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k",
    "right": "SELECT r.k, l.a, r.b FROM l RIGHT JOIN r ON l.k = r.k",
    "full": "SELECT coalesce(l.k, r.k), l.a, r.b FROM l FULL JOIN r ON l.k = r.k",
    "semi": "SELECT l.k, l.a FROM l SEMI JOIN r ON l.k = r.k",
    "anti": "SELECT l.k, l.a FROM l ANTI JOIN r ON l.k = r.k",
}

Rows = Counter[tuple[Any, ...]]


def expected(left: pa.Table, right: pa.Table, how: str = "inner") -> Rows:
    """The join of left(k, a) and right(k, b) on k."""
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        return Counter(connection.execute(_SQL[how]).fetchall())


def rows_of(result: pa.Table) -> Rows:
    return Counter(zip(*(column.to_pylist() for column in result.columns), strict=True))
