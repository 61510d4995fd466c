"""From what a step on disk has found to result rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.operators.emitter import ResultEmitter, in_order
from watersmeet.operators.progressive.merging import Found
from watersmeet.operators.progressive.tasks import FoundInMemory, Step
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Matches


def report(
    emitter: ResultEmitter, step: Step, stage: Stage, *, last: bool = False
) -> Iterator[Matches]:
    """Emit the pairs that one step on disk has found.

    With `last` (clean-up) also the rows without a partner: a row that has `Passed` has by then
    been compared with every row of the other side.
    """
    for found in step:
        if isinstance(found, Found):
            left, right = found.left, found.right
            index = (found.left_index, found.right_index)
            sources, stamps = (left.source, right.source), (left.ats, right.ats)
            yield from emitter.pairs(sources, index, stamps, stage)
        elif isinstance(found, FoundInMemory):
            table, piece = found.table, found.piece
            yield from emitter.pairs(
                in_order(found.side, table, piece.source),
                in_order(found.side, found.table_index, found.piece_index),
                in_order(found.side, table.stamps, piece.ats),
                stage,
            )
        elif last:
            piece = found.piece
            every = np.arange(len(piece))
            yield from emitter.unmatched(found.side, piece.source, every, piece.ats)
