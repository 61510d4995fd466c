"""The footer of a Parquet file: how large its row groups are, and what lies in their columns.

A footer is read once, when the file is opened, and kept as long as somebody asks about the file.
What it says of a column is followed in one way everywhere: whole numbers as they are, days as days,
instants in microseconds. Statistics of 96-bit timestamps are not followed, as writers disagreed
about their order; nor is what Python cannot express, such as a day in the year 12000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.parquet.numbered import StoredColumn

Range = tuple[int, int]
"""The least and the greatest value that is not null, or a little beyond them."""

# Reading a footer is waiting: for a disk, or for storage far away. Where it is not, several threads
# wait for each other: of 100 small files in the system's cache, for a third of the time.
_AT_ONCE = 8
_WAITING_S = 0.002
# A number of the file, times the first and over the second, is one of ours.
_UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}

_A = TypeVar("_A")
_B = TypeVar("_B")


@dataclass(frozen=True)
class Chunk:
    """A column in one row group. `ends` are its least and its most value in Python's types."""

    rows: int
    stored: float
    """Bytes, compressed."""
    nulls: float
    """How many; NaN where the file does not say."""
    ends: tuple[Any, Any] | None

    @classmethod
    def unknown(cls) -> Chunk:
        """Of a column of which the file says nothing."""
        return cls(0, math.nan, math.nan, None)


class Footer:
    """Of one file, by the names that its columns have there."""

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
        """`schema` is what Arrow makes of the file's columns."""
        self.metadata = metadata
        self.schema = schema
        self._first: Footer | None = None

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Footer:
        """Of a file that is open."""
        return cls(file.metadata, file.schema_arrow)

    @classmethod
    def read(cls, path: Any, like: Footer | None = None) -> Footer:
        """Of a file; if its columns are just those of another one, what follows from them is
        found once."""
        metadata = pq.read_metadata(path)
        if (
            like is not None
            and metadata.schema.equals(like.metadata.schema)
            and metadata.metadata == like.metadata.metadata
        ):
            footer = cls(metadata, like.schema)
            footer._first = like
            return footer
        return cls(metadata, metadata.schema.to_arrow_schema())

    @property
    def row_groups(self) -> int:
        return int(self.metadata.num_row_groups)

    def rows(self, group: int) -> int:
        return int(self.metadata.row_group(group).num_rows)

    def middles(self) -> list[tuple[int, int]]:
        """Of each row group, about at which byte of the file its middle lies, and its rows."""
        groups = [self.metadata.row_group(number) for number in range(self.row_groups)]
        ends = [_begin(group) for group in groups]
        if groups:
            columns = (groups[-1].column(place) for place in range(groups[-1].num_columns))
            ends.append(ends[-1] + sum(column.total_compressed_size for column in columns))
        return [
            ((start + end) // 2, int(group.num_rows))
            for (start, end), group in zip(pairwise(ends), groups, strict=True)
        ]

    @cached_property
    def _leaves(self) -> dict[str, int]:
        """Where each leaf is; a field of a struct may have the name of a column."""
        if self._first is not None:
            return self._first._leaves
        schema = self.metadata.schema
        return {schema.column(place).path: place for place in range(len(schema))}

    def sizes(self, names: Sequence[str]) -> Iterator[int]:
        """Of each row group, the uncompressed bytes of these columns, all leaves of nested ones."""
        places = self._places(names)
        for number in range(self.row_groups):
            group = self.metadata.row_group(number)
            yield sum(group.column(place).total_uncompressed_size for place in places)

    def largest(self, number: int, names: Sequence[str]) -> int:
        """The bytes of the largest of these columns in a row group, as they are in the file."""
        group = self.metadata.row_group(number)
        sizes = (group.column(place).total_compressed_size for place in self._places(names))
        return max(sizes, default=0)

    def _places(self, names: Sequence[str]) -> list[int]:
        whole = set(names)
        nested = tuple(f"{name}." for name in names)
        return [
            place
            for path, place in self._leaves.items()
            if path in whole or path.startswith(nested)
        ]

    def stored(self, group: int, name: str) -> StoredColumn | None:
        """Where a column of numbers is, if they may be read as numbers of distinct values."""
        place = self._leaves.get(name)
        if place is None:
            return None
        return StoredColumn.of(self.metadata, group, place, self.schema.field(name).type)

    def chunk(self, group: int, name: str) -> Chunk:
        """Nothing is known of a nested column: what its leaves hold are no values of it."""
        place = self._leaves.get(name)
        if place is None:
            return Chunk.unknown()
        found = self.metadata.row_group(group)
        column = found.column(place)
        statistics = _followed(column)
        counted = statistics is not None and statistics.has_null_count
        return Chunk(
            rows=int(found.num_rows),
            stored=column.total_compressed_size,
            nulls=statistics.null_count if counted else math.nan,
            ends=_ends(statistics),
        )

    def range(self, group: int, name: str) -> Range | None:
        """What the values of a column of whole numbers, days or instants lie between.

        None if the file does not say. Of nanoseconds the ends are rounded outwards.
        """
        place, unit = self._leaves.get(name), self._units.get(name)
        if place is None or unit is None:
            return None
        statistics = _followed(self.metadata.row_group(group).column(place))
        if statistics is None or not statistics.has_min_max:
            return None
        least, most = int(statistics.min_raw), int(statistics.max_raw)
        times, over = unit
        return least * times // over, -(-most * times // over)

    @cached_property
    def _units(self) -> dict[str, tuple[int, int]]:
        if self._first is not None:
            return self._first._units
        known = {field.name: _unit(field.type) for field in self.schema}
        return {name: unit for name, unit in known.items() if unit is not None}


def each_footer(read: Callable[[_A], _B], files: Iterable[_A]) -> list[_B]:
    """What `read` makes of each file, several of them at a time once that means to wait."""
    found = []
    left = iter(files)
    for file in left:
        began = perf_counter()
        found.append(read(file))
        if perf_counter() - began > _WAITING_S:
            break
    rest = list(left)
    if rest:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found += pool.map(read, rest)
    return found


def _begin(group: pq.RowGroupMetaData) -> int:
    """At which byte of its file a row group begins."""
    column = group.column(0)
    first, data = column.dictionary_page_offset, column.data_page_offset
    return int(data if first is None else min(first, data))


def _unit(kind: pa.DataType) -> tuple[int, int] | None:
    if pt.is_timestamp(kind):
        return _UNITS[kind.unit]
    return (1, 1) if pt.is_signed_integer(kind) or pt.is_date32(kind) else None


def _followed(column: Any) -> Any:
    return None if column.physical_type == "INT96" else column.statistics


def _ends(statistics: Any) -> tuple[Any, Any] | None:
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        return statistics.min, statistics.max
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        return None  # A type, or a year, that Python does not know.
