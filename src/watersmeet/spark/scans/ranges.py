"""What the footers of a table's files say about a column, in each of its row groups.

The driver has read every footer once, when it opened the table, and asks those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.expressions.nodes import Literal
from watersmeet.parquet.footers import Chunk, Range
from watersmeet.spark.scans.formulas import Computed
from watersmeet.spark.scans.scan import PlainScan, RowGroup
from watersmeet.spark.scans.selection import TableColumn


def ranges_of(scan: PlainScan, column: str) -> list[Range | None]:
    """Of whole numbers and times; None where a footer does not say."""
    found = []
    for group, source in _sources(scan, column):
        name = source.field.name if isinstance(source, TableColumn) else None
        footer = scan.footers[group.file]
        found.append(None if name is None else footer.range(group.number, name))
    return found


def ends_of(scan: PlainScan, column: str) -> list[tuple[Any, Any] | None]:
    """Of any type, in Python's types; None where nothing says them.

    Of floating-point numbers the ends leave NaN out.
    """
    return [chunk.ends for chunk in _chunks(scan, column)]


def facts_of(scan: PlainScan, column: str) -> ColumnFacts:
    """What is known of a column before a row is read."""
    return ColumnFacts.of(list(_chunks(scan, column)))


def _chunks(scan: PlainScan, column: str) -> Iterator[Chunk]:
    """A column in each row group: of one branch it may be in the files, of another in their paths,
    and of a third it may be computed."""
    for group, source in _sources(scan, column):
        match source:
            case TableColumn(kept, None):
                yield scan.footers[group.file].chunk(group.number, kept.name)
            case TableColumn(kept, int(place)):
                yield _alike(scan.files[group.file].partition[place], kept.type, group.rows)
            case Computed(tree=Literal(value, kind)):
                yield _alike(value, kind, group.rows)
            case _:
                yield Chunk.unknown()


def _alike(value: Any, kind: pa.DataType, rows: int) -> Chunk:
    """Of a column that has one value in all rows, which is given as Spark holds it."""
    if value is None:
        return Chunk(rows, math.nan, rows, None)
    try:
        known = pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return Chunk.unknown()  # A year that Python does not know.
    return Chunk(rows, math.nan, 0, (known, known))


def _sources(scan: PlainScan, column: str) -> Iterator[tuple[RowGroup, TableColumn | Computed]]:
    """Each row group, and where a column comes from in its branch."""
    sources = [selection.source(column) for selection in scan.selections]
    for group in scan.row_groups:
        yield group, sources[scan.branches[group.file]]
