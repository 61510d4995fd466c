"""One input's rows in memory, in order of their codes, or in several orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.rows.values import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.flat import close_fixed
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows, stored_bytes
from watersmeet.store.sorted_index import Classes, SortedIndex, any_class

Ordered = tuple[Codes, NDArray[np.int32]]
"""Codes in order, and where each of them was before."""

# Of each row: its region in the index, and whether it has joined since the clock's hand passed.
_FLAG_BYTES = 2


@lru_cache
def sorted_bytes(schema: pa.Schema, orders: int = 1) -> int:
    """Bytes of a row of this schema in a sorted table, without values of variable width."""
    return stored_bytes(schema) + orders * (SortedIndex.BYTES + _FLAG_BYTES)


class NewOrder(NamedTuple):
    """What a table is told of rows that are added, for one of its orders: their codes in order
    with where each of them is in the batch, their regions, and their join bits."""

    ordered: Ordered
    regions: NDArray[np.uint8]
    joined: NDArray[np.bool_] | NDArray[np.uint8]


class RowOrder:
    """A sorted index over all rows of a table, and two flags for each row."""

    def __init__(self, rows: int, classes: Classes) -> None:
        self.index = SortedIndex(rows, classes)
        self._regions = Arena(rows, np.uint8)
        self._joined = Arena(rows, np.uint8)

    @property
    def regions(self) -> NDArray[np.uint8]:
        """The region of each row."""
        return self._regions.array[: len(self.index)]

    @property
    def joined(self) -> NDArray[np.uint8]:
        """The join bit of each row: 1 if it has joined since the clock's hand passed it."""
        return self._joined.array[: len(self.index)]

    def add(self, new: NewOrder) -> None:
        start = len(self.index)
        self.index.add_in_order(*new.ordered)
        self._regions.array[start : len(self.index)] = new.regions
        self._joined.array[start : len(self.index)] = new.joined

    def drop(self, keep: Mask) -> None:
        for flags in (self._regions, self._joined):
            flags.release(close_fixed(flags.array, keep))
        self.index.drop(keep)


class SortedTable(IndexedRows):
    """Rows of one input in one order or more."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        rows: int,
        nbytes: int,
        encode: Callable[[Index], Codes],
        orders: int = 1,
        classes: Classes = any_class,
    ) -> None:
        """`encode` computes the codes of rows by number in the first order: an index has them only
        sorted. `classes` says of which classes codes are."""
        super().__init__(schema, rows=rows, nbytes=nbytes, each=sorted_bytes(schema, orders))
        self.orders = tuple(RowOrder(rows, classes) for _ in range(orders))
        self._encode = encode

    @property
    def index(self) -> SortedIndex:
        """The index of the first order."""
        return self.orders[0].index

    @property
    def regions(self) -> NDArray[np.uint8]:
        """The regions of the first order."""
        return self.orders[0].regions

    @property
    def joined(self) -> NDArray[np.uint8]:
        """The join bits of the first order."""
        return self.orders[0].joined

    def codes(self, index: Index) -> Codes:
        return self._encode(index)

    def add(
        self, stamps: NDArray[np.int64], rows: pa.RecordBatch, orders: Sequence[NewOrder]
    ) -> None:
        """Add rows, with what each order needs to know of them."""
        self.append(stamps, rows)
        for order, new in zip(self.orders, orders, strict=True):
            order.add(new)

    def drop(self, keep: Mask) -> None:
        """Drop the rows that are not kept."""
        self.remove(keep)
        for order in self.orders:
            order.drop(keep)

    def clear(self) -> None:
        """Drop all rows."""
        self.drop(np.zeros(len(self), np.bool_))
