"""Puts small batches together, because every batch costs a Python step."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def rebatched(
    batches: Iterator[pa.RecordBatch], rows: int, nbytes: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of at least `rows`, or if rows turn out to be
    long, of at least `nbytes`; but for the last."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        size += batch.nbytes
        if count >= rows or (nbytes is not None and size >= nbytes):
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, count, size = [], 0, 0
    if count:
        yield pa.concat_batches(waiting)


def gathered(batches: Iterator[pa.RecordBatch], nbytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of at most so many bytes, or as large as they
    came."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if waiting and size + batch.nbytes > nbytes:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
