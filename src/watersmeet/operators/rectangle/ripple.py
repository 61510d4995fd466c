"""Block Ripple's step: joins rows in memory with each other and with all spilled rows (3.2.1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.emitter import in_order
from watersmeet.operators.rectangle.memory import StampedRows
from watersmeet.operators.rectangle.workspace import RectangleWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Matches
from watersmeet.store.spill import IoKind


def rescan(workspace: RectangleWorkspace, *, last: bool = False) -> Iterator[Matches]:
    """Complete the rectangle of all rows so far; no row in memory has met any other yet."""
    stage = Stage.CLEANUP if last else Stage.MD
    for side in Side:
        yield from _scan(workspace, side, stage, last=last)
    yield from _join_memory(workspace, stage)
    if last:
        for side, table in zip(Side, workspace.memory.tables, strict=True):
            every = np.arange(len(table))
            yield from workspace.emitter.unmatched(side, table, every, table.stamps)
    workspace.metrics.md_tasks += 1
    workspace.cover(0).complete_corner(*workspace.progress.bounds)
    workspace.progress.joined_partition(0)


def _scan(
    workspace: RectangleWorkspace, side: Side, stage: Stage, *, last: bool
) -> Iterator[Matches]:
    """Read the spilled rows of a side, and find their partners in the other side's memory."""
    others = workspace.memory.tables[side.other]
    if not (len(others) or (last and workspace.schema.how.keeps_unmatched(side))):
        return
    for run in workspace.disk[0][side]:
        read = run.open(IoKind.SCAN)
        for number in range(run.block_count):
            piece = read(number)
            rows = StampedRows(piece.rows, piece.ats, piece.codes)
            sources, at = in_order(side, rows, others), in_order(side, piece.ats, others.stamps)
            for found, asked in others.index.find(piece.codes, workspace.pairs):
                index = in_order(side, asked, found)
                yield from workspace.emitter.pairs(sources, index, at, stage)
            if last:
                every = np.arange(len(piece))
                yield from workspace.emitter.unmatched(side, rows, every, piece.ats)


def _join_memory(workspace: RectangleWorkspace, stage: Stage) -> Iterator[Matches]:
    left, right = workspace.memory.tables
    at, size = (left.stamps, right.stamps), len(workspace.pairs)
    for start in range(0, len(right), size):
        rows = np.arange(start, min(start + size, len(right)))
        for found, asked in left.index.find(right.codes(rows), workspace.pairs):
            yield from workspace.emitter.pairs((left, right), (found, rows[asked]), at, stage)
