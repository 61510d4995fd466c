"""Arrays that grow without moving, and give memory back at once when they shrink."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from watersmeet.errors import MemoryTooSmall

# Linux has had this flag since 2.4; Python's mmap module does not name it.
_NORESERVE = 0x4000
HUGE_PAGE = 2**21

# Memory behind the last item that is kept: whoever drops some rows with every batch and adds others
# would otherwise wait for the system to clear the same pages again and again. That was a fifth of
# the time of a join that is purged after every batch (bench: news).
_SPARE_BYTES = 2**16
_SPARE_SHARE = 1 / 16


class Arena:
    """Address space for an array of at most `size` items, backed by memory where it is touched.

    So an array can grow without being copied, which would take twice its memory for a moment.
    `release` hands pages behind the last item back to the system, so that resident memory is that
    of the items in use and a little more: the rest of a large page, or some small ones.
    """

    def __init__(self, size: int, dtype: DTypeLike, *, huge: bool | None = None) -> None:
        """`huge` says whether to use large pages; if it is None, the size decides."""
        self._item = np.dtype(dtype).itemsize
        nbytes = max(size * self._item, mmap.PAGESIZE)
        nbytes += -nbytes % mmap.PAGESIZE
        try:
            self._map = mmap.mmap(
                -1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
            )
        except (OSError, ValueError, OverflowError) as error:
            raise MemoryTooSmall(
                f"The system refused {nbytes:,} bytes of address space ({error}).",
                remedy="Give the join less memory, or raise the limit (ulimit -v).",
            ) from error
        self._huge = nbytes >= 8 * HUGE_PAGE if huge is None else huge
        if self._huge:
            # Random access into large tables misses the TLB on nearly every row otherwise.
            # Small ones stay on small pages: a huge page per column would break a small cap.
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self.array: NDArray[Any] = np.frombuffer(self._map, dtype, count=size if size else 0)
        self._spare = int(min(_SPARE_BYTES, _SPARE_SHARE * nbytes))
        self._before = int(self.array.ctypes.data) % HUGE_PAGE if self._huge else 0
        """Bytes of the first large page that lie before the first item."""
        self._touched = 0
        """No byte from here on is in memory, but for items that came since the last release."""

    def release(self, start: int, *, used: int | None = None) -> None:
        """Drop the items from `start` on, and hand back their memory but for a little of it.

        `used` is how many items there have been at most since the last call, if that is known: the
        system is not asked for memory that was never touched."""
        first = start * self._item
        if self._huge:  # whole pages only: what is left of one is small pages from then on
            first = max(first, 1)  # and the first one stays, however few items are left
            first += -(self._before + first) % HUGE_PAGE
        else:
            first += self._spare
            first += -first % mmap.PAGESIZE
        self._touched = max(self._touched, len(self._map) if used is None else used * self._item)
        if first < self._touched:
            self._map.madvise(mmap.MADV_DONTNEED, first, len(self._map) - first)
            self._touched = first
