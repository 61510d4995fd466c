"""A join of two numbered inputs, small enough in memory that it must spill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.operators.making import make_progressive
from watersmeet.model import Side
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

SCHEMAS = [pa.schema({"key": pa.int64(), name: pa.int64()}) for name in ("left", "right")]
SCHEMA = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", "inner")
COSTS = Costs(random=0.01, sequential=0.001)
BLOCK_BYTES = 400


def batch(side: Side, keys: Iterable[int], first: int = 0) -> pa.RecordBatch:
    known = np.fromiter(keys, np.int64)
    numbers = np.arange(first, first + len(known))
    return pa.record_batch([known, numbers], schema=SCHEMAS[side])


def make(name: str, directory: Path, tuning: Tuning, *, memory: int = 2**20) -> ProgressiveJoin:
    """An operator with blocks of a few rows, so that runs have many of them."""
    join = make_progressive(
        name,
        SCHEMA,
        memory=MemoryAccount(memory),
        spill=SpillArea(directory),
        clock=lambda: 0.0,
        tuning=tuning,
    )
    join.workspace.block_bytes = BLOCK_BYTES
    return join


def numbered(matches: Iterable[Matches]) -> Counter[tuple[int, int]]:
    """Result rows as pairs of row numbers."""
    found: Counter[tuple[int, int]] = Counter()
    for each in matches:
        rows = SCHEMA.materialise(each)
        left, right = (rows.column(name).to_pylist() for name in ("left", "right"))
        found.update(zip(left, right, strict=True))
    return found
