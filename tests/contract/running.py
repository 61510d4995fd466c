"""Two tables through an operator, in small batches with stalls between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Maker, Pause, Resources

SPILLING = Tuning(
    partitions=3,
    fan_in=2,
    chunk_rows=100,
    memory_rows=48,
    costs=Costs(random=0.01, sequential=0.001),
)


def spilling(name: str) -> PublishedJoin:
    """An algorithm with memory for few of the rows, and many blocks to a run."""
    return PublishedJoin(name, SPILLING, block_bytes=300)


def run(
    maker: Maker,
    schema: JoinSchema,
    inputs: tuple[pa.Table, pa.Table],
    *,
    directory: Path,
    batch_rows: int = 17,
) -> list[pa.RecordBatch]:
    """All result batches. The batches pushed are slices, so their arrays begin in the middle."""
    memory = MemoryAccount(max(2**20, maker.least_memory))
    operator = maker.make(schema, Resources(memory, SpillArea(directory)))
    output = [schema.materialise(m) for m in _matches(operator, inputs, batch_rows)]
    assert maker.least_memory or operator.metrics.flush_count, "nothing was spilled"
    operator.close()
    assert not list(directory.iterdir())
    return output


def _matches(
    operator: JoinOperator, inputs: tuple[pa.Table, pa.Table], batch_rows: int
) -> Iterator[Matches]:
    left, right = (table.combine_chunks().to_batches() for table in inputs)
    for start in range(0, max(map(len, inputs)), batch_rows):
        for side, batches in zip(Side, (left, right), strict=True):
            for batch in batches:
                yield from operator.push(side, batch.slice(start, batch_rows))
        yield from operator.idle(Pause(start % 4))
    for side in Side:
        yield from operator.end(side)
    yield from operator.finish()
