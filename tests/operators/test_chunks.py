"""Chunks of results fit the memory there is for them, however long the rows are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.operators.inputs import COSTS
from tests.operators.making import make_progressive
from watersmeet.model import Side
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea

MEMORY = 4 * 2**20
LENGTH = 20_000
ROWS = 250


def inputs(lengths: list[int]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    keys = [n % 10 for n in range(len(lengths))]
    texts = ["x" * length for length in lengths]
    left, right = ({"key": keys, name: texts} for name in ("left", "right"))
    return pa.record_batch(left), pa.record_batch(right)


def run(
    join: ProgressiveJoin, batches: tuple[pa.RecordBatch, ...], *, each: int = 10
) -> Iterator[Matches]:
    for start in range(0, len(batches[0]), each):
        for side in Side:
            yield from join.push(side, batches[side].slice(start, each))
    yield from join.idle(iter([False] * 60 + [True]).__next__)
    for side in Side:
        yield from join.end(side)
    yield from join.finish()


@pytest.mark.parametrize(
    "name",
    ["hmj", "rpj", *(pytest.param(n, marks=pytest.mark.slow) for n in ("xjoin", "pmj", "rpj-dd"))],
)
@pytest.mark.parametrize(
    "lengths",
    [[LENGTH] * ROWS, [LENGTH if n % 5 == 2 else 10 for n in range(ROWS)]],
    ids=["long rows", "some long rows"],
)
def test_a_chunk_of_long_rows_fits_its_share_of_memory(
    name: str, lengths: list[int], tmp_path: Path
) -> None:
    batches = inputs(lengths)
    schema = JoinSchema.resolve(batches[0].schema, batches[1].schema, "key", "inner")
    account, spill = MemoryAccount(MEMORY), SpillArea(tmp_path)
    join = make_progressive(name, schema, memory=account, spill=spill, tuning=Tuning(costs=COSTS))
    results = largest = 0
    for matches in run(join, batches):
        rows = schema.materialise(matches)
        results, largest = results + len(rows), max(largest, rows.nbytes)
    join.close()
    assert results == ROWS * ROWS // 10
    assert largest <= MemoryShares.split(MEMORY).work
    assert account.peak <= account.limit


@pytest.mark.parametrize("how", ["inner", "full", "semi", "anti"])
@pytest.mark.parametrize("every", [50])
def test_few_long_rows_that_meet_each_other_fit_too(every: int, how: str, tmp_path: Path) -> None:
    """On average rows are short, and the long ones have one key."""
    rows = 4_000
    numbers = [0 if n % every == 0 else n for n in range(rows)]
    texts = ["x" * LENGTH if n == 0 else "short" for n in numbers]
    columns = {"key": pa.array(numbers), "text": pa.array(texts)}
    batches = pa.record_batch(columns), pa.record_batch(columns)
    schema = JoinSchema.resolve(batches[0].schema, batches[1].schema, "key", how)
    account, spill = MemoryAccount(MEMORY), SpillArea(tmp_path)
    join = make_progressive("rpj", schema, memory=account, spill=spill, tuning=Tuning(costs=COSTS))
    largest = results = 0
    for matches in run(join, batches, each=100):
        result = schema.materialise(matches)
        results, largest = results + len(result), max(largest, result.nbytes)
    join.close()
    long = rows // every
    assert results == {"semi": rows, "anti": 0}.get(how, long * long + rows - long)
    assert largest <= MemoryShares.split(MEMORY).work


def test_short_rows_have_large_chunks_again_after_long_ones(tmp_path: Path) -> None:
    batches = inputs([LENGTH] * 40)
    schema = JoinSchema.resolve(batches[0].schema, batches[1].schema, "key", "inner")
    join = make_progressive(
        "hmj-all",  # a flush empties memory, so the long ones leave it
        schema,
        memory=MemoryAccount(MEMORY),
        spill=SpillArea(tmp_path),
        tuning=Tuning(costs=COSTS, chunk_rows=500),
    )
    for side in Side:
        for _ in join.push(side, batches[side]):
            pass
    assert len(join.workspace.pairs) < 50
    short = pa.record_batch({"key": range(100, 60_100), "left": ["x"] * 60_000})
    for _ in join.push(Side.LEFT, short):
        pass
    assert join.metrics.rows_spilled > 0
    assert len(join.workspace.pairs) == 500
    join.close()
