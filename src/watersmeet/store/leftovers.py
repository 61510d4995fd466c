"""Memory that was freed and that allocators keep: handed back to the system in time.

Two allocators are at work, Arrow's and the C library's, which NumPy uses. After an array of some
megabytes has been freed, the C library keeps up to 64 MB of each thread's heap for later; Arrow's
keeps what other threads have freed. A join of 64 MB held up to 75 MB more because of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

# After so large a part of a cap has passed, as input or as results. Pages that are handed back
# must be cleared again when they are needed, but a join of 2 x 2 M narrow rows in 64 MB took no
# longer for it: 1.3 s of processor time with and without.
_SHARE = 16
# Handing back costs about as much as copying this much, however little there is.
_LEAST = 2 * 2**20


class Leftovers:
    """Counts what passes through one thread, and hands back what has been freed meanwhile."""

    def __init__(self, memory: int) -> None:
        self._every = max(memory // _SHARE, _LEAST)
        self._passed = 0

    def passed(self, nbytes: int) -> None:
        self._passed += nbytes
        if self._passed >= self._every:
            self._passed = 0
            hand_back()

    def behind(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches as they come; what was made of each counts as passed."""
        for batch in batches:
            nbytes = batch.nbytes
            yield batch
            del batch
            self.passed(nbytes)


def hand_back() -> None:
    """Have allocators keep nothing that was freed."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def _find_trim() -> Callable[[int], int] | None:
    """The C library's own function for this, where it has one (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


_trim = _find_trim()
