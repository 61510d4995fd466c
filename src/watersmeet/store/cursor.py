"""A position in a sorted run, for merges that read several runs together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from watersmeet.store.runs import Piece, Run
from watersmeet.store.spill import IoKind


class Cursor:
    """A position in a run, with some blocks loaded ahead of it."""

    def __init__(self, run: Run, *, ahead: int) -> None:
        self._run = run
        self._ahead = ahead
        self._read = run.open(IoKind.MERGE_READ)
        self._next = 0
        self._pieces: deque[Piece] = deque()
        self._passed = 0
        """Rows of the first of these that the position is past."""
        self._loaded = 0

    @property
    def unopened(self) -> bool:
        return self._next == 0 and self._run.block_count > 0

    def load(self) -> None:
        """Read blocks until at least `ahead` rows are loaded, or the run ends."""
        while self._loaded < self._ahead and self._next < self._run.block_count:
            piece = self._read(self._next)
            self._next += 1
            self._pieces.append(piece)
            self._loaded += len(piece)

    def bound(self) -> int | None:
        """The code below which all rows of the run have been loaded; None if the whole run has."""
        if self._next == self._run.block_count:
            return None
        return int(self._pieces[-1].codes[-1])

    def take_below(self, bound: int | None) -> list[Piece]:
        """Remove and return the loaded rows with a code below `bound`, or all if it is None."""
        taken = []
        while self._pieces:
            piece, start = self._pieces[0], self._passed
            rows = piece.codes.size
            if bound is None or piece.codes[-1] < bound:
                taken.append(piece.slice(start, rows) if start else piece)
                self._pieces.popleft()
                self._loaded -= rows - start
                self._passed = 0
                continue
            stop = int(piece.codes.searchsorted(np.uint64(bound)))
            if stop > start:
                taken.append(piece.slice(start, stop))
                self._loaded -= stop - start
                self._passed = stop
            break
        return taken

    def _cut(self) -> None:
        """Cut off the rows that the position is past."""
        if self._passed:
            piece = self._pieces[0]
            self._pieces[0] = piece.slice(self._passed, len(piece))
            self._passed = 0

    def equal_to(self, code: int) -> Iterator[Piece]:
        """All rows from here on with this code, without moving. They may span many blocks."""
        self._cut()
        for piece in tuple(self._pieces):
            if not (equal := _leading(piece, code)):
                return
            yield piece.slice(0, equal)
        read: Callable[[int], Piece] | None = None
        for number in range(self._next, self._run.block_count):
            read = read or self._run.open(IoKind.MERGE_READ)
            piece = read(number)
            if not (equal := _leading(piece, code)):
                return
            yield piece.slice(0, equal)

    def skip_equal(self, code: int) -> Iterator[Piece]:
        """The rows of `equal_to`, moving past them."""
        self._cut()
        while True:
            self.load()
            if not self._pieces or not (equal := _leading(self._pieces[0], code)):
                return
            piece = self._pieces.popleft()
            if equal < len(piece):
                self._pieces.appendleft(piece.slice(equal, len(piece)))
            self._loaded -= equal
            yield piece.slice(0, equal)


def _leading(piece: Piece, code: int) -> int:
    """How many rows at the start of a piece have this code; no row has a smaller one."""
    return int(np.searchsorted(piece.codes, np.uint64(code), side="right"))
