"""Which rows have found a partner: one bit a row, by arrival stamp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import matching

_FEWEST_BYTES = 1024


class Marks:
    """Bits that outer, semi and anti joins need until the end, even of rows long on disk."""

    def __init__(self) -> None:
        self.bits = np.zeros(_FEWEST_BYTES, np.uint8)

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes

    def cover(self, stamp: int) -> None:
        """Have a bit for every stamp below this one."""
        size = self.bits.size
        while size * 8 < stamp:
            size += size // 2  # less than doubling: the old bits stay until the new are filled
        if size > self.bits.size:
            grown = np.zeros(size, np.uint8)
            grown[: self.bits.size] = self.bits
            self.bits = grown

    def mark(self, stamps: NDArray[np.int64]) -> None:
        matching.mark(self.bits, stamps)

    def mark_new(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark, and tell which had no mark before."""
        fresh = np.empty(stamps.size, np.bool_)
        matching.mark_new(self.bits, stamps, fresh)
        return fresh

    def unmarked(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        fresh = np.empty(stamps.size, np.bool_)
        matching.unmarked(self.bits, stamps, fresh)
        return fresh
