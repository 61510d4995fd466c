"""Streams and master tables of realistic size under the default settings, against DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.contract.enriching import HOWS
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import ENRICHING, make_enricher
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.master.laying import encoder, lay_down
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import Pause

ROWS, BATCH = 60_000, 1_500
MEMORY = 3 * 2**20
# Takes the way of all others: partners, conditions that fail, and rows without a partner.
QUICK = ("skipping", JoinType.LEFT, True)


def stream(keys: int) -> pa.Table:
    """Keys by Zipf's law, some without a master row, some null; texts of uneven length."""
    rng = np.random.default_rng(1)
    ranks = np.minimum(rng.zipf(1.2, ROWS), keys + 200)
    texts = ["x" * int(n) for n in rng.geometric(0.05, ROWS)]
    names = pa.array([f"key {k}" if k % 50 else None for k in ranks])
    return pa.table({"k": names, "n": np.arange(ROWS), "t": pa.array(texts)})


def master(keys: int, each: int) -> pa.Table:
    """Up to `each` rows of a key."""
    rng = np.random.default_rng(2)
    numbers = np.repeat(np.arange(keys), rng.integers(1, each + 1, keys))
    rng.shuffle(numbers)
    texts = ["y" * int(n) for n in rng.geometric(0.01, len(numbers))]
    names = pa.array([f"key {k}" for k in numbers])
    return pa.table({"k": names, "m": np.arange(len(numbers)), "u": pa.array(texts)})


def results(join: SemiStreamJoin, rows: pa.Table) -> Iterator[Matches]:
    for number, start in enumerate(range(0, ROWS, BATCH)):
        (batch,) = rows.slice(start, BATCH).combine_chunks().to_batches()
        yield from join.push(Side.LEFT, batch)
        if number % 4 == 0:
            yield from join.idle(Pause(number))
    yield from join.finish()


@pytest.mark.parametrize(
    ("name", "how", "conditional"),
    [
        pytest.param(
            name, how, conditional,
            marks=() if (name, how, conditional) == QUICK else pytest.mark.slow,
        )
        for name in ENRICHING
        for how in HOWS
        for conditional in (False, True)
    ],
)  # fmt: skip
def test_a_larger_stream_is_joined_as_duckdb_says(
    name: str, how: JoinType, conditional: bool, tmp_path: Path
) -> None:
    keys = 20_000
    left, right = stream(keys), master(keys, 1 if name == "cmeshjoin" else 4)
    condition = pc.field("m") > pc.field("n") if conditional else None
    schema = JoinSchema.resolve(left.schema, right.schema, "k", how, condition=condition)
    scratch = SpillArea(tmp_path)
    lay_down(
        right.to_batches(max_chunksize=5000), encoder(schema), schema=schema.stored(Side.RIGHT),
        target=tmp_path / "master", scratch=scratch, memory=MEMORY, version="v0",
    )  # fmt: skip
    scratch.close()
    memory = MemoryAccount(MEMORY)
    join = make_enricher(
        name, schema, master=Master.open(tmp_path / "master"), memory=memory,
        spill=SpillArea(tmp_path),
    )  # fmt: skip
    got = pa.Table.from_batches(
        [schema.materialise(each) for each in results(join, left)], schema.output
    )
    assert memory.peak <= memory.limit
    assert join.metrics.steps > 20
    join.close()
    names = ", ".join(schema.output.names)
    on = "l.k = r.k" + (" AND r.m > l.n" if conditional else "")
    others = "" if not how.emits_pairs else ", r.* EXCLUDE(k)"
    with duckdb.connect() as connection:
        for alias, table in zip(("l", "r", "got"), (left, right, got), strict=True):
            connection.register(alias, table)
        connection.execute(
            f"CREATE TABLE expected AS SELECT l.* {others} FROM l {how.value} JOIN r ON {on}"
        )
        assert len(got) == connection.execute("SELECT count(*) FROM expected").fetchall()[0][0]
        for one, other in (("got", "expected"), ("expected", "got")):
            difference = f"SELECT {names} FROM {one} EXCEPT ALL SELECT {names} FROM {other}"
            assert connection.execute(difference).fetchmany(3) == []
