"""Which pairs of rows have met, as strips of the plane of row numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import rectangles
from watersmeet.model import Side
from watersmeet.operators.met import Presence
from watersmeet.rows.address import Index

Strips = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Strip(NamedTuple):
    """Left rows numbered up to `stop` (exclusive) have met the right rows low .. high-1.

    A strip begins where the one before it stops.
    """

    stop: int
    low: int
    high: int


class Cover:
    """The union of the rectangles completed so far.

    Each left row has met one range of right rows. If arrivals are joined with the rows in memory
    (`left_departs`, `right_departs`), these are the right rows that were in memory when it came and
    those that came until it left. If rectangles are completed from the corner (0, 0) on
    (`complete_corner`), they are the first right rows, up to some number. So disjoint strips
    describe the rectangles of every algorithm, and a pair has met exactly if it lies in a strip.
    """

    def __init__(self) -> None:
        self.strips: list[Strip] = []
        self._open: list[tuple[int, int]] = [(0, 0)]

    @classmethod
    def complete(cls, numbers: tuple[int, int]) -> Cover:
        """The cover after the first `numbers` rows of both sides have all met and left memory."""
        cover = cls()
        left, right = numbers
        if left:
            cover.strips = [Strip(left, 0, right)]
        cover._open = [(left, right)]
        return cover

    # ---- arrivals that are joined with the rows in memory ---------------------------------------

    def left_departs(self, numbers: tuple[int, int]) -> None:
        """All left rows so far leave memory; `numbers` are how many have arrived of each side."""
        self.strips = self.strips_at(numbers)
        self._open = [(numbers[Side.LEFT], self._open[-1][1])]

    def right_departs(self, numbers: tuple[int, int]) -> None:
        """All right rows so far leave memory, and later left rows do not meet them."""
        left, right = numbers
        if self._open[-1][0] == left:
            self._open.pop()
        self._open.append((left, right))

    def strips_at(self, numbers: tuple[int, int]) -> list[Strip]:
        """All strips, with those of left rows that are in memory as they are now."""
        left, right = numbers
        stops = [*(start for start, _ in self._open[1:]), left]
        return self.strips + [
            Strip(stop, low, right)
            for (start, low), stop in zip(self._open, stops, strict=True)
            if stop > start
        ]

    # ---- corners --------------------------------------------------------------------------------

    def complete_corner(self, left: int, right: int) -> None:
        """The first `left` rows have met the first `right` rows of the other side."""
        below = [strip for strip in self.strips if strip.stop <= left]
        above = [strip for strip in self.strips if strip.stop > left]
        begin, strips = 0, []
        for strip in [*below, Strip(left, 0, above[0].high if above else 0)]:
            if strip.stop > begin:
                strips.append(Strip(strip.stop, 0, max(strip.high, right)))
            begin = strip.stop
        merged: list[Strip] = []
        for strip in strips + above:
            if merged and merged[-1][1:] == strip[1:]:
                merged.pop()
            merged.append(strip)
        self.strips = merged

    def met_by(self, side: Side, rows: int) -> int:
        """A number n such that the first n rows of the other side have met all of the first `rows`
        rows of this side.

        It may be smaller than possible: rows before it just need not be read.
        """
        if any(strip.low for strip in self.strips):
            return 0
        if side is Side.LEFT:
            if not self.strips or self.strips[-1].stop < rows:
                return 0
            starts = [0, *(strip.stop for strip in self.strips)]
            return min(
                (
                    strip.high
                    for strip, start in zip(self.strips, starts, strict=False)
                    if start < rows
                ),
                default=0,
            )
        met = 0
        for strip in self.strips:
            if strip.high < rows:
                break
            met = strip.stop
        return met

    @property
    def corner(self) -> tuple[int, int] | None:
        """(left, right) if just the first `left` rows have met the first `right` rows, or None."""
        if not self.strips:
            return (0, 0)
        stop, low, high = self.strips[0]
        return (stop, high) if len(self.strips) == 1 and low == 0 else None

    def keep_new(self, left: Presence, right: Presence, pairs: tuple[Index, Index]) -> int:
        kept: int = rectangles.drop_covered(
            *self.arrays(), left.arrived, right.arrived, *pairs, len(pairs[0])
        )
        return kept

    def arrays(self) -> Strips:
        """The strips as `kernels.rectangles.drop_covered` needs them."""
        table = np.array(self.strips, np.int64).reshape(-1, 3).T.copy()
        return table[0], table[1], table[2]

    def save(self) -> list[list[list[int]]]:
        return [list(map(list, self.strips)), list(map(list, self._open))]

    @classmethod
    def load(cls, saved: list[list[list[int]]]) -> Cover:
        cover = cls()
        cover.strips = [Strip(*strip) for strip in saved[0]]
        cover._open = [(start, low) for start, low in saved[1]]
        return cover
