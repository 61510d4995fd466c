"""Which pairs of rows have met: the question that every mechanism answers in its own way.

A pair of rows must be reported by the first step that compares the two, and by no later one. Each
of these classes knows which pairs have met, and proves it in its docstring:

History (operators/progressive/history.py)  from the stamps of rows, and from what tasks have read
Cover (operators/rectangle/cover.py)        from the numbers of rows, and the rectangles completed
NestedLoop (operators/regions/loops.py)     from the numbers of blocks, and the stamps of rows
TreeLoop (operators/tree/loops.py)          the same, for combinations of rows of many inputs
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.store.runs import Piece

Stamps = NDArray[np.int64]


class Presence(NamedTuple):
    """Arrival stamps, departure stamps and codes of rows, by position in their source."""

    arrived: Stamps
    departed: Stamps | None
    """None if all rows are still in memory."""
    codes: NDArray[np.uint64] | None
    """None if the other side's codes can be used, since those of a pair are equal."""


def presence_of(piece: Piece) -> Presence:
    return Presence(piece.ats, piece.dts, piece.codes)


class Met(Protocol):
    """Knows which pairs of rows have met."""

    def keep_new(self, left: Presence, right: Presence, pairs: tuple[Index, Index]) -> int:
        """Move the pairs of positions that have not met to the front of both arrays; returns how
        many they are."""
        ...
