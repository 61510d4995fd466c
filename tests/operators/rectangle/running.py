"""A rectangle join fed by turns, and what it has reported when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.operators.making import make_rectangle
from watersmeet.model import Side
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import Io, SpillArea

SCHEMAS = [pa.schema({"key": pa.int64(), name: pa.int64()}) for name in ("left", "right")]
Keys = tuple[NDArray[np.int64], NDArray[np.int64]]


def batch(side: Side, keys: Iterable[int | None], first: int = 0) -> pa.RecordBatch:
    known = pa.array(keys, pa.int64())
    numbers = pa.array(range(first, first + len(known)), pa.int64())
    return pa.record_batch([known, numbers], schema=SCHEMAS[side])


class Watched:
    """A join with its I/O counted in rows."""

    def __init__(
        self, name: str, directory: Path, tuning: Tuning, *, how: str = "inner", **more: Any
    ) -> None:
        self.io: Counter[str] = Counter()
        self.schema = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", how)
        settings = {"memory": MemoryAccount(64 * 2**20), "clock": lambda: 0.0} | more
        spill = SpillArea(directory, observe=self._observe)
        self.join: RectangleJoin = make_rectangle(
            name, self.schema, spill=spill, tuning=tuning, **settings
        )

    def _observe(self, io: Io) -> None:
        self.io["written" if io.kind == "flush" else "read"] += io.rows

    def pushes(self, keys: Keys, *, each: int) -> Iterator[Iterator[Matches]]:
        """One push after the other, the sides in turn; each is to be drained before the next."""
        for start in range(0, max(map(len, keys)), each):
            for side in Side:
                rows = keys[side][start : start + each]
                if len(rows):
                    yield self.join.push(side, batch(side, rows, start))

    def finish(self) -> Iterator[Matches]:
        for side in Side:
            yield from self.join.end(side)
        yield from self.join.finish()

    def run(self, keys: Keys, *, each: int = 100) -> int:
        """All of it; how many results there were before the end."""
        early = sum(len(m) for found in self.pushes(keys, each=each) for m in found)
        for _ in self.finish():
            pass
        return early
