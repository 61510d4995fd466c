"""What the footers of a table's files say about a column, in each of its row groups.

The driver has read every footer once, when it opened the table, and asks those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.parquet.footers import Chunk, Range
from watersmeet.spark.scans.footers import FileFooter
from watersmeet.spark.scans.scan import PlainScan


def ranges_of(scan: PlainScan, column: str) -> list[Range | None]:
    """Of whole numbers and times; None where a footer does not say."""
    found = scan.source(column)
    if found is None:
        return [None] * len(scan.row_groups)
    name = found.field.name
    return [footer.range(group, name) for footer, group in _row_groups(scan)]


def ends_of(scan: PlainScan, column: str) -> list[tuple[Any, Any] | None]:
    """Of any type, in Python's types; None where a footer does not say.

    Of floating-point numbers the ends leave NaN out.
    """
    found = scan.source(column)
    if found is None:
        return [None] * len(scan.row_groups)
    if found.partition is None:
        name = found.field.name
        return [footer.chunk(group, name).ends for footer, group in _row_groups(scan)]
    values = (scan.files[group.file].partition[found.partition] for group in scan.row_groups)
    return [None if value is None else (value, value) for value in values]


def facts_of(scan: PlainScan, column: str) -> ColumnFacts:
    """What is known of a column before a row is read."""
    found = scan.source(column)
    if found is None:
        return ColumnFacts.of([Chunk.unknown() for _ in scan.row_groups])
    if found.partition is None:
        name = found.field.name
        return ColumnFacts.of([footer.chunk(group, name) for footer, group in _row_groups(scan)])
    # A path gives it, the same for all rows of a file.
    files = (scan.files[group.file] for group in scan.row_groups)
    values = [file.partition[found.partition] for file in files]
    return ColumnFacts.between(
        [None if value is None else (value, value) for value in values],
        nulls=np.array([float(value is None) for value in values]),
        width=np.full(len(values), np.nan),
    )


def _row_groups(scan: PlainScan) -> Iterator[tuple[FileFooter, int]]:
    for group in scan.row_groups:
        yield scan.footers[group.file], group.number
