"""When is an aggregate over streams looked at? Each time twice as many rows have come."""

from __future__ import annotations

import math
from dataclasses import dataclass

from watersmeet.local.found_pairs import FoundPairs
from watersmeet.operators.rectangle.join import RectangleJoin

FIRST_ROWS = 8192
"""Of both inputs together. An interval from fewer is seldom one to be trusted."""

_GROWTH = 2
# From this share on the rest is read at once.
_LAST_SHARE = 0.45

Sizes = tuple[int | None, int | None]


@dataclass(frozen=True)
class StreamLook:
    """Read until so many rows of both inputs together have come; None: to the end."""

    rows: int | None
    # Whether a look is the last is known when it has been read.
    last: bool = False


class RowCounts:
    """Rows of the two inputs: those that have come, and how many there are, where it is known."""

    def __init__(self, join: RectangleJoin, known: Sizes) -> None:
        self._join = join
        self.known: list[int | None] = list(known)

    @property
    def read(self) -> tuple[int, int]:
        left, right = self._join.metrics.rows_in
        return int(left), int(right)

    @property
    def read_of_both(self) -> int:
        return sum(self.read)

    @property
    def of_both(self) -> int | None:
        left, right = self.known
        return None if left is None or right is None else left + right


class StreamLooks:
    """As long as pairs are sampled; what comes after that is read in one go."""

    def __init__(self, counts: RowCounts, pairs: FoundPairs) -> None:
        self._counts = counts
        self._pairs = pairs

    def next(self) -> StreamLook:
        if not self._pairs.sampling:
            return self.rest()
        rows = self._counts.of_both
        after = max(_GROWTH * self._counts.read_of_both, FIRST_ROWS)
        return StreamLook(None if rows is not None and after > _LAST_SHARE * rows else after)

    def rest(self) -> StreamLook:
        return StreamLook(None)

    @property
    def most(self) -> int:
        rows = self._counts.of_both or _GROWTH * self._counts.read_of_both
        return max(int(math.log(max(rows / FIRST_ROWS, 1), _GROWTH)), 0) + 1

    def share_at(self, share: float) -> float | None:
        rows = self._counts.of_both
        after = float(FIRST_ROWS)
        while rows and after < share * rows:
            after *= _GROWTH
        return after / rows if rows and after <= _LAST_SHARE * rows else None
