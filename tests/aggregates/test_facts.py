"""What footers say, as numbers that can be compared; and what follows for filters."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.aggregates.sampling.passing import passing
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.scope import Scope
from watersmeet.local.blocks import MemoryTable, ParquetTable
from watersmeet.model import Side

# Four blocks of four rows, in order.
COLUMNS: dict[str, list[Any]] = {
    "whole": list(range(16)),
    "real": [n / 2 for n in range(16)],
    "exact": [Decimal(n) / 4 for n in range(16)],
    "day": [date(2024, 1, 1) + timedelta(n) for n in range(16)],
    "moment": [datetime(2024, 1, 1, n, 30) for n in range(16)],
    "text": [f"article {n:04}" for n in range(16)],
    "some": [None] * 4 + [1, None, 2, 3] + list(range(8)),
}


@pytest.fixture(params=["file", "memory"])
def facts(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, ColumnFacts]:
    table = pa.table(COLUMNS)
    if request.param == "file":
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
        opened = ParquetTable([tmp_path / "t.parquet"], argument="left")
        return opened.facts(list(COLUMNS))
    memory = MemoryTable(table, name="left")
    memory._pieces = [(start, start + 4) for start in range(0, 16, 4)]
    return memory.facts(list(COLUMNS))


@pytest.mark.parametrize("name", list(COLUMNS))
def test_ends_are_in_order(facts: dict[str, ColumnFacts], name: str) -> None:
    found = facts[name]
    known = slice(2, None) if name == "some" else slice(None)
    assert (np.diff(found.least[known]) > 0).all()
    assert (found.most >= found.least)[known].all()
    if name != "some":
        assert (found.most[:-1] < found.least[1:]).all()
    assert found.values == (name in ("whole", "real", "exact", "some"))
    assert found.days == (name == "day")


def test_numbers_are_their_values_and_nulls_are_counted(facts: dict[str, ColumnFacts]) -> None:
    assert facts["exact"].most.tolist() == [0.75, 1.75, 2.75, 3.75]
    assert facts["whole"].extremes == (0, 15)
    assert facts["text"].extremes is None
    assert facts["some"].nulls.tolist() == [1, 0.25, 0, 0]
    # A block of nulls alone has no values, and hides none.
    assert np.isnan(facts["some"].least[0])
    assert facts["some"].extremes == (0, 7)


def test_a_silent_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(COLUMNS), path, row_group_size=4, write_statistics=["whole"])
    found = ParquetTable([path], argument="left").facts(["whole", "real"])
    assert found["whole"].extremes == (0, 15)
    assert np.isnan(found["real"].least).all()
    assert found["real"].extremes is None


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("whole < 6", [1, 0.5, 0, 0]),
        ("whole >= 4 AND real < 4", [0, 1, 0, 0]),
        ("NOT whole <= 5", [0, 0.5, 1, 1]),
        ("whole = 4 OR whole > 12", [0, 0.5, 0, 0.5]),
        ("2 * whole <> 9", [1, 0.5, 1, 1]),
        ("day < DATE '2024-01-07'", [1, 0.5, 0, 0]),
        ("day BETWEEN DATE '2024-01-05' AND DATE '2024-01-08'", [0, 1, 0, 0]),
        ("text < 'article 0005'", [0.5, 0.5, 0.5, 0.5]),
        # Of two open conditions a block at the edge of one is another kind than those inside.
        ("whole >= 6 AND text < 'b'", [0, 0.25, 0.5, 0.5]),
        ("NOT (whole < 6 OR text >= 'b')", [0, 0.25, 0.5, 0.5]),
    ],
)
def test_which_blocks_pass(
    facts: dict[str, ColumnFacts], condition: str, passes: list[float]
) -> None:
    scope = Scope((pa.table(COLUMNS).schema, pa.schema([])))
    tree = Expression.parse(condition, scope).tree
    assert passing(tree, facts, Side.LEFT, 4).tolist() == passes
