"""The rows of several master tables in one order of code, a portion at a time.

All that is needed to plan the portions is in the indexes of blocks. A portion is all rows with
codes in a range, chosen such that the blocks of all tables that have such codes fit in the memory
for it. The blocks at both ends of a range are read for two portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.kernels import sorting
from watersmeet.rows.address import Index
from watersmeet.rows.encoded import Codes
from watersmeet.store.master.blocks import BlockPlaces
from watersmeet.store.master.table import Master, MasterRows


class Portion(NamedTuple):
    """The rows whose codes are from `low` to before `high`, or to the largest if that is None.

    `alone`: all have one code, and there may be more of them than fit in memory.
    """

    low: int
    high: int | None
    alone: bool = False


class Ordered(NamedTuple):
    """Rows with their codes in order, and where among the rows each of these is; None: there."""

    codes: Codes
    rows: pa.RecordBatch
    order: Index | None


def merged(tables: Sequence[Master], *, nbytes: int) -> Iterator[Ordered]:
    """The rows of all tables in order of code, with about `nbytes` of blocks loaded at a time."""
    for portion in portions([table.places for table in tables], nbytes=nbytes):
        if portion.alone:
            for table in tables:
                yield from _of_one_code(table, portion.low)
        elif batches := [batch for table in tables for batch in _within(table, portion)]:
            yield in_order(batches)


def in_order(batches: list[pa.RecordBatch]) -> Ordered:
    """Rows with their codes as the first column, in order of code. Empties the list, since the
    rows are copied."""
    together = MasterRows.of(pa.concat_batches(batches) if len(batches) > 1 else batches[0])
    batches.clear()
    codes, order = sorting.sort(together.codes)
    return Ordered(codes, together.rows, order.astype(np.int64))


def portions(tables: Sequence[BlockPlaces], *, nbytes: int) -> Iterator[Portion]:
    """Ranges of codes that have all rows together, each with blocks of at most `nbytes`, if a
    block of each table takes no more than half of that."""
    first = np.concatenate([table.first for table in tables])
    last = np.concatenate([table.last for table in tables])
    lengths = np.concatenate([table.lengths for table in tables])
    if not len(first):
        return
    starts = np.argsort(first, kind="stable")
    first, begun = first[starts], np.append(0, np.cumsum(lengths[starts]))
    stops = np.argsort(last, kind="stable")
    last, ended = last[stops], np.append(0, np.cumsum(lengths[stops]))
    low = int(first[0])
    while True:
        # With the first code of a block as the end of the range, blocks that begin below it are
        # loaded, but for those that end before the range begins.
        done = ended[np.searchsorted(last, np.uint64(low))]
        if begun[-1] - done <= nbytes:
            yield Portion(low, None)
            return
        later = int(np.searchsorted(first, np.uint64(low), side="right"))
        most = int(np.searchsorted(begun, done + nbytes, side="right")) - 1
        high = int(first[most])
        if high <= low:
            if _bytes_of_code(tables, low) > nbytes // 2:
                yield Portion(low, low + 1, alone=True)
                if low + 1 > int(last[-1]):
                    return
                low += 1
                continue
            if later == len(first):
                yield Portion(low, None)
                return
            high = int(first[later])
        yield Portion(low, high)
        low = high


def _bytes_of_code(tables: Sequence[BlockPlaces], code: int) -> int:
    """Bytes of the blocks that have no other code."""
    return sum(
        int(table.lengths[(table.first == code) & (table.last == code)].sum()) for table in tables
    )


def _within(table: Master, portion: Portion) -> Iterator[pa.RecordBatch]:
    low = np.uint64(portion.low)
    start = int(np.searchsorted(table.last, low))
    stop = len(table)
    if portion.high is not None:
        stop = int(np.searchsorted(table.first, np.uint64(portion.high)))
    if start >= stop:
        return
    blocks = table.read_blocks(start, stop)
    blocks[0] = _cut(blocks[0], portion)
    blocks[-1] = _cut(blocks[-1], portion)
    yield from blocks


def _cut(block: pa.RecordBatch, portion: Portion) -> pa.RecordBatch:
    codes = block.column(0).to_numpy()
    start, stop = int(np.searchsorted(codes, np.uint64(portion.low))), len(codes)
    if portion.high is not None:
        stop = int(np.searchsorted(codes, np.uint64(portion.high)))
    return block.slice(start, stop - start)


def _of_one_code(table: Master, code: int) -> Iterator[Ordered]:
    """All rows of a table with this code, a block at a time."""
    start = int(np.searchsorted(table.last, np.uint64(code)))
    stop = int(np.searchsorted(table.first, np.uint64(code), side="right"))
    for block in range(start, stop):
        (batch,) = table.read_blocks(block, block + 1)
        codes = batch.column(0).to_numpy()
        low = int(np.searchsorted(codes, np.uint64(code)))
        high = int(np.searchsorted(codes, np.uint64(code), side="right"))
        if high > low:
            found = MasterRows.of(batch.slice(low, high - low))
            yield Ordered(found.codes, found.rows, None)
