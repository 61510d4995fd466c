"""Finding rows by their codes: the methods of every index, and the index over hashes."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
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
_ROWS_A_BUCKET = 2
_GROWTH = 4

_HEAD_BYTES = 8
INDEX_BYTES = 16 + _HEAD_BYTES
"""Bytes of a row in the index: code and link, and a bucket's head, though rows may share one."""


class PairBuffer:
    """Arrays for a bounded number of pairs of row numbers, used again and again."""

    def __init__(self, size: int) -> None:
        self._arrays = np.empty((2, size), np.int64)
        self.first, self.second = self._arrays

    def __len__(self) -> int:
        return len(self.first)

    def bound(self, size: int) -> None:
        """Take at most `size` pairs at a time from now on, and at least one."""
        size = min(max(size, 1), self._arrays.shape[1])
        if size != len(self):
            self.first, self.second = self._arrays[:, :size]


class Index(Protocol):
    """Finds rows by their codes. Rows are numbered as they come.

    Rows are dropped by a mask, and those that stay are numbered anew without gaps.
    """

    def __len__(self) -> int: ...

    def add(self, codes: Codes) -> None: ...

    def find(
        self, wanted: Codes, pairs: PairBuffer, floor: int = 0, *, until: Codes | None = None
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Pairs of a row and an i such that the row's code lies from wanted[i] to until[i]; no more
        at a time than fit `pairs`. Without `until`, rows whose code is wanted[i]. Rows numbered
        below `floor` are left out."""
        ...

    def drop(self, keep: Mask) -> None: ...

    @property
    def spare_bytes(self) -> int:
        """Bytes that it takes beyond a fixed number for each row."""
        ...


class HashIndex:
    """Hash chains over rows 0 .. len-1. There are at most two rows a bucket, in the mean: links say
    what is to be found behind them, so chains that are a little longer cost next to nothing, and
    fewer heads are less memory to fetch and to wait for.

    If it is not `indexed` any more, it has the codes but no chains, and finds nothing.
    """

    def __init__(self, capacity: int) -> None:
        self.indexed = True
        self._rows = 0
        self._arena = Arena(2 * capacity, np.uint64)
        self._words = self._arena.array
        self.nodes = self._words.reshape(capacity, 2)
        # Buckets are added where they are: the system clears every page that is new, and may have
        # to find it first, which costs more than linking the rows.
        self._buckets = Arena(_buckets_for(capacity), np.uint64).array
        self._heads = self._buckets[:_FEWEST_BUCKETS]

    @classmethod
    def over(cls, codes: Codes) -> HashIndex:
        """An index over rows with these codes, to which none are added."""
        index = cls(len(codes))
        index.add(codes)
        return index

    def __len__(self) -> int:
        return self._rows

    def expect(self, rows: int) -> None:
        """Have buckets for so many rows before the first comes, if they have room, so that chains
        are not built anew: that was a tenth of the time of a join of 600,000 rows a side."""
        if not self._rows:
            wanted = max(_FEWEST_BUCKETS, ceil(rows / _ROWS_A_BUCKET))
            self._heads = self._buckets[: 1 << (wanted - 1).bit_length()]

    def add(self, codes: Codes) -> None:
        start = self._rows
        self._rows = start + len(codes)
        if not self.indexed:
            self.nodes[start : self._rows, 0] = codes
        elif self._rows > _ROWS_A_BUCKET * self._heads.size:
            self.nodes[start : self._rows, 0] = codes
            self._link_again()
        else:
            matching.insert(self._heads, self._words, codes, start)

    def find(
        self, wanted: Codes, pairs: PairBuffer, floor: int = 0, *, until: Codes | None = None
    ) -> Iterator[tuple[Numbers, Numbers]]:
        assert until is None or until is wanted, "hashes have no order"
        state = np.zeros(2, np.int64)
        chains = np.empty((3, min(matching.GROUP, wanted.size)), np.uint64)
        while state[0] < wanted.size or state[1]:
            found = matching.probe(
                self._heads, self._words, wanted, floor, state, chains, pairs.first, pairs.second
            )
            if found:
                yield pairs.first[:found], pairs.second[:found]

    def drop(self, keep: Mask) -> None:
        used, self._rows = self._rows, close_fixed(self.nodes, keep)
        self._arena.release(2 * self._rows, used=2 * used)
        if self.indexed:
            self._link_again()

    @property
    def buckets(self) -> int:
        return int(self._heads.size)

    @property
    def spare_bytes(self) -> int:
        """Bytes of buckets beyond `INDEX_BYTES` a row: after growing, many buckets are empty."""
        if self._heads.size == _FEWEST_BUCKETS:
            return 0
        return max(self._heads.nbytes - _HEAD_BYTES * self._rows, 0)

    def _link_again(self) -> None:
        # Four times as many buckets at once. Building the chains anew misses the cache on every
        # row: with doubling it was a quarter of the time of a 20 M row join (bench: scaling).
        self._heads.fill(0)
        self._heads = self._buckets[: _buckets_for(self._rows, least=self._heads.size)]
        matching.link(self._heads, self._words, self._rows)


def _buckets_for(rows: int, *, least: int = _FEWEST_BUCKETS) -> int:
    """How many buckets there are for so many rows, if there have been `least` for fewer."""
    size = least
    while _ROWS_A_BUCKET * size < rows:
        size *= _GROWTH
    return size
