"""Rows by address: operators yield where matching rows are, and `JoinSchema.materialise` copies
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side

Index = NDArray[np.int64]


class RowSource(Protocol):
    """Rows that can be copied out by position: a batch, a spilled block, a table in memory."""

    def take(self, column: int, index: Index) -> pa.Array:
        """The values of one column at these positions."""
        ...

    def widths(self, column: int, index: Index) -> Index:
        """How many bytes the values of one column at these positions take."""
        ...

    def longest(self, columns: Sequence[int]) -> int:
        """At most how many bytes the values of these columns take in one row, together."""
        ...

    def key_buffers(self, column: int) -> KeyBuffers:
        """The raw bytes of one column of fixed or variable width, without a copy."""
        ...


@dataclass(frozen=True, slots=True)
class KeyBuffers:
    """One column's bytes. `offsets` is empty for a column of fixed `width`."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    width: int


@dataclass(frozen=True, slots=True)
class Rows:
    source: RowSource
    index: Index

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True)
class Matches:
    """Result rows as addresses: of every input one row for each, in the inputs' order.

    None for an input means that the rows have no partner there (outer and anti joins), or that it
    does not matter (semi joins). Addresses are valid until the generator that yielded them goes on.
    """

    rows: tuple[Rows | None, ...]
    stage: str
    """Where in the algorithm it was found."""
    version: str | None = None
    """The version of the master table that the rows have met, in joins with one."""

    def __len__(self) -> int:
        return next((len(rows) for rows in self.rows if rows is not None), 0)

    @property
    def left(self) -> Rows | None:
        return self.rows[Side.LEFT]

    @property
    def right(self) -> Rows | None:
        return self.rows[Side.RIGHT]
