"""Finding rows by their codes: what every index does, and the one over hashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import matching
from watersmeet.rows.address import Index as Numbers
from watersmeet.rows.values import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.flat import close_fixed

Codes = NDArray[np.uint64]

_FEWEST_BUCKETS = 1024

_HEAD_BYTES = 8
INDEX_BYTES = 16 + _HEAD_BYTES
"""What a row takes: code and link, and up to two bucket heads."""


class PairBuffer:
    """Room for one bounded chunk of pairs, used again and again."""

    def __init__(self, size: int) -> None:
        self._room = np.empty((2, size), np.int64)
        self.first, self.second = self._room

    def __len__(self) -> int:
        return len(self.first)

    def bound(self, size: int) -> None:
        """Use at most so much of the room, and at least one pair of it."""
        size = min(max(size, 1), self._room.shape[1])
        if size != len(self):
            self.first, self.second = self._room[:, :size]


class Index(Protocol):
    """Finds rows, numbered as they come, by their codes.

    Rows are dropped by a mask, and those that stay close the gaps in their numbers.
    """

    def __len__(self) -> int: ...

    def add(self, codes: Codes) -> None: ...

    def find(
        self, wanted: Codes, pairs: PairBuffer, floor: int = 0, *, until: Codes | None = None
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Rows whose code lies from wanted[i] to until[i], and which i each answers, in bounded
        chunks. Without `until`, rows of equal code. Rows below `floor` are not looked for."""
        ...

    def drop(self, keep: Mask) -> None: ...

    @property
    def spare_bytes(self) -> int:
        """What it takes beyond a fixed number of bytes for each row."""
        ...


class HashIndex:
    """Hash chains over rows 0 .. len-1. There are at least as many buckets as rows.

    An index that is no longer `indexed` keeps the codes and finds nothing.
    """

    def __init__(self, capacity: int) -> None:
        self.indexed = True
        self._rows = 0
        self._arena = Arena(2 * capacity, np.uint64)
        self.nodes = self._arena.array.reshape(capacity, 2)
        self._heads = np.full(_FEWEST_BUCKETS, -1, np.int32)

    @classmethod
    def over(cls, codes: Codes) -> HashIndex:
        """An index over rows that are all there."""
        index = cls(len(codes))
        index.add(codes)
        return index

    def __len__(self) -> int:
        return self._rows

    def add(self, codes: Codes) -> None:
        start = self._rows
        self._rows = start + len(codes)
        if not self.indexed:
            self.nodes[start : self._rows, 0] = codes
        elif self._rows > self._heads.size:
            self.nodes[start : self._rows, 0] = codes
            self._link_again()
        else:
            matching.insert(self._heads, self.nodes, codes, start)

    def find(
        self, wanted: Codes, pairs: PairBuffer, floor: int = 0, *, until: Codes | None = None
    ) -> Iterator[tuple[Numbers, Numbers]]:
        assert until is None or until is wanted, "hashes have no order"
        start, resume = 0, -2
        while start < wanted.size:
            found, start, resume = matching.probe(
                self._heads, self.nodes, wanted, floor, start, resume, pairs.first, pairs.second
            )
            if found:
                yield pairs.first[:found], pairs.second[:found]

    def drop(self, keep: Mask) -> None:
        self._rows = close_fixed(self.nodes, keep)
        self._arena.release(2 * self._rows)
        if self.indexed:
            self._link_again()

    @property
    def spare_bytes(self) -> int:
        """What the buckets take beyond `INDEX_BYTES` a row, while there are few rows for them."""
        if self._heads.size == _FEWEST_BUCKETS:
            return 0
        return max(self._heads.nbytes - _HEAD_BYTES * self._rows, 0)

    def _link_again(self) -> None:
        # Four times as many at once: linking again misses the cache on every row, and doubling
        # was a quarter of the time of a 20 M row join (bench: scaling).
        size = self._heads.size
        while size < self._rows:
            size *= 4
        if size > self._heads.size:
            self._heads = np.empty(0, np.int32)  # freed before its successor is touched
            self._heads = Arena(size, np.int32).array
        self._heads.fill(-1)
        matching.link(self._heads, self.nodes, self._rows)
