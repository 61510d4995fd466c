"""How the skipping scan fills the cache, and what leaves it when memory is full.

While memory is free, everything that is asked for is cached. Once waiting rows have needed the
room, values are cached only if that costs less memory than having their stream rows wait.

The inequality is the paper's with n / 2 for n: the scan comes by a code once in a cycle, and a row
that arrives at any time waits half a cycle on average, where the paper's waits a whole one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.semistream.cache import spread
from watersmeet.operators.semistream.keeping import CacheKeeper, fitting
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.policies.caching import costs_less_cached
from watersmeet.rows.address import Index
from watersmeet.rows.values import rows_at
from watersmeet.store.index import Codes

# How long a row waits, as a part of a cycle.
_WAITS = 0.5
# What the cache leaves free for waiting rows while nobody needs the room.
_LEFT_FREE = 1 / 8
# Memory counts as free again when so many cycles have passed in which nothing had to make room.
_QUIET_CYCLES = 2
# What waiting rows leave free for values to come, when memory is full: as much as was worth to be
# cached since they last made room, within these limits.
_LEAST_KEPT_FREE = 1 / 256
_MOST_KEPT_FREE = 1 / 16


class AdaptiveCaching(CacheKeeper):
    """Decides by frequency: hits of entries and stream rows are counted, and halved every cycle."""

    def __init__(self, workspace: SemiStreamWorkspace) -> None:
        super().__init__(workspace)
        self._seen = 0.0
        """Stream rows during the time for which the entries' hits are counted."""
        self._rows_of_cycle = 0
        """Stream rows since the present cycle began."""
        self._rows_of_last = 0
        self._pressed_in: int | None = None
        """The cycle in which waiting rows last needed the room."""
        self._wanted = 0.0
        """Bytes of the values that were worth to be cached since then, with room or without."""

    @property
    def pressed(self) -> bool:
        """Whether memory is full, so that only values are cached that are worth it."""
        last = self._pressed_in
        return last is not None and self._cycle - last <= _QUIET_CYCLES

    def arrived(self, rows: int) -> None:
        self._seen += rows
        self._rows_of_cycle += rows

    def begin_cycle(self) -> None:
        self._cycle += 1
        self._rows_of_last, self._rows_of_cycle = self._rows_of_cycle, 0
        self._seen /= 2
        hits = self._cache.hits
        np.right_shift(hits, 1, out=hits)

    # ---- what comes in --------------------------------------------------------------------------

    def admit(
        self, codes: Codes, waiting: Index, starts: Index, counts: Index, rows: pa.RecordBatch
    ) -> None:
        """Cache some of these codes. `waiting` stream rows of each have just met all of its master
        rows, which are `counts` of `rows` from `starts` on."""
        # A code may be there: rows of it that came just before it was cached have waited, too.
        new = np.flatnonzero(self._cache.find(codes) < 0)
        nbytes = self._entry_bytes(counts[new])
        room = float(self._memory.room)
        if self.pressed:
            expected = _WAITS * waiting[new]
            worth = costs_less_cached(expected, nbytes, row_bytes=self._stream_bytes())
            new, nbytes = new[worth], nbytes[worth]
            self._wanted += float(nbytes.sum())
        else:
            room -= _LEFT_FREE * self._memory.capacity
        new = new[fitting(waiting[new] / nbytes, nbytes, room)]
        if not len(new):
            return
        taken = rows_at(rows, spread(starts[new], counts[new]))
        hits = np.minimum(waiting[new] * self._hits_per_row(), 2**31).astype(np.int64)
        self._put(codes[new], counts[new], taken, hits)

    def _hits_per_row(self) -> float:
        """How many hits an older entry has for each of its rows in a cycle."""
        return max(self._seen / max(self._rows_in_cycle(), 1), 1.0)

    def _rows_in_cycle(self) -> int:
        return max(self._rows_of_last, self._rows_of_cycle)

    # ---- what goes ------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Waiting rows need room: evict entries that cost more than they save, an eighth of the
        cache at most. Rows that leave are in memory until all make room together, so what they
        free comes too late for the values that they asked for: some room is kept for those."""
        self._pressed_in = self._cycle
        share = self._wanted / self._memory.capacity
        self._memory.kept_free = min(max(share, _LEAST_KEPT_FREE), _MOST_KEPT_FREE)
        self._wanted = 0.0
        cache = self._cache
        expected = cache.hits * (_WAITS * self._rows_in_cycle() / max(self._seen, 1.0))
        nbytes = self._entry_bytes(cache.counts)
        dear = ~costs_less_cached(expected, nbytes, row_bytes=self._stream_bytes())
        self._evict(np.flatnonzero(dear), expected / nbytes, nbytes)
