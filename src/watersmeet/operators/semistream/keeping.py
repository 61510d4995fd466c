"""What all ways to keep a cache share: how entries come in, and which go when memory is short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.operators.semistream.cache import ENTRY_BYTES, Cache, Counts
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.rows.address import Index
from watersmeet.store.index import Codes
from watersmeet.store.master.table import MasterRows

Bytes = NDArray[np.floating[Any]]

# How much of the cache is given up at once: to drop some entries, all others are moved.
_GIVEN_UP = 1 / 8


class CacheKeeper:
    """Keeps no cache (MESHJOIN). Others decide what comes in, and what is not worth its memory."""

    def __init__(self, workspace: SemiStreamWorkspace) -> None:
        self._workspace = workspace
        self._memory = workspace.memory
        self._cycle = 0
        """The number of this cycle; those of the papers' scan are counted from 1."""
        self.coming = 0
        """Bytes that are being collected for the cache in this cycle: waiting rows must leave room
        for them, or what was collected would be thrown away."""

    @property
    def _cache(self) -> Cache:
        return self._memory.cache

    def arrived(self, rows: int) -> None:
        """So many stream rows have come."""

    def begin_cycle(self) -> None:
        """The scan begins with the first block."""

    def met(self, read: MasterRows, waiting: Index, blocks: tuple[int, int]) -> None:
        """These master rows have been shown to all rows that wait; `waiting` rows met each."""

    def give_up(self) -> None:
        """Waiting rows need room: evict what costs more than it saves."""

    def give_way(self) -> None:
        """Evict an eighth of the cache, whatever it saves: there is nothing else to give up."""
        cache = self._cache
        nbytes = self._entry_bytes(cache.counts)
        self._evict(np.arange(len(cache)), cache.hits / nbytes, nbytes)

    def forget(self) -> None:
        """Another version of the master table is read from now on. The cache is empty."""

    # ---- for those that keep one ----------------------------------------------------------------

    def _row_bytes(self) -> float:
        """vR: bytes of a master row in the cache, as far as it is known."""
        if len(self._cache.rows):
            return self._cache.mean_row_bytes()
        return max(self._workspace.mean_master_bytes(), self._cache.mean_row_bytes())

    def _stream_bytes(self) -> float:
        """vS: bytes of a waiting row."""
        return self._memory.mean_bytes(0)

    def _entry_bytes(self, rows: Index | NDArray[np.int32]) -> Bytes:
        """What entries with so many rows take."""
        nbytes: Bytes = ENTRY_BYTES + rows * self._row_bytes()
        return nbytes

    def _put(self, codes: Codes, counts: Index, rows: pa.RecordBatch, hits: Counts) -> bool:
        """Add entries, if there is room for them; they may be larger than it seemed."""
        if self._cache.growth(len(codes), rows) > self._memory.room:
            return False
        self._cache.add(codes, counts, rows, hits=hits, born=self._cycle)
        self._workspace.metrics.entries_cached += len(codes)
        return True

    def _evict(self, chosen: Index, benefits: Bytes, nbytes: Bytes) -> None:
        """Of the chosen entries drop those with the least benefit, an eighth of all bytes."""
        if not len(chosen):
            return
        target = max(_GIVEN_UP * float(nbytes.sum()), 1.0)
        if float(nbytes[chosen].sum()) > target:
            chosen = chosen[np.argsort(benefits[chosen], kind="stable")]
            before = np.cumsum(nbytes[chosen]) - nbytes[chosen]
            chosen = chosen[before < target]
        self._drop(chosen)

    def _drop(self, chosen: Index) -> None:
        kept = np.ones(len(self._cache), np.bool_)
        kept[chosen] = False
        self._cache.keep(kept)
        self._workspace.metrics.entries_evicted += len(chosen)


def fitting(benefits: Bytes, nbytes: Bytes, room: float) -> Index:
    """Which of these to take so that they fit, those with most benefit for a byte first."""
    if nbytes.sum() <= room:
        return np.arange(len(nbytes))
    order = np.argsort(-benefits, kind="stable")
    # In order of code again, as their rows are.
    return np.sort(order[np.cumsum(nbytes[order]) <= room])
