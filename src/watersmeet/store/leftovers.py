"""Hands memory that was freed, and that allocators keep for later, back to the system.

There are two allocators, Arrow's and the C library's, which NumPy uses. After an array of some
megabytes has been freed, the C library keeps up to 64 MB of each thread's heap; Arrow's keeps
memory that other threads have freed. A join of 64 MB held up to 75 MB more because of them.

No call makes the C library hand back the end of another thread's heap. There the last batch of a
reader has been, long after it is joined: with batches of 32 MB, 64 MB of two inputs. So it is told
to keep large arrays out of heaps when the first large batch comes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

# Memory is handed back each time a sixteenth of the limit has passed as input or as results. The
# system must clear the pages again before it gives them out, but a join of 2 x 2 M narrow rows in
# 64 MB took no longer for it: 1.3 s of processor time with and without.
_SHARE = 16
# Not more often than each time this much has passed, since handing back takes about as long as
# copying it.
_LEAST = 2 * 2**20
# What `mallopt` calls the sizes from which on arrays are not part of a heap, and from which on the
# free end of a heap is handed back (malloc.h); the second is twice the first, as the C library has
# it when it chooses them itself.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
LARGE = 4 * 2**20
"""Bytes of an array that joins have the C library keep out of heaps."""
_KEPT = 16 * 2**20


class Leftovers:
    """Counts the bytes that pass through one thread, and hands back freed memory now and then."""

    def __init__(self, memory: int) -> None:
        self._every = max(memory // _SHARE, _LEAST)
        self._passed = 0

    def passed(self, nbytes: int) -> None:
        self._passed += nbytes
        if self._passed >= self._every:
            self._passed = 0
            hand_back()

    def behind(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; each counts as passed when the next one is asked for."""
        for batch in batches:
            nbytes = batch.nbytes
            yield batch
            del batch
            self.passed(nbytes)


def hand_back() -> None:
    """Let both allocators hand back all memory that was freed."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def hand_back_large_arrays_at_once() -> None:
    """From now on the C library hands arrays of some megabytes back when they are freed, in this
    whole process. It does so at first, and stops when it sees that they come again."""
    _set_thresholds(LARGE)


def keep_a_little() -> None:
    """Let the C library keep a few megabytes that were freed, for arrays of the same size that
    come soon. By itself it hands back whatever is more than twice the largest array so far: of an
    aggregate over six million rows, the system cleared a seventh of the time pages that had been
    in use a moment before. For who may use much memory; it holds for the whole process."""
    _set_thresholds(_KEPT // 2)


def _set_thresholds(large: int) -> None:
    """Of what sizes arrays are handed back, each by itself; and at once."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_MMAP_THRESHOLD, large)
        option(_TRIM_THRESHOLD, 2 * large)


def _find_trim() -> Callable[[int], int] | None:
    """The C library's function that hands back memory, if it has one (glibc has)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


_trim = _find_trim()
