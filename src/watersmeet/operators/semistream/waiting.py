"""Stream rows that wait for the scan, found in order of code: H_S of the skipping scan."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import semistream as kernels
from watersmeet.rows.address import Index
from watersmeet.rows.leaves import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.flat import close_fixed
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows, stored_bytes

Numbers = NDArray[np.int32]

_CODE_BYTES = 8
_ORDER_BYTES = 12
"""Of a row in an order: its code and its number."""


def waiting_bytes(schema: pa.Schema) -> int:
    """Bytes of a waiting row of this schema, without values of variable width."""
    return stored_bytes(schema) + _CODE_BYTES + _ORDER_BYTES


class WaitingRows(IndexedRows):
    """Waiting rows by number, in the order in which they came, each with its code.

    Rows leave in any order, so those that have left stay until it is worth to close the gaps.
    """

    def __init__(self, schema: pa.Schema, *, rows: int, nbytes: int) -> None:
        super().__init__(schema, rows=rows, nbytes=nbytes, each=waiting_bytes(schema))
        self._codes = Arena(rows, np.uint64)
        self._left = Arena(rows, np.bool_)
        self.left = 0
        """How many rows have left and take memory still."""

    @property
    def waiting(self) -> int:
        return len(self) - self.left

    def codes(self, index: Index | slice) -> Codes:
        codes: Codes = self._codes.array[: len(self)][index]
        return codes

    def add(self, codes: Codes, stamps: NDArray[np.int64], rows: pa.RecordBatch) -> None:
        start = len(self)
        self.append(stamps, rows)
        self._codes.array[start : len(self)] = codes
        self._left.array[start : len(self)] = False

    def leave(self, index: Index) -> None:
        """These rows wait no more."""
        self._left.array[index] = True
        self.left += len(index)

    def kept(self) -> Mask:
        """Which rows have not left."""
        kept: Mask = ~self._left.array[: len(self)]
        return kept

    def close_gaps(self, keep: Mask) -> None:
        """Forget the rows that are not kept; the others get new numbers in the same order."""
        close_fixed(self._codes.array, keep)
        self.remove(keep)
        self._codes.release(len(self))
        self._left.array[: len(self)] = False
        self._left.release(len(self))
        self.left = 0


class RowOrder:
    """Numbers of waiting rows in order of code, taken from the front."""

    def __init__(self, rows: int) -> None:
        """Room for so many rows at most."""
        self._codes = Arena(rows, np.uint64)
        self._rows = Arena(rows, np.int32)
        self._start = 0
        self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def codes(self) -> Codes:
        codes: Codes = self._codes.array[self._start : self._stop]
        return codes

    @property
    def rows(self) -> Numbers:
        rows: Numbers = self._rows.array[self._start : self._stop]
        return rows

    def below(self, code: int) -> int:
        """How many rows have a smaller code."""
        return int(np.searchsorted(self.codes, np.uint64(code)))

    def until(self, code: int) -> int:
        """How many rows have this code or a smaller one."""
        return int(np.searchsorted(self.codes, np.uint64(code), side="right"))

    def drop(self, count: int) -> None:
        """Take the first rows away."""
        self._start += count
        if self._start == self._stop:
            self._start = self._stop = 0
            self._codes.release(0)
            self._rows.release(0)

    def merge(self, codes: Codes, rows: Numbers) -> None:
        """Add rows whose codes are in order."""
        if not len(codes):
            return
        if self._start:
            count = len(self)
            self._codes.array[:count] = self.codes
            self._rows.array[:count] = self.rows
            self._start, self._stop = 0, count
        kernels.merge_into(self._codes.array, self._rows.array, self._stop, codes, rows)
        self._stop += len(codes)

    def renumber(self, numbers: Numbers) -> None:
        """Row r is row numbers[r] from now on."""
        self._rows.array[self._start : self._stop] = numbers[self.rows]
