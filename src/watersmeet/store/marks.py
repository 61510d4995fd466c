"""Which rows have found a partner: one bit a row, by arrival stamp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import matching

_FEWEST_BYTES = 1024


class Marks:
    """Bits that outer, semi and anti joins need of every row in memory and on disk.

    There is a bit for every stamp from `base` on. Rows with an earlier stamp have been dropped:
    they count as marked, and cannot be marked.
    """

    def __init__(self) -> None:
        self.base = 0
        self.bits = np.zeros(_FEWEST_BYTES, np.uint8)

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes

    def cover(self, stamp: int) -> None:
        """Have a bit for every stamp from `base` on and below this one."""
        size = self.bits.size
        while size * 8 < stamp - self.base:
            size += size // 2  # less than doubling: the old bits stay until the new are filled
        if size > self.bits.size:
            self._move(0, size)

    def forget(self, oldest: int) -> None:
        """Give up the bits of rows that came before this stamp: all of them have been dropped."""
        if oldest <= self.base:
            return
        gone, rest = divmod(oldest - self.base, 8)
        if not self.bits[gone + 1 :].any() and not (self.bits[gone : gone + 1] >> rest).any():
            # No row from `oldest` on has a mark, but all that had a bit may get one still.
            self.bits = np.zeros(max(self.bits.size - gone, _FEWEST_BYTES), np.uint8)
            self.base = oldest
        elif gone >= self.bits.size // 2:  # copying the others costs less than it frees
            self._move(gone, max(self.bits.size - gone, _FEWEST_BYTES))
            self.base += 8 * gone

    def mark(self, stamps: NDArray[np.int64]) -> None:
        self._cover_all(stamps)
        matching.mark(self.bits, self.base, stamps)

    def mark_new(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark, and tell which had no mark before."""
        fresh = np.empty(stamps.size, np.bool_)
        self._cover_all(stamps)
        matching.mark_new(self.bits, self.base, stamps, fresh)
        return fresh

    def unmarked(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        fresh = np.empty(stamps.size, np.bool_)
        matching.unmarked(self.bits, self.base, stamps, fresh)
        return fresh

    def to_save(self) -> NDArray[np.uint8]:
        """The bits up to the last mark; all after it are 0."""
        marked = np.flatnonzero(self.bits)
        return self.bits[: int(marked[-1]) + 1 if len(marked) else 0]

    @classmethod
    def load(cls, base: int, bits: NDArray[np.uint8]) -> Marks:
        marks = cls()
        marks.base = base
        marks.bits = np.zeros(max(len(bits), _FEWEST_BYTES), np.uint8)
        marks.bits[: len(bits)] = bits
        return marks

    def _cover_all(self, stamps: NDArray[np.int64]) -> None:
        """Have a bit for each of these: kernels would write outside of the array. Saved marks end
        with the last row that had one, and rows behind it wait."""
        first, last = matching.extent(stamps)
        assert first >= self.base, "a row is marked that counts as dropped"
        self.cover(last + 1)

    def _move(self, first: int, size: int) -> None:
        """Go on with the bytes from `first` on, in an array of this size."""
        moved = np.zeros(size, np.uint8)
        kept = self.bits[first:]
        moved[: len(kept)] = kept
        self.bits = moved
