"""How CMESHJOIN fills the cache: a master row that is met by many waiting rows, at once.

Its keys are unique, so one row is all there is of a value, and nothing has to be collected.
"""

from __future__ import annotations

import numpy as np

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.semistream.keeping import fitting
from watersmeet.operators.semistream.rotating import EVICTION_CYCLES, RotatingCaching
from watersmeet.policies.caching import costs_less_cached
from watersmeet.rows.address import Index, Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.values import rows_at
from watersmeet.store.master.table import MasterRows


class UniqueCaching(RotatingCaching):
    """The cache inequality with m = 1, decided where a row is met; SSBJ's eviction."""

    def begin_cycle(self) -> None:
        self._cycle += 1
        if self._cycle % EVICTION_CYCLES == 0:
            self._evict_infrequent()

    def met(self, read: MasterRows, waiting: Index, blocks: tuple[int, int]) -> None:
        same = read.codes[1:] == read.codes[:-1]
        self._check_unique(read, np.flatnonzero(same))
        # Different keys may have one code, and a code may go on in the next portion.
        alone = ~(np.append(same, False) | np.append(False, same))
        places, (begin, stop) = self._workspace.master.places, blocks
        if begin and places.last[begin - 1] == places.first[begin]:
            alone[read.codes == places.first[begin]] = False
        if stop < len(places) and places.first[stop] == places.last[stop - 1]:
            alone[read.codes == places.first[stop]] = False
        factor = self._workspace.tuning.switching_factor
        nbytes = self._entry_bytes(np.ones(len(waiting), np.int64))
        worth = alone & costs_less_cached(
            waiting, nbytes, row_bytes=self._stream_bytes(), factor=factor
        )
        worth &= ~self._cache.has(read.codes)
        chosen = np.flatnonzero(worth)
        chosen = chosen[
            fitting(waiting[chosen] / nbytes[chosen], nbytes[chosen], self._memory.room)
        ]
        if len(chosen):
            ones = np.ones(len(chosen), np.int64)
            self._put(read.codes[chosen], ones, rows_at(read.rows, chosen), 0)

    def _check_unique(self, read: MasterRows, twice: Index) -> None:
        """Refuse a master table in which neighbours with one code have one key."""
        if not len(twice):
            return
        source = BatchRows(read.rows)
        schema = self._workspace.schema
        equal = schema.equal_keys(Side.RIGHT, Rows(source, twice), Rows(source, twice + 1))
        if equal.any():
            raise InvalidArgument(
                "algorithm='cmeshjoin' is for master tables whose keys are unique, and version "
                f"{self._workspace.master.version!r} has several rows of one key.",
                remedy="Use auto or ssbj, which take any number of rows of a key.",
            )
