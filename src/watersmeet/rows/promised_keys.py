"""Keys that were promised not to come any more, where several keys may have the same code.

The code of a long text, or of a key of several columns, is a hash of 64 bits: a promise about the
code would be one about every key that happens to have it. So the keys themselves are remembered, as
bytes. Codes find the few rows that may have one of them, and bytes decide.

Promised keys do not merge into ranges, so there must be an end to them: the oldest are forgotten
when there are too many. Whoever forgets them has applied them to all rows that are there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.rows.batch_text import batch_from_text, batch_to_text
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask

REMEMBERED = 2**14
"""How many promised keys are remembered at least, of the latest ones."""
_LONGEST = 2**20
"""How many bytes they may have together; of longer ones fewer are remembered."""
_BYTES = pa.large_binary()
_SAVED = pa.schema({"code": pa.uint64(), "key": _BYTES})


class PromisedKeys:
    """Keys in the order in which they were promised, found by their codes.

    >>> keys = PromisedKeys()
    >>> keys.add(np.array([7, 7, 3], np.uint64), pa.array([b"ab", b"cd", b"ef"], _BYTES))
    >>> came = pa.array([b"ab", b"xx", b"ef", b"ef"], _BYTES)
    >>> keys.cover(np.array([7, 7, 4, 3], np.uint64), came.take).tolist()
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self._keys = pa.array([], _BYTES)
        self._codes: Codes = np.empty(0, np.uint64)
        """Ascending."""
        self._places: NDArray[np.int64] = np.empty(0, np.int64)
        """For each of these codes, the position of its key."""

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, codes: Codes, keys: pa.Array) -> None:
        """Remember keys; those that are remembered already stay what they are."""
        numbers = keys.dictionary_encode().indices.to_numpy()
        new = np.sort(np.unique(numbers, return_index=True)[1])
        new = new[~self.cover(codes[new], keys.take(pa.array(new)).take)]
        if not len(new):
            return
        places = len(self) + np.arange(len(new))
        self._keys = pa.concat_arrays([self._keys, keys.take(pa.array(new))])
        order = np.argsort(codes[new], kind="stable")
        where = np.searchsorted(self._codes, codes[new][order], side="right")
        self._codes = np.insert(self._codes, where, codes[new][order])
        self._places = np.insert(self._places, where, places[order])

    def cover(self, codes: Codes, keys_at: Callable[[Index], pa.Array]) -> Mask:
        """Which rows have a promised key. `codes` are theirs; `keys_at` gives the keys of some of
        them, and is asked only about those that have the code of a promised one."""
        covered = np.zeros(len(codes), np.bool_)
        if not len(self):
            return covered
        start = np.searchsorted(self._codes, codes)
        candidates = self._codes[np.minimum(start, len(self) - 1)] == codes
        index = np.flatnonzero(candidates & (start < len(self)))
        if len(index):
            alike = np.isin(self._codes, codes[index])
            promised = self._keys.take(pa.array(self._places[alike]))
            found = pc.is_in(keys_at(index), value_set=promised, skip_nulls=True)
            covered[index] = found.to_numpy(zero_copy_only=False)
        return covered

    def touch(self, first: Codes, last: Codes) -> Mask:
        """Which of these ranges of codes have the code of a promised key in them."""
        start = np.searchsorted(self._codes, first, side="left")
        touched: Mask = start < np.searchsorted(self._codes, last, side="right")
        return touched

    # ---- forgetting -----------------------------------------------------------------------------

    @property
    def excess(self) -> float:
        """How many times as many as are to be remembered there are, in number or in bytes."""
        length = pc.sum(pc.binary_length(self._keys)).as_py() or 0
        return max(len(self) / REMEMBERED, length / _LONGEST)

    def forget_oldest(self) -> None:
        """Remember no more than the latest."""
        lengths = pc.binary_length(self._keys).to_numpy(zero_copy_only=False)
        behind = np.cumsum(lengths[::-1])[::-1]  # the bytes from a key to the last
        first = max(len(self) - REMEMBERED, int(np.searchsorted(-behind, -_LONGEST)))
        if first <= 0:
            return
        # A copy: a slice would keep all the bytes before it.
        self._keys = pc.take(self._keys, pa.array(np.arange(first, len(self))))
        kept = self._places >= first
        self._codes, self._places = self._codes[kept], self._places[kept] - first

    # ---- saved ----------------------------------------------------------------------------------

    def save(self) -> str:
        codes = np.empty(len(self), np.uint64)
        codes[self._places] = self._codes
        columns = [pa.array(codes), self._keys]
        return batch_to_text(pa.RecordBatch.from_arrays(columns, schema=_SAVED))

    @classmethod
    def load(cls, saved: str) -> PromisedKeys:
        keys = cls()
        codes, keys._keys = batch_from_text(saved).columns
        keys._places = np.argsort(codes.to_numpy(), kind="stable")
        keys._codes = codes.to_numpy()[keys._places]
        return keys
