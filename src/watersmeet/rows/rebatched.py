"""Puts small batches together, because every batch costs a Python step."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def rebatched(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of at least `rows` but for the last."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= rows:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, count = [], 0
    if count:
        yield pa.concat_batches(waiting)
