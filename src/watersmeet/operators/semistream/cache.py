"""The cache H_R: master rows of some codes, all of a code's rows or none (SSBJ 3).

An entry is what the cache knows of one code: all master rows that have it. An entry without rows is
negative: no master row has that code. So a stream row whose code has an entry is joined completely
here, and one whose code has none is not joined at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import semistream as kernels
from watersmeet.rows.address import Index
from watersmeet.rows.leaves import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.columns import variable_bytes
from watersmeet.store.index import Codes, PairBuffer
from watersmeet.store.rows import RowStore, stored_bytes

_FEWEST_SLOTS = 16
_SLOT_BYTES = 16
# Code (8), place of the first row (4), rows (4), hits (4), the cycle in which it came (4).
_FIXED_BYTES = 24
ENTRY_BYTES = _FIXED_BYTES + 3 * _SLOT_BYTES
"""Bytes of an entry besides its rows: there are from two to four slots for each."""


class Cache:
    """Entries by code. Rows of an entry are neighbours, in the order in which entries came."""

    def __init__(self, schema: pa.Schema, *, nbytes: int) -> None:
        """Room for `nbytes` at most, which whoever adds entries has to keep to."""
        self._schema = schema
        self._each = stored_bytes(schema)
        self._limit = nbytes
        entries = nbytes // _FIXED_BYTES + 2
        self._codes = Arena(entries, np.uint64)
        self._starts = Arena(entries, np.int32)
        self._counts = Arena(entries, np.int32)
        self._hits = Arena(entries, np.uint32)
        self._born = Arena(entries, np.int32)
        self._slots = np.zeros((_FEWEST_SLOTS, 2), np.uint64)
        self._entries = 0
        self.negative = 0
        """How many entries have no rows."""
        self.rows = self._new_store()

    def _new_store(self) -> RowStore:
        rows = self._limit // self._each + 2
        return RowStore(self._schema, rows=rows, nbytes=2 * self._limit + 2**20, each=self._each)

    def __len__(self) -> int:
        return self._entries

    @property
    def nbytes(self) -> int:
        slots = self._slots.nbytes if self._entries else 0
        return self._entries * _FIXED_BYTES + slots + self.rows.nbytes

    @property
    def codes(self) -> Codes:
        codes: Codes = self._codes.array[: self._entries]
        return codes

    @property
    def counts(self) -> NDArray[np.int32]:
        """How many rows each entry has."""
        counts: NDArray[np.int32] = self._counts.array[: self._entries]
        return counts

    @property
    def hits(self) -> NDArray[np.uint32]:
        """How many stream rows each entry has served: the paper's f_count. Others may set it."""
        hits: NDArray[np.uint32] = self._hits.array[: self._entries]
        return hits

    @property
    def born(self) -> NDArray[np.int32]:
        """The cycle in which each entry came."""
        born: NDArray[np.int32] = self._born.array[: self._entries]
        return born

    def mean_row_bytes(self) -> float:
        """Bytes of a master row here: the paper's vR, without what an entry takes."""
        return self.rows.latest_mean_bytes()

    def growth(self, entries: int, rows: pa.RecordBatch) -> int:
        """By how many bytes it grows when so many entries with these rows are added."""
        size = self._slots_for(self._entries + entries)
        slots = size * _SLOT_BYTES - (self._slots.nbytes if self._entries else 0)
        values = len(rows) * self._each + sum(map(variable_bytes, rows.columns))
        return entries * _FIXED_BYTES + max(slots, 0) + values

    # ---- looking up -----------------------------------------------------------------------------

    def find(self, codes: Codes) -> Index:
        """The entry of each code, -1 if there is none; entries that are found count a hit."""
        entries = np.empty(len(codes), np.int64)
        if not self._entries:
            entries.fill(-1)
        else:
            kernels.probe(self._slots, codes, self._hits.array, entries)
        return entries

    def has(self, codes: Codes) -> Mask:
        """Which codes have an entry; that counts no hit."""
        if not self._entries:
            return np.zeros(len(codes), np.bool_)
        entries = np.empty(len(codes), np.int64)
        kernels.probe(self._slots, codes, np.zeros(self._entries, np.uint32), entries)
        return np.asarray(entries >= 0)

    def pairs(
        self, asked: Index, entries: Index, pairs: PairBuffer
    ) -> Iterator[tuple[Index, Index]]:
        """Pairs of asked[i] and a row of entries[i], no more at a time than fit `pairs`."""
        starts = self._starts.array[entries].astype(np.int64)
        counts = self._counts.array[entries].astype(np.int64)
        return expanded(asked, starts, counts, pairs)

    # ---- coming and going -----------------------------------------------------------------------

    def add(
        self, codes: Codes, counts: Index, rows: pa.RecordBatch, *, hits: Counts, born: int
    ) -> None:
        """Add entries that are not there. `rows` are the rows of the first, then those of the
        second, and so on; counts[i] of them are of entry i."""
        start, stop = self._entries, self._entries + len(codes)
        ends = np.cumsum(counts) + len(self.rows)
        self._codes.array[start:stop] = codes
        self._counts.array[start:stop] = counts
        self._starts.array[start:stop] = ends - counts
        self._hits.array[start:stop] = hits
        self._born.array[start:stop] = born
        self.rows.append(np.zeros(len(rows), np.int64), rows)
        self._entries = stop
        self.negative += int(np.count_nonzero(counts == 0))
        if len(self._slots) < self._slots_for(stop):
            self._build_slots()
        else:
            kernels.insert(self._slots, np.ascontiguousarray(codes), start)

    def keep(self, kept: Mask) -> None:
        """Drop the entries that are not kept, with all their rows."""
        if kept.all():
            return
        self.rows.remove(np.repeat(kept, self.counts))
        stay = np.flatnonzero(kept)
        for arena in (self._codes, self._counts, self._hits, self._born):
            arena.array[: len(stay)] = arena.array[stay]
            arena.release(len(stay))
        self._entries = len(stay)
        self._starts.array[: len(stay)] = np.cumsum(self.counts) - self.counts
        self._starts.release(len(stay))
        self.negative = int(np.count_nonzero(self.counts == 0))
        self._build_slots()

    def clear(self) -> None:
        if self._entries:
            self.keep(np.zeros(self._entries, np.bool_))

    def _build_slots(self) -> None:
        size = self._slots_for(self._entries)
        self._slots = np.zeros((0, 2), np.uint64)  # The old ones are freed before.
        self._slots = np.zeros((size, 2), np.uint64)
        kernels.insert(self._slots, self.codes, 0)

    @staticmethod
    def _slots_for(entries: int) -> int:
        return max(_FEWEST_SLOTS, 1 << (2 * entries - 1).bit_length()) if entries else _FEWEST_SLOTS


Counts = NDArray[np.uint32] | NDArray[np.int64] | int


def expanded(
    rows: Index, starts: Index, counts: Index, pairs: PairBuffer
) -> Iterator[tuple[Index, Index]]:
    """Pairs of rows[i] with each of the counts[i] numbers from starts[i] on, no more at a time than
    fit `pairs`."""
    at, inside = 0, 0
    while at < len(rows):
        found, at, inside = kernels.expand(
            rows, starts, counts, at, inside, pairs.first, pairs.second
        )
        if found:
            yield pairs.first[:found], pairs.second[:found]


def spread(starts: Index, counts: Index) -> Index:
    """starts[0], starts[0] + 1, ..., counts[0] of them, then those of starts[1], and so on."""
    numbers = np.empty(int(counts.sum()), np.int64)
    kernels.spread(starts, counts, numbers)
    return numbers
