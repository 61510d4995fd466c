"""How many bytes a join holds, against how many it may."""

from __future__ import annotations

import threading
from collections import defaultdict


class MemoryAccount:
    """Bytes in use, by purpose, against one limit. Safe to use from several threads.

    The account counts and never refuses: whoever wants more asks for `room` first and frees
    something when there is none. `peak` is therefore the proof that nobody forgot to ask.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        self._held: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def take(self, nbytes: int, what: str) -> None:
        with self._lock:
            self._held[what] += nbytes
            self.used += nbytes
            self.peak = max(self.peak, self.used)

    def give(self, nbytes: int, what: str) -> None:
        self.take(-nbytes, what)

    def hold(self, nbytes: int, what: str) -> None:
        """Set what one purpose holds now."""
        with self._lock:
            self.used += nbytes - self._held[what]
            self._held[what] = nbytes
            self.peak = max(self.peak, self.used)

    def by_purpose(self) -> dict[str, int]:
        with self._lock:
            return {what: held for what, held in self._held.items() if held}
