"""Small random tables, and questions about their join that DuckDB answers too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from datetime import datetime as at
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import watersmeet as wm
from tests.aggregates.oracle import Answer, expected
from watersmeet.aggregates.run import AggregateRun

NAN = float("nan")
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [-(2**40), 0, 1, 2, 3, 7]),
    "int32": (pa.int32(), [-1, 0, 1, 2]),
    "string": (pa.string(), ["", "a", "ab", "b"]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
    "date": (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)]),
    "time": (pa.timestamp("us"), [at(1969, 1, 1), at(2024, 1, 1), at(2025, 2, 1)]),
    "float": (pa.float64(), [-0.0, 0.0, 1.5, NAN, float("inf")]),
}  # fmt: skip

# What only looks at left rows comes first: a semi or anti join has no other columns.
LEFT = {
    "n": wm.count(),
    "count_a": wm.count("a"),
    "sum_a": wm.sum("a"),
    "avg_p": wm.avg("p"),
    "net": wm.sum("p * (1 - p)"),
    "spread_x": wm.variance("x"),
    "seven": wm.sum("7"),
    "text": wm.count("g"),
}
BOTH = LEFT | {
    "sum_b": wm.sum("b"),
    "count_b": wm.count("b"),
    "avg_q": wm.avg("q"),
    "product": wm.sum("p * (1 - q)"),
    "whole_product": wm.sum("a * b"),
    "ratio": wm.sum("x * y"),
    "added": wm.sum("a + b"),
    "difference": wm.avg("p - q"),
    "spread_y": wm.stddev("y"),
    "spread_product": wm.variance("x * y"),
    "spread_pairs": wm.stddev_pop("x + y"),
    "filled": wm.sum("coalesce(b, 5)"),
    "chosen": wm.sum("CASE WHEN b IS NULL THEN a ELSE 0 END"),
    "filled_both": wm.sum("coalesce(a, 2) * coalesce(b, 3)"),
}
GROUPS = [(), ("g",), ("h",), ("g", "h"), ("h", "k"), ("k",), ("f", "g")]
LEFT_CONDITIONS = [None, "a > 0", "g IS NULL OR g = 'u'", "k IS NOT NULL"]
CONDITIONS = [
    *LEFT_CONDITIONS, "b > 0", "a > 0 AND b >= 0", "a < b", "a > 0 AND (x > y OR h = 'u')"
]  # fmt: skip


@dataclass(frozen=True)
class Question:
    """Two small tables and what is asked of them."""

    left: pa.Table
    right: pa.Table
    on: tuple[str, ...]
    how: str
    group_by: tuple[str, ...]
    where: str | None
    aggregates: dict[str, Any]

    def expected(self) -> Answer:
        return expected(
            self.left, self.right, on=self.on, how=self.how, group_by=self.group_by,
            where=self.where, **self.aggregates,
        )  # fmt: skip

    def run(self, left: Any, right: Any, **options: Any) -> AggregateRun:
        return wm.local.aggregate(
            left, right, on=list(self.on), how=self.how, group_by=list(self.group_by),
            where=self.where, **self.aggregates, **options,
        )  # fmt: skip


def rows(side: str, key: str) -> st.SearchStrategy[pa.Table]:
    """Columns k and j are keys, then a group, numbers of three types."""
    kind, values = KEYS[key]
    names = ("k", "j", *({"l": "g f a p x", "r": "h e b q y"}[side].split()))
    kinds = (kind, pa.int32(), pa.string(), pa.float64(), pa.int32(), pa.decimal128(7, 2),
             pa.float64())  # fmt: skip
    cents = st.integers(-999, 999).map(lambda cents: Decimal(cents) / 100)
    row = st.tuples(
        st.none() | st.sampled_from(values),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "u", "v"]),
        st.sampled_from([None, -0.0, 0.0, NAN]),
        st.none() | st.integers(-3, 4),
        st.none() | cents,
        st.none() | st.integers(-8, 8).map(float),
    )
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return st.lists(row, max_size=24).map(
        lambda rows: pa.Table.from_pylist(
            [dict(zip(names, row, strict=True)) for row in rows], schema=schema
        )
    )


@st.composite
def questions(draw: st.DrawFn, *, hows: Sequence[str] = ("inner",)) -> Question:
    key = draw(st.sampled_from(sorted(KEYS)))
    how = draw(st.sampled_from(hows))
    alone = how in ("semi", "anti")
    pool = LEFT if alone else BOTH
    names = draw(st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=4, unique=True))
    groups = [group for group in GROUPS if not alone or "h" not in group]
    conditions = LEFT_CONDITIONS if how in ("left", "semi", "anti") else CONDITIONS
    if how == "right":
        conditions = [None, "b > 0", "k IS NOT NULL"]
    return Question(
        left=draw(rows("l", key)),
        right=draw(rows("r", key)),
        on=draw(st.sampled_from([("k",), ("k", "j")])),
        how=how,
        group_by=draw(st.sampled_from(groups)),
        where=draw(st.sampled_from(conditions)),
        aggregates={name: pool[name] for name in names},
    )
