"""Counts results, and splits chunks that would not fit their share of memory for long rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from watersmeet.operators.metrics import Metrics
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.batch import is_variable
from watersmeet.rows.schema import JoinSchema


class OutputLimiter:
    """Counts the results of each stage, and splits chunks whose copy would take more than
    `most_bytes`.

    The number of rows in a chunk is chosen by the mean size of a row, but matches may be of long
    rows. Sizes are added up only if a chunk of the longest rows of its sources would not fit.
    """

    def __init__(self, schema: JoinSchema, metrics: Metrics, *, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._metrics = metrics
        self._columns = [
            [column for column, kind in enumerate(schema.stored(n).types) if is_variable(kind)]
            for n in range(len(schema.inputs))
        ]

    def passed(self, matches: Matches) -> Iterable[Matches]:
        """The same results in chunks, one if their rows are short enough."""
        self._metrics.results[matches.stage] += len(matches)
        longest = sum(
            rows.source.longest(columns)
            for rows, columns in zip(matches.rows, self._columns, strict=True)
            if rows is not None and columns
        )
        if len(matches) * longest <= self.most_bytes:
            return (matches,)
        return self._split(matches)

    def _split(self, matches: Matches) -> Iterator[Matches]:
        lengths = np.zeros(len(matches), np.int64)
        for input, rows in enumerate(matches.rows):
            if rows is not None:
                for column in self._columns[input]:
                    lengths += rows.source.widths(column, rows.index)
        ends = np.cumsum(lengths)
        start = 0
        while start < len(matches):
            before = int(ends[start - 1]) if start else 0
            fits = int(np.searchsorted(ends, before + self.most_bytes, side="right"))
            stop = max(fits, start + 1)
            yield Matches(tuple(_part(rows, start, stop) for rows in matches.rows), matches.stage)
            start = stop


def _part(rows: Rows | None, start: int, stop: int) -> Rows | None:
    return None if rows is None else Rows(rows.source, rows.index[start:stop])
