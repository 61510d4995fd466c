"""How the memory of one join is split: every share has a name, and all add up to the limit."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import MemoryTooSmall
from watersmeet.model import parse_bytes

SMALLEST_MEMORY = 2**20
# Readers do not read further ahead than this, which would not make the join faster.
_MOST_INPUT = 16 * 2**20


@dataclass(frozen=True)
class MemoryShares:
    """What each purpose may hold of one limit. The five add up to it, to the byte.

    input    batches that have arrived and wait to be pushed
    store    rows in memory, with their indexes and marks
    loaded   spilled blocks that are being joined, or a table that is built of them
    copied   those blocks put end to end, or copies of rows that are being written to a file
    results  rows of one chunk of results, copied out

    The last three are for work in progress: each step gives them back at its end.

    >>> shares = MemoryShares.split(64 * 2**20)
    >>> shares.input + shares.store + shares.loaded + shares.copied + shares.results == 64 * 2**20
    True
    """

    input: int
    store: int
    loaded: int
    copied: int
    results: int

    @classmethod
    def split(cls, limit: int) -> MemoryShares:
        """An eighth for input, but at most 16 MB, an eighth for work, the rest for the store."""
        waiting = min(limit // 8, _MOST_INPUT)
        return cls._with_work(limit // 8, input=waiting, store=limit - limit // 8 - waiting)

    @classmethod
    def parse(cls, memory: int | str) -> tuple[int, MemoryShares]:
        """The limit a user gave and its shares, or a `MemoryTooSmall` that names the minimum."""
        limit = parse_bytes(memory)
        if limit < SMALLEST_MEMORY:
            raise MemoryTooSmall(
                f"memory={memory!r} is {limit:,} bytes, too little for a join to work in.",
                remedy=f"Give at least {SMALLEST_MEMORY // 2**20}MB.",
            )
        return limit, cls.split(limit)

    @classmethod
    def _with_work(cls, work: int, *, input: int, store: int) -> MemoryShares:
        third = work // 3
        return cls(input, store, loaded=third, copied=third, results=work - 2 * third)

    @property
    def limit(self) -> int:
        return self.input + self.store + self.work

    @property
    def work(self) -> int:
        """Bytes that a step may hold while it works."""
        return self.loaded + self.copied + self.results

    def block(self, at_once: int) -> int:
        """Bytes of one spilled block, if `at_once` of them are loaded at a time."""
        return self.loaded // at_once

    @property
    def chunk(self) -> int:
        """Bytes of a chunk of results if all rows were of mean size; some may be longer."""
        return 3 * self.results // 4

    def without_input(self) -> MemoryShares:
        """The shares of the same limit when no more input comes: its share is for work then."""
        return self._with_work(self.work + self.input, input=0, store=self.store)

    def without_rows(self) -> MemoryShares:
        """The shares of the same limit when no input comes and memory has no rows: all for work."""
        return self._with_work(self.limit, input=0, store=0)
