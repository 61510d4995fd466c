"""Inputs for local joins: small tables, and sources that wait until a test lets them go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

PATIENCE_S = 60
"""Only a bound on how long a broken test hangs."""

SPILLING = "1MB"
"""The least memory there is; `sides(SPILLING_ROWS)` do not fit."""
SPILLING_ROWS = 24_000


def sides(rows: int, *, keys: int | None = None, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """left(k, a) and right(k, b), with some null keys."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, keys or rows, (2, rows))
    null = rng.random((2, rows)) < 0.01
    number = np.arange(rows)
    left = pa.table({"k": pa.array(k[0], mask=null[0]), "a": number})
    right = pa.table({"k": pa.array(k[1], mask=null[1]), "b": number})
    return left, right


def batches(table: pa.Table, rows: int = 1000) -> list[pa.RecordBatch]:
    return list(table.to_batches(max_chunksize=rows))


class Gate:
    """A source that delivers some batches, then waits to be opened before it goes on."""

    def __init__(self, before: list[pa.RecordBatch], after: list[pa.RecordBatch]) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()
        self._before = before
        self._after = after

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        self._opened.set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._before
        self.reached.set()
        assert self._opened.wait(PATIENCE_S), "nobody opened the gate"
        yield from self._after
