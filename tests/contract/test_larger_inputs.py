"""Inputs of realistic size under the default settings, against DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from watersmeet.model import JoinType, Side
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.family import ALGORITHMS
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Pause, Resources

ROWS = 20_000
BATCH = 1_000


def side(name: str, rng: np.random.Generator) -> pa.Table:
    """A third of the rows have one of a few frequent keys; texts are of uneven length."""
    keys = np.where(
        rng.random(ROWS) < 1 / 3, rng.integers(0, 40, ROWS), rng.integers(0, ROWS, ROWS)
    )
    texts = ["x" * int(n) for n in rng.geometric(0.05, ROWS)]
    return pa.table(
        {
            "k": pa.array([f"key {k}" if k % 50 else None for k in keys]),
            name: np.arange(ROWS),
            f"{name}_text": pa.array(texts),
        }
    )


def matches(operator: JoinOperator, inputs: tuple[pa.Table, pa.Table]) -> Iterator[Matches]:
    for start in range(0, ROWS, BATCH):
        for each, table in zip(Side, inputs, strict=True):
            (batch,) = table.slice(start, BATCH).combine_chunks().to_batches()
            yield from operator.push(each, batch)
        if start % 3_000 == 0:
            yield from operator.idle(Pause(start // 500))
    for each in Side:
        yield from operator.end(each)
    yield from operator.finish()


@pytest.mark.slow
@pytest.mark.parametrize("how", JoinType)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_larger_join_is_what_duckdb_says(name: str, how: JoinType, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    inputs = side("l", rng), side("r", rng)
    schema = JoinSchema.resolve(inputs[0].schema, inputs[1].schema, "k", how)
    maker = PublishedJoin(name)
    memory = MemoryAccount(max(2**20, maker.least_memory))
    operator = maker.make(schema, Resources(memory, SpillArea(tmp_path)))
    got = pa.Table.from_batches(
        [schema.materialise(each) for each in matches(operator, inputs)], schema.output
    )
    assert memory.peak <= memory.limit
    operator.close()
    names = ", ".join(schema.output.names)
    right = "" if not how.emits_pairs else ", r.*EXCLUDE(k)"
    key = {"right": "r.k", "full": "coalesce(l.k, r.k)"}.get(how, "l.k")
    with duckdb.connect() as connection:
        for alias, table in zip(("l", "r", "got"), (*inputs, got), strict=True):
            connection.register(alias, table)
        connection.execute(
            f"CREATE TABLE expected AS SELECT {key} AS k, l.* EXCLUDE(k) {right} "
            f"FROM l {how.value} JOIN r ON l.k = r.k"
        )
        for one, other in (("got", "expected"), ("expected", "got")):
            difference = f"SELECT {names} FROM {one} EXCEPT ALL SELECT {names} FROM {other}"
            assert connection.execute(difference).fetchmany(3) == []
