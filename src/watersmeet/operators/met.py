"""Who has met whom: one question, and a proof for each mechanism that it is answered rightly.

A pair of rows must be reported by the first step that brings the two together, and by no later
one. How that is known differs:

History (operators/progressive/history.py)  from when rows came and left memory, and what tasks read
Cover (operators/rectangle/cover.py)        from the numbers of rows, of which rectangles are done
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.store.runs import Piece

Stamps = NDArray[np.int64]


class Presence(NamedTuple):
    """When rows came and left, and their codes, by position in their source."""

    arrived: Stamps
    departed: Stamps | None
    """None if all of them are in memory still."""
    codes: NDArray[np.uint64] | None
    """None where the other side's are to be taken: those of a pair are equal."""


def presence_of(piece: Piece) -> Presence:
    return Presence(piece.ats, piece.dts, piece.codes)


class Met(Protocol):
    """What has been joined so far."""

    def keep_new(self, left: Presence, right: Presence, pairs: tuple[Index, Index]) -> int:
        """Of these pairs of positions keep, in front, those that have not met; how many."""
        ...
