"""A table that our tasks read from its files: which files those are, and what is taken of each.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil
from typing import Any

import pyarrow as pa

from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.footers import FileFooter
from watersmeet.spark.scans.selection import Selection
from watersmeet.words import count_text

# So many different filters and computed columns of branches are told, and so many branches of each.
_TOLD = 6
_NAMED = 3
# A row group that is read in so many pieces is decoded two and a half times, since Arrow cannot
# skip rows; one of fewer rows takes about as long to open.
_MOST_PIECES = 4
_LEAST_ROWS = 1 << 14


@dataclass(frozen=True)
class Split:
    """Rows [start, stop) of one row group of one file."""

    file: int
    row_group: int
    start: int
    stop: int


@dataclass(frozen=True)
class RowGroup:
    """`number` counts inside the file; `nbytes` are those of the columns read, uncompressed."""

    file: int
    number: int
    rows: int
    nbytes: int


@dataclass(frozen=True)
class PlainScan:
    """A DataFrame that we read ourselves. A value that can be sent to tasks.

    A union takes something else of the files of each of its branches. A file that is in several
    branches comes once for each of them in `files`, as its rows do in the union.
    """

    schema: pa.Schema
    files: tuple[DataFile, ...]
    row_groups: tuple[RowGroup, ...]
    # Of each branch what is taken of its files, and of each file the number of its branch.
    selections: tuple[Selection, ...]
    branches: tuple[int, ...]
    # Of each file, where it was opened; what is sent to tasks has none.
    footers: tuple[FileFooter, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "footers": ()}

    def selection(self, file: int) -> Selection:
        """What is taken of a file."""
        return self.selections[self.branches[file]]

    def only(self, columns: Sequence[str]) -> PlainScan:
        """The same rows with some columns."""
        return replace(
            self,
            schema=pa.schema([self.schema.field(name) for name in columns]),
            selections=tuple(each.only(columns) for each in self.selections),
        )

    @property
    def rows(self) -> int:
        """Before the filter, in row groups that can hold a row that it keeps."""
        return sum(group.rows for group in self.row_groups)

    @property
    def nbytes(self) -> int:
        return sum(group.nbytes for group in self.row_groups)

    @property
    def has_functions(self) -> bool:
        """Whether functions of the user's are called, which might take long, or end the process."""
        return any(each.has_functions for each in self.selections)

    def describe(self) -> str:
        counts = [
            count_text(len(self.files), "Parquet file"),
            count_text(len(self.row_groups), "row group"),
            count_text(self.rows, "row"),
        ]
        if len(self.selections) > 1:
            counts.insert(0, f"a union of {len(self.selections)} branches")
        return ", ".join([*counts, *self._taken()])

    def _taken(self) -> list[str]:
        """What is taken of files, and in which branches, unless it is in all of them."""
        found: dict[str, list[int]] = {}
        for number, selection in enumerate(self.selections, 1):
            for text in selection.describe():
                found.setdefault(text, []).append(number)
        told = [text + self._in_branches(numbers) for text, numbers in found.items()]
        more = len(told) - _TOLD
        return told if more <= 0 else [*told[:_TOLD], f"and {more:,} more filters and columns"]

    def _in_branches(self, numbers: Sequence[int]) -> str:
        if len(numbers) == len(self.selections):
            return ""
        if len(numbers) > _NAMED:
            return f" in {len(numbers):,} branches"
        *first, last = map(str, numbers)
        return f" in branches {', '.join(first)} and {last}" if first else f" in branch {last}"

    def cut(self, many: int) -> list[tuple[Split, ...]]:
        """The splits of each of at most so many partitions, in the order of the files' names."""
        groups = sorted(self.row_groups, key=lambda each: (self.files[each.file].path, each.number))
        partitions: dict[int, list[Split]] = {}
        before = 0
        for group in groups:
            wanted = ceil(group.rows * many / self.rows)
            pieces = max(min(wanted, _MOST_PIECES, group.rows // _LEAST_ROWS), 1)
            ends = [group.rows * number // pieces for number in range(pieces + 1)]
            for start, stop in pairwise(ends):
                # That in which the middle of the split lies.
                place = (2 * before + start + stop) * many // (2 * self.rows)
                split = Split(group.file, group.number, start, stop)
                partitions.setdefault(place, []).append(split)
            before += group.rows
        return [tuple(splits) for splits in partitions.values()]

    def read(self, split: Split, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a split that the filter keeps, in batches of at most `batch_rows`.

        InputChanged is raised if the file is not the one that was opened: before the first row,
        and again after the last, when what was handed out must not be used.
        """
        return self.selection(split.file).read(
            self.files[split.file],
            row_group=split.row_group,
            start=split.start,
            stop=split.stop,
            batch_rows=batch_rows,
        )
