"""Results in portions that fit their memory, although some rows are much longer than most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import fixed_width, is_ranged, values_of

_ANY_LENGTH = 2**40


class OutputLimiter:
    """Splits chunks whose copy would not fit in `room` bytes.

    Chunks are bounded by the mean size of a row, and long rows may well meet each other. Sizes
    are added up only if a chunk of the longest rows ever seen would not fit.
    """

    def __init__(self, schema: JoinSchema, room: int) -> None:
        self.room = room
        self._columns = [
            [column for column, kind in enumerate(schema.stored(n).types) if _is_variable(kind)]
            for n in range(len(schema.inputs))
        ]
        self._longest = [0] * len(schema.inputs)

    def arrived(self, input: int, rows: pa.RecordBatch) -> None:
        """Remember how long a row can be."""
        if len(rows):
            longest = sum(_longest(rows.column(column)) for column in self._columns[input])
            self._longest[input] = max(self._longest[input], longest)

    def expect_any_length(self) -> None:
        """Rows are there that were not seen to arrive."""
        self._longest = [_ANY_LENGTH if columns else 0 for columns in self._columns]

    def split(self, matches: Matches) -> Iterator[Matches]:
        if len(matches) * sum(self._longest) <= self.room:
            yield matches
            return
        lengths = np.zeros(len(matches), np.int64)
        for input, rows in enumerate(matches.rows):
            if rows is not None:
                for column in self._columns[input]:
                    lengths += rows.source.widths(column, rows.index)
        ends = np.cumsum(lengths)
        start = 0
        while start < len(matches):
            before = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, before + self.room, side="right")), start + 1)
            parts = tuple(_part(rows, start, stop) for rows in matches.rows)
            yield Matches(parts, matches.stage)
            start = stop


def _is_variable(kind: pa.DataType) -> bool:
    return is_ranged(kind) and fixed_width(kind) is None


def _longest(values: pa.Array) -> int:
    every = np.arange(len(values))
    return int(values_of(values).widths(every, every + 1).max())


def _part(rows: Rows | None, start: int, stop: int) -> Rows | None:
    return None if rows is None else Rows(rows.source, rows.index[start:stop])
