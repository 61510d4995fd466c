"""How SSBJ fills the cache: three states that take turns, each for one cycle (SSBJ 3.1).

*Incrementing*: count the master rows of each value that waits. *Switching*: choose the values that
cost less in the cache, once and for the whole cycle, and collect their master rows. *Phase-out*:
what was collected is in the cache; stream rows of those values that wait still finish where they
are. Every tenth cycle evicts what is asked for too seldom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.kernels import semistream as kernels
from watersmeet.kernels import sorting
from watersmeet.operators.semistream.cache import ENTRY_BYTES, spread
from watersmeet.operators.semistream.keeping import CacheKeeper, fitting
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.policies.caching import costs_less_cached
from watersmeet.rows.address import Index
from watersmeet.rows.leaves import Mask
from watersmeet.rows.values import rows_at, rows_where
from watersmeet.store.index import Codes
from watersmeet.store.master.table import MasterRows

_STATES = 3
_INCREMENTING, _SWITCHING, _PHASE_OUT = 1, 2, 0
EVICTION_CYCLES = 10
_COUNT_BYTES = 16


class _Collected(NamedTuple):
    """Some rows of the switching buffer sB, in order of code, and whose they are."""

    rows: pa.RecordBatch
    of: Index
    """For each row, the number of the value that it belongs to."""

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self.of.nbytes


class Switching:
    """Values that are being moved into the cache: what was decided, and what was collected.

    The paper decides anew for every master row (line 33). Stream rows come and go meanwhile, so
    a value would be cached with some of its rows missing, and results would be lost. Here it is
    decided once, at the start of the cycle; a value is given up as a whole, never in part.
    """

    def __init__(self, codes: Codes, waiting: Index) -> None:
        """`waiting` stream rows of each of these values wait as the cycle begins."""
        self.codes = codes
        self.waiting = waiting
        self.counts = np.zeros(len(codes), np.int64)
        """m: how many master rows each has, as far as the cycle has come."""
        self.alive = np.ones(len(codes), np.bool_)
        self.buffer: deque[_Collected] = deque()
        self.nbytes = sum(a.nbytes for a in (codes, waiting, self.counts, self.alive))

    def collect(self, read: MasterRows, most: Index) -> None:
        """Load the rows of these values (line 34); values with more than `most` are given up."""
        first = int(np.searchsorted(self.codes, read.codes[0]))
        stop = int(np.searchsorted(self.codes, read.codes[-1], side="right"))
        mine = slice(first, stop)
        starts, counts = np.empty(stop - first, np.int64), np.empty(stop - first, np.int64)
        kernels.locate(self.codes[mine], read.codes, starts, counts)
        self.counts[mine] += counts
        self.alive[mine] &= self.counts[mine] <= most[mine]
        chosen = np.flatnonzero(self.alive[mine] & (counts > 0))
        if len(chosen):
            taken = rows_at(read.rows, spread(starts[chosen], counts[chosen]))
            self.buffer.append(_Collected(taken, np.repeat(first + chosen, counts[chosen])))
            self.nbytes += self.buffer[-1].nbytes

    def pieces(self) -> Iterator[tuple[Index, pa.RecordBatch]]:
        """Take the buffer apart: values with all of their rows, which are neighbours."""
        rest: _Collected | None = None
        while self.buffer:
            piece = self.buffer.popleft()
            self.nbytes -= piece.nbytes
            if rest is not None:
                rows = pa.concat_batches([rest.rows, piece.rows])
                piece = _Collected(rows, np.concatenate([rest.of, piece.of]))
            # The last value of a portion may go on in the next.
            whole = piece.of != piece.of[-1] if self.buffer else np.ones(len(piece.of), np.bool_)
            rest = _part(piece, ~whole)
            piece = _part(piece, whole & self.alive[piece.of])
            yield np.unique(piece.of), piece.rows


def _part(piece: _Collected, mask: Mask) -> _Collected:
    return _Collected(rows_where(piece.rows, mask), piece.of[mask])


class RotatingCaching(CacheKeeper):
    """SSBJ's cache. Rows come into it only when a phase-out begins, all of a value at once."""

    def __init__(self, workspace: SemiStreamWorkspace) -> None:
        super().__init__(workspace)
        self._counted: list[tuple[Codes, Index]] = []
        """s_count: values and their master rows, portion by portion in order of code."""
        self._counted_values = 0
        self.switching: Switching | None = None

    def begin_cycle(self) -> None:
        """Lines 3-14, and the eviction of lines 42-51. The paper has the latter in the loop, where
        it would come with every step of a tenth cycle; its text asks for one in ten cycles."""
        self._cycle += 1
        state = self._cycle % _STATES
        if state == _INCREMENTING:
            self._forget_counts()
        elif state == _SWITCHING:
            self._decide()
        else:
            self._move()
        if self._cycle % EVICTION_CYCLES == 0:
            self._evict_infrequent()
        self._report()

    def met(self, read: MasterRows, waiting: Index, blocks: tuple[int, int]) -> None:
        state = self._cycle % _STATES
        if self._cycle and state == _INCREMENTING:
            first = np.flatnonzero(np.append(True, read.codes[1:] != read.codes[:-1]))
            counts = np.diff(np.append(first, len(read.codes)))
            wanted = waiting[first] > 0
            self._counted.append((read.codes[first][wanted], counts[wanted]))
            self._counted_values += int(np.count_nonzero(wanted))
        elif state == _SWITCHING and self.switching is not None:
            self.switching.collect(read, self._most_rows(self.switching.waiting))
        self._report()

    def _most_rows(self, waiting: Index) -> Index:
        """How many master rows a value may have to be worth it: the inequality, solved for m."""
        factor = self._workspace.tuning.switching_factor
        least = waiting * self._stream_bytes() / factor - ENTRY_BYTES
        most: Index = np.ceil(least / self._row_bytes()).astype(np.int64) - 1
        return most

    def _decide(self) -> None:
        """Choose the values to be switched: the cache inequality (line 33)."""
        codes, waiting = self._waiting_values()
        counts = self._counts_of(codes)
        nbytes = self._entry_bytes(counts)
        worth = costs_less_cached(
            waiting,
            nbytes,
            row_bytes=self._stream_bytes(),
            factor=self._workspace.tuning.switching_factor,
        )
        worth &= ~self._cache.has(codes)
        chosen = np.flatnonzero(worth)
        # They are collected first and moved then, so the buffer must not fill memory.
        room = max(self._memory.capacity - self._cache.nbytes, 0) / 2
        chosen = chosen[fitting(waiting[chosen] / nbytes[chosen], nbytes[chosen], room)]
        self._forget_counts()
        self.switching = Switching(codes[chosen], waiting[chosen])
        self.coming = int(nbytes[chosen].sum())

    def _waiting_values(self) -> tuple[Codes, Index]:
        """The values that wait, and how many stream rows each has: n."""
        table = self._memory.table
        rows = np.arange(self._workspace.expired, len(table))
        codes, _ = sorting.sort(np.ascontiguousarray(table.codes(rows)))
        first = np.flatnonzero(np.append(len(codes) > 0, codes[1:] != codes[:-1]))
        return codes[first], np.diff(np.append(first, len(codes)))

    def _counts_of(self, codes: Codes) -> Index:
        """s_count of values. It may be too small: of a value that began to wait when some of its
        master rows had been passed. What is collected decides in the end."""
        counts = np.zeros(len(codes), np.int64)
        for values, found in self._counted:
            place = np.searchsorted(codes, values)
            place[place == len(codes)] = 0
            there = codes[place] == values if len(codes) else np.zeros(len(values), np.bool_)
            np.add.at(counts, place[there], found[there])
        return counts

    def _move(self) -> None:
        """MOVE all tuples from sB to H_R (line 10). A value that waits and has no master row
        becomes a negative entry: line 26 never sees it, but the text asks for it."""
        switching, self.switching = self.switching, None
        self.coming = 0
        if switching is None:
            return
        # The inequality holds for what was found, not only for what was expected.
        switching.alive &= switching.counts <= self._most_rows(switching.waiting)
        switching.alive &= ~self._cache.has(switching.codes)
        for values, rows in switching.pieces():
            self._memory.collected = switching.nbytes
            self._put_in(switching, values, rows)
        none = np.flatnonzero(switching.alive & (switching.counts == 0))
        none = none[np.argsort(-switching.waiting[none], kind="stable")]
        # As many as there is room for, those that most rows wait for first.
        while not self._put_in(switching, none, self._workspace.no_master_rows()):
            none = none[: len(none) // 2]

    def _put_in(self, switching: Switching, values: Index, rows: pa.RecordBatch) -> bool:
        """Whether there was room for these values, or there are none."""
        return not len(values) or self._put(
            switching.codes[values], switching.counts[values], rows, 0
        )

    def _evict_infrequent(self) -> None:
        """Lines 43-50: f_count / 10 rows a cycle stand for n. An entry that came less than ten
        cycles ago has been counted for fewer, and is judged by those."""
        cache, tuning = self._cache, self._workspace.tuning
        cycles = np.minimum(self._cycle - cache.born, EVICTION_CYCLES)
        expected = cache.hits / np.maximum(cycles, 1)
        dear = ~costs_less_cached(
            expected,
            self._entry_bytes(cache.counts),
            row_bytes=self._stream_bytes(),
            factor=tuning.switching_factor,
        )
        self._drop(np.flatnonzero(dear & (cycles > 0)))
        self._cache.hits[:] = 0

    def forget(self) -> None:
        self._cycle, self.switching, self.coming = 0, None, 0
        self._forget_counts()
        self._report()

    def _forget_counts(self) -> None:
        self._counted, self._counted_values = [], 0

    def _report(self) -> None:
        counted = self._counted_values * _COUNT_BYTES
        switching = 0 if self.switching is None else self.switching.nbytes
        self._memory.collected = counted + switching
