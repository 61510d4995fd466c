"""Codes of the rows that a progressive join keeps: what they may still be part of is not over.

A row is kept as long as it owes something, may find a partner, or may have to be reported for
having found none (operators/progressive/purging.py). So what no kept row has is past.
"""

from __future__ import annotations

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.rows.address import Rows
from watersmeet.rows.edges import TakenRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.predicates import Columns
from watersmeet.rows.promises import LAST_CODE, Ranges, intersect, unite
from watersmeet.store.runs import Piece, SpilledRun
from watersmeet.store.spill import IoKind


def kept_codes(
    workspace: ProgressiveWorkspace, side: Side, number: int, among: Ranges, *, read: bool
) -> Ranges:
    """Ranges in which are all codes, of those `among`, that kept rows of a side have under a
    watched predicate. Runs are read only if `read`; otherwise all codes between the first and the
    last of a run count."""
    table = workspace.memory.tables[side]
    keep = workspace.emitter.undecided(side, table.stamps)
    index = np.arange(len(table)) if keep is None else np.flatnonzero(keep)
    codes = _codes(workspace, side, number, table.codes(index), TakenRows(Rows(table, index)))
    found = [_points(codes)]
    for disk in workspace.disk.partitions:
        for run in disk.runs[side]:
            spans = _spans(run, number)
            if read and len(intersect(among, spans)):
                spans = _read(workspace, side, number, run)
            found.append(spans)
    return intersect(among, unite(np.concatenate(found)))


def _codes(
    workspace: ProgressiveWorkspace, side: Side, number: int, codes: Codes, columns: Columns
) -> Codes:
    if number == 0:
        return codes
    return workspace.watching.predicates[number].encoder(side)(columns).codes


def _points(codes: Codes) -> Ranges:
    some = np.unique(codes)
    return np.column_stack([some, some])


def _spans(run: SpilledRun, number: int) -> Ranges:
    """Ranges in which all codes of a run are."""
    if number == 0:
        spans = [(block.first_code, block.last_code) for block in run.blocks]
    else:
        spans = list(run.spans[number - 1 : number]) or [(0, LAST_CODE)]
    return unite(np.array(spans, np.uint64).reshape(-1, 2))


def _read(workspace: ProgressiveWorkspace, side: Side, number: int, run: SpilledRun) -> Ranges:
    read = run.open(IoKind.SCAN)
    emitter = workspace.emitter

    def codes(piece: Piece) -> Codes:
        found = _codes(workspace, side, number, piece.codes, piece.rows)
        keep = emitter.undecided(side, piece.ats)
        return found if keep is None else found[keep]

    return unite(np.concatenate([_points(codes(read(n))) for n in range(run.block_count)]))
