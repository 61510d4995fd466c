"""The rows of several sorted runs in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from watersmeet.store.cursor import Cursor
from watersmeet.store.runs import Piece, SpilledRun


def merged_by_code(runs: Sequence[SpilledRun], *, ahead: int) -> Iterator[Piece]:
    """The rows of all runs in order of code, `ahead` rows of each in memory at a time."""
    schema = runs[0].schema
    cursors = [Cursor(run, ahead=ahead) for run in runs]
    while True:
        for cursor in cursors:
            cursor.load()
        bound = min((b for c in cursors if (b := c.bound()) is not None), default=None)
        taken = [piece for cursor in cursors for piece in cursor.take_below(bound)]
        if taken:
            together = Piece.concat(taken, schema)
            yield together.by_code()
        if bound is None:
            return
        if not taken:  # more rows of one code than are loaded at a time
            for cursor in cursors:
                yield from cursor.skip_equal(bound)
