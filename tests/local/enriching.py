"""What tests of enrichment in this process share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from tests.local.inputs import Gate, batches, sides
from tests.local.oracle import expected, rows_of

STREAM, MASTER = sides(2_000)
TYPES = ("inner", "left", "semi", "anti")
SOON = 0.01
"""Seconds of silence and between looks: tests wait for events, not for times."""


def enriched(stream: Any = STREAM, master: Any = MASTER, how: str = "inner", **more: Any) -> Any:
    return rows_of(wm.local.enrich(stream, master, "k", how, **more).read_all())


def check_silence(**more: Any) -> None:
    """All rows that have come are answered while no more come, and the others when they do."""
    gate = Gate(batches(STREAM.slice(0, 500)), batches(STREAM.slice(500)))
    run = wm.local.enrich(gate, MASTER, "k", "left", wait_threshold=SOON, **more)
    first = expected(STREAM.slice(0, 500), MASTER, "left")
    found: list[pa.RecordBatch] = []
    while sum(map(len, found)) < first.total():
        found.append(next(run))
    assert rows_of(pa.Table.from_batches(found)) == first
    assert not gate.is_open
    gate.open()
    found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER, "left")


def check_larger(
    stream: pa.Table, master: pa.Table, how: str, *, memory: int, **more: Any
) -> wm.local.LocalEnrich:
    """Enrich with a master that does not fit in memory; returns the run."""
    wide = master.append_column("text", pa.array(["x" * 40] * len(master)))
    run = wm.local.enrich(batches(stream, 500), wide, "k", how, memory=memory, **more)
    found = run.read_all()
    assert rows_of(found.select(range(min(3, found.num_columns)))) == expected(stream, master, how)
    assert run.metrics.blocks_read > 10
    assert run.metrics.memory_peak <= memory
    return run


def version(number: int, rows: int = 1_000) -> pa.Table:
    """A version whose rows say which it is; each has some keys that the others have not."""
    keys = np.arange(rows) * (number + 1) % rows
    return pa.table({"k": keys[: rows // 2], "b": np.full(rows // 2, number)})
