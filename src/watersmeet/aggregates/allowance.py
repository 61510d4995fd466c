"""What an aggregate may hold in memory, and how that is shared out."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import MemoryTooSmall
from watersmeet.model import parse_bytes
from watersmeet.store.shares import SMALLEST_MEMORY

_MB = 2**20
# More than this a worker cannot put to use: its batches would leave the processor's cache.
_MOST_WORK = 64 * _MB
# On its way through a join a batch is copied about so many times: hashes, values, pairs, groups.
_COPIES = 8
_LEAST_BATCH = 256 * 1024
# A few groups are always answered, with little memory from what allocators are granted beside it.
_LEAST_GROUPS = 8 * _MB
# A pair of rows has two places, a group and a value on each side, and some of them twice.
_PAIR_BYTES = 256
_LEAST_PAIRS, MOST_PAIRS = 4096, 1 << 18


class SideTooLarge(MemoryTooSmall):
    """The side that should be kept in memory turns out larger than it may be."""


class TooManyGroups(MemoryTooSmall):
    """The groups of the answer alone take more than there is."""


@dataclass(frozen=True)
class Allowance:
    """One limit in three parts.

    work: what one worker has for the rows it reads and for the pairs it makes of them;
    entries: the side that is kept, while it is built; groups: totals by group, at least.
    """

    limit: int
    workers: int

    @classmethod
    def parse(cls, memory: int | str, *, workers: int) -> Allowance:
        """For workers that share what a user gave, or a `MemoryTooSmall` that names the least."""
        limit = parse_bytes(memory)
        if limit < SMALLEST_MEMORY:
            raise MemoryTooSmall(
                f"memory={memory!r} is {limit:,} bytes, too little for an aggregate to work in.",
                remedy=f"Give at least {SMALLEST_MEMORY // _MB}MB.",
            )
        return cls(limit, workers)

    def share(self) -> Allowance:
        """That of one worker in a process of its own."""
        return Allowance(max(self.limit // self.workers, 1), 1)

    @property
    def work(self) -> int:
        return min(self.limit // 4, self.workers * _MOST_WORK) // self.workers

    @property
    def entries(self) -> int:
        return self.limit - self.workers * self.work - min(self.limit // 8, _MOST_WORK)

    def groups(self, entries: int = 0) -> int:
        """What is left for groups beside so many bytes of entries."""
        return max(self.limit - self.workers * self.work - entries, _LEAST_GROUPS)

    @property
    def batch_bytes(self) -> int:
        """Rows that are read at a time."""
        return max(self.work // _COPIES, _LEAST_BATCH)

    @property
    def pairs(self) -> int:
        """Pairs of rows that are looked at together."""
        return min(max(self.work // _PAIR_BYTES, _LEAST_PAIRS), MOST_PAIRS)
