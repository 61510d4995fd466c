"""Counts the bytes that a join or an aggregate holds."""

from __future__ import annotations

import threading
from collections import defaultdict


class MemoryAccount:
    """Bytes in use, by purpose, against one limit. Safe to use from several threads.

    The account counts and never refuses. Whoever takes memory compares `used` with `limit` first,
    and frees some if there is too little. Tests check that `peak` stays within the limit.
    """

    def __init__(self, limit: int, *, part_of: MemoryAccount | None = None) -> None:
        """What this account counts, `part_of` counts, too."""
        self.limit = limit
        self.used = 0
        self.peak = 0
        self._held: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._whole = part_of

    def take(self, nbytes: int, what: str) -> None:
        with self._lock:
            self._count(nbytes, what)

    def give(self, nbytes: int, what: str) -> None:
        self.take(-nbytes, what)

    def hold(self, nbytes: int, what: str) -> None:
        """Set how many bytes are held for one purpose now."""
        with self._lock:
            self._count(nbytes - self._held[what], what)

    def _count(self, more: int, what: str) -> None:
        self._held[what] += more
        self.used += more
        self.peak = max(self.peak, self.used)
        if self._whole is not None and more:
            self._whole.take(more, what)

    def by_purpose(self) -> dict[str, int]:
        with self._lock:
            return {what: held for what, held in self._held.items() if held}
