"""How the memory for rows is divided among the instances of one join, as they need it."""

from __future__ import annotations

import threading

# An instance asks for this fraction of its even part beyond what it needs, so as to ask seldom.
_AHEAD = 8


class Allotments:
    """Bytes that each instance may hold in rows. Together they are never more than `total`, but for
    `least` bytes that each may always hold.

    An instance that needs more gets what is free. If nothing is free, those that have more than an
    even part spill what is above it. So a join whose keys are all in one instance has all memory
    for them, and no instance has less than its even part for long if it needs that.
    """

    def __init__(self, total: int, *, instances: int, most: int, least: int) -> None:
        """No instance may hold more than `most`."""
        self._total = total
        self._most = most
        self._least = least
        self._allotted = [least] * instances
        self._is_short = [False] * instances
        self._lent = 0
        self._lock = threading.Lock()

    def lend(self, nbytes: int) -> None:
        """Do with so many bytes less, in all. Each instance gives way when it asks next."""
        with self._lock:
            self._lent = nbytes

    def ask(self, instance: int, nbytes: int) -> int:
        """How many bytes an instance that needs `nbytes` may hold from now on. If that is less than
        before, it has to call `gave_back` when it holds no more."""
        with self._lock:
            if self._must_give(instance):
                return self._even
            mine = self._allotted[instance]
            needed = min(max(nbytes + self._even // _AHEAD, self._least), self._most)
            if any(self._is_short):
                needed = min(needed, max(self._even, mine))
            if needed > mine:
                mine += min(needed - mine, max(self._free, 0))
                self._allotted[instance] = mine
            self._is_short[instance] = mine < min(nbytes, self._even)
            return mine

    def gave_back(self, instance: int, nbytes: int) -> None:
        """The instance holds no more than so many bytes now."""
        with self._lock:
            self._allotted[instance] = nbytes

    def must_give(self, instance: int) -> bool:
        """Whether an instance has to give back some of its memory, for others or for input."""
        with self._lock:
            return self._must_give(instance)

    def is_short(self, instance: int) -> bool:
        """Whether an instance has less than its even part and needs more."""
        return self._is_short[instance]

    @property
    def _even(self) -> int:
        return max((self._total - self._lent) // len(self._allotted), self._least)

    @property
    def _free(self) -> int:
        return self._total - self._lent - sum(self._allotted)

    def _must_give(self, instance: int) -> bool:
        others = any(short for n, short in enumerate(self._is_short) if n != instance)
        return self._allotted[instance] > self._even and (others or self._free < 0)
