"""Columns of lists, maps and structs: columns of their parts, and where each list begins.

They are in arenas, as other columns. Kept as Arrow arrays that came and went, they took twice the
memory, because Arrow's allocator kept as much freed memory as the rows took.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.kernels import ranges
from watersmeet.rows.address import Index, KeyBuffers
from watersmeet.rows.values import (
    FixedListValues,
    ListValues,
    Mask,
    StructValues,
    Values,
    elements_of,
    own_offsets,
    taken,
)
from watersmeet.store.arena import Arena
from watersmeet.store.flat import Validity


class Part(Protocol):
    """A column of some part of nested values, whose rows are dropped by ranges."""

    fixed_bytes: int

    @property
    def variable_bytes(self) -> int: ...

    def append(self, at: int, values: pa.Array, chosen: Index | None = None) -> None: ...

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        """Drop all rows but starts[k] .. stops[k] - 1 of every k; `starts` ascend."""
        ...

    def values(self) -> Values:
        """The rows as they are now; not valid after the next change."""
        ...


class _Nested(ABC):
    """What all nested columns do alike, by ranges of rows."""

    _kind: pa.DataType

    @abstractmethod
    def values(self) -> Values: ...

    @abstractmethod
    def keep_ranges(self, starts: Index, stops: Index) -> None: ...

    @abstractmethod
    def _append(self, at: int, values: pa.Array) -> None: ...

    def append(self, at: int, values: pa.Array, chosen: Index | None = None) -> None:
        self._append(at, values if chosen is None else taken(values, chosen))

    def take(self, index: Index) -> pa.Array:
        return self.values().taken(index)

    def widths(self, index: Index) -> Index:
        return self.values().widths(index, index + 1)

    def close_gaps(self, keep: Mask) -> None:
        edges = np.flatnonzero(np.diff(keep, prepend=False, append=False))
        self.keep_ranges(edges[::2].copy(), edges[1::2].copy())

    def key_buffers(self) -> KeyBuffers:
        raise TypeError(f"{self._kind} is no key type")


class StructColumn(_Nested):
    def __init__(self, kind: pa.DataType, fields: list[Part], *, rows: int) -> None:
        self._kind = kind
        self._fields = fields
        self._valid = Validity(rows)
        self.fixed_bytes = 1 + sum(field.fixed_bytes for field in fields)

    @property
    def variable_bytes(self) -> int:
        return sum(field.variable_bytes for field in self._fields)

    def _append(self, at: int, values: pa.Array) -> None:
        self._valid.append(at, values)
        for number, field in enumerate(self._fields):
            field.append(at, values.field(number))

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        self._valid.keep_ranges(starts, stops)
        for field in self._fields:
            field.keep_ranges(starts, stops)

    def values(self) -> StructValues:
        fields = tuple(field.values() for field in self._fields)
        return StructValues(self._kind, fields, self._valid.mask())


class ListColumn(_Nested):
    """Lists and maps of any length."""

    def __init__(self, kind: pa.DataType, elements: Part, *, rows: int) -> None:
        self._kind = kind
        self._elements = elements
        self._offsets = Arena(rows + 1, np.int64)
        self._valid = Validity(rows)
        self._rows = 0
        self.fixed_bytes = 9

    @property
    def variable_bytes(self) -> int:
        return self._count * self._elements.fixed_bytes + self._elements.variable_bytes

    @property
    def _count(self) -> int:
        return int(self._offsets.array[self._rows])

    def _append(self, at: int, values: pa.Array) -> None:
        self._valid.append(at, values)
        count = self._count
        self._elements.append(count, elements_of(values))
        self._rows = at + len(values)
        self._offsets.array[at : self._rows + 1] = own_offsets(values) + count

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        offsets = self._offsets.array
        self._elements.keep_ranges(offsets[starts], offsets[stops])
        self._rows = int(ranges.move_offsets(offsets, starts, stops))
        self._offsets.release(self._rows + 1)
        self._valid.keep_ranges(starts, stops)

    def values(self) -> ListValues:
        elements = self._elements.values()
        return ListValues(self._kind, self._offsets.array, elements, self._valid.mask())


class FixedListColumn(_Nested):
    """Lists that are all of one length."""

    def __init__(self, kind: pa.DataType, elements: Part, *, rows: int) -> None:
        self._kind = kind
        self._elements = elements
        self._size = kind.list_size
        self._valid = Validity(rows)
        self.fixed_bytes = 1 + self._size * elements.fixed_bytes

    @property
    def variable_bytes(self) -> int:
        return self._elements.variable_bytes

    def _append(self, at: int, values: pa.Array) -> None:
        self._valid.append(at, values)
        self._elements.append(at * self._size, elements_of(values))

    def keep_ranges(self, starts: Index, stops: Index) -> None:
        self._elements.keep_ranges(starts * self._size, stops * self._size)
        self._valid.keep_ranges(starts, stops)

    def values(self) -> FixedListValues:
        return FixedListValues(self._kind, self._elements.values(), self._valid.mask())
