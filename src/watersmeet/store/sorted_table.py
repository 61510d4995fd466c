"""One input's rows in memory, in order of their codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.rows.values import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.flat import close_fixed
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows, stored_bytes
from watersmeet.store.sorted_index import SortedIndex

Ordered = tuple[Codes, NDArray[np.int32]]
"""Codes in order, and where each of them was before."""

# Of each row: its region in the index, and whether it has joined since the clock's hand passed.
_FLAG_BYTES = 2


@lru_cache
def sorted_bytes(schema: pa.Schema) -> int:
    """Bytes of a row of this schema in an sorted table, without values of variable width."""
    return stored_bytes(schema) + SortedIndex.BYTES + _FLAG_BYTES


class SortedTable(IndexedRows):
    """Rows of one input with a sorted index over all of them, and two flags for each."""

    def __init__(
        self, schema: pa.Schema, *, rows: int, nbytes: int, encode: Callable[[Index], Codes]
    ) -> None:
        """`encode` computes the codes of rows by number: the index has them only in order."""
        super().__init__(schema, rows=rows, nbytes=nbytes, each=sorted_bytes(schema))
        self.index = SortedIndex(rows)
        self._encode = encode
        self._regions = Arena(rows, np.uint8)
        self._joined = Arena(rows, np.uint8)

    @property
    def regions(self) -> NDArray[np.uint8]:
        """The region of each row."""
        return self._regions.array[: len(self)]

    @property
    def joined(self) -> NDArray[np.uint8]:
        """The join bit of each row: 1 if it has joined since the clock's hand passed it."""
        return self._joined.array[: len(self)]

    def codes(self, index: Index) -> Codes:
        return self._encode(index)

    def add(
        self,
        ordered: Ordered,
        stamps: NDArray[np.int64],
        rows: pa.RecordBatch,
        *,
        regions: NDArray[np.uint8],
        joined: NDArray[np.bool_] | NDArray[np.uint8],
    ) -> None:
        """Add rows; `ordered` are their codes in order, and where each of them is in the batch."""
        start = len(self)
        self.append(stamps, rows)
        self._regions.array[start : len(self)] = regions
        self._joined.array[start : len(self)] = joined
        self.index.add_in_order(*ordered)

    def drop(self, keep: Mask) -> None:
        """Drop the rows that are not kept."""
        for flags in (self._regions, self._joined):
            flags.release(close_fixed(flags.array, keep))
        self.remove(keep)
        self.index.drop(keep)

    def clear(self) -> None:
        """Drop all rows."""
        self.drop(np.zeros(len(self), np.bool_))
