"""Runs made by hand: rows whose hash, number and stay in memory are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from watersmeet.operators.progressive.merging import Found
from watersmeet.store.runs import Piece, RunWriter, SpilledRun, stamped
from watersmeet.store.spill import IoKind, SpillArea

ROWS = pa.schema({"number": pa.int64()})

Row = tuple[int, int]
"""The number of a row, and its hash."""


def spilled(
    area: SpillArea, rows: Iterable[Row], *, stay: tuple[int, int], block_rows: int = 2
) -> SpilledRun:
    """A run of rows that arrived and left together, in order of hash."""
    in_order = sorted(rows, key=lambda row: row[1])
    columns = {
        "__code": [code for _, code in in_order],
        "__ats": [stay[0]] * len(in_order),
        "__dts": [stay[1]] * len(in_order),
        "number": [number for number, _ in in_order],
    }
    writer = RunWriter(area, ROWS, IoKind.FLUSH, block_rows=block_rows)
    writer.append(Piece(pa.RecordBatch.from_pydict(columns, schema=stamped(ROWS))))
    run = writer.cut((stay[1], stay[1]))
    writer.close()
    return run


def pairs(steps: Iterable[object]) -> Iterator[tuple[int, int]]:
    """The numbers of the rows that a step has found to be pairs."""
    for found in steps:
        if isinstance(found, Found):
            left, right = (piece.rows.column(0) for piece in (found.left, found.right))
            for i, j in zip(found.left_index, found.right_index, strict=True):
                yield left[int(i)].as_py(), right[int(j)].as_py()


def numbers(run: SpilledRun) -> list[int]:
    """The rows of a run, in the order they are in."""
    read = run.open(IoKind.SCAN)
    return [n for block in range(run.block_count) for n in read(block).rows.column(0).to_pylist()]
