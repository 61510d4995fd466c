"""What an aggregate over a join must answer, computed by DuckDB."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from watersmeet.aggregates.ask.specification import Aggregate

_JOIN = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN",
         "semi": "SEMI JOIN", "anti": "ANTI JOIN"}  # fmt: skip
_FUNCTION = {"variance": "var_samp", "stddev": "stddev_samp"}

Answer = dict[tuple[Any, ...], tuple[Any, ...]]
"""The aggregates of each group."""


def expected(
    left: pa.Table,
    right: pa.Table,
    *,
    on: Sequence[str],
    how: str = "inner",
    group_by: Sequence[str] = (),
    where: str | None = None,
    **aggregates: Aggregate,
) -> Answer:
    columns = [*group_by, *map(_sql, aggregates.values())]
    query = f"SELECT {', '.join(columns)} FROM l {_JOIN[how]} r USING ({', '.join(on)})"
    query += f" WHERE {where}" if where else ""
    query += f" GROUP BY {', '.join(group_by)}" if group_by else ""
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        rows = connection.execute(query).fetchall()
    return by_group([dict(zip(range(len(columns)), row, strict=True)) for row in rows],
                    range(len(group_by)))  # fmt: skip


def by_group(rows: Sequence[Mapping[Any, Any]], group_by: Sequence[Any]) -> Answer:
    found = {}
    for row in rows:
        group = tuple(map(_plain, (row[name] for name in group_by)))
        assert group not in found, f"{group} comes twice"
        found[group] = tuple(value for name, value in row.items() if name not in group_by)
    return found


def assert_same(found: Answer, wanted: Answer) -> None:
    """Integers and decimals to the last digit, floats but for their rounding."""
    assert found.keys() == wanted.keys()
    for group, values in wanted.items():
        for mine, theirs in zip(found[group], values, strict=True):
            assert _alike(mine, theirs), f"{group}: {found[group]} instead of {values}"


def _alike(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(mine, Decimal) and isinstance(theirs, float):
        # DuckDB's mean of decimals is a float; ours has digits, as Spark's.
        return math.isclose(mine, theirs, abs_tol=1e-6)
    if isinstance(mine, float):
        nan = math.isnan(mine) and math.isnan(theirs)
        return nan or math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return bool(mine == theirs)


def _plain(value: Any) -> Any:
    """NaN is equal to itself here."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _sql(aggregate: Aggregate) -> str:
    function = _FUNCTION.get(aggregate.kind.value, aggregate.kind.value)
    return f"{function}({aggregate.expression or '*'})"
