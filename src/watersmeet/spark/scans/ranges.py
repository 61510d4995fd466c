"""Between which values does a column lie, in each row group of a table and in all of it?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.spark.scans.parquet import Reading, open_file, readings
from watersmeet.spark.scans.pruning import Range, Statistics
from watersmeet.spark.scans.scan import PlainScan, inside

_FOOTERS_AT_ONCE = 8


def ranges_of(scan: PlainScan, column: str) -> list[Range | None]:
    """For each row group, from the footers; None where they do not say."""
    return Footers(scan).ranges(column)


@dataclass(frozen=True)
class _Footer:
    metadata: pq.FileMetaData
    paths: list[str]
    readings: tuple[Reading, ...]
    statistics: Statistics


class Footers:
    """The footers of a table's files, opened once."""

    def __init__(self, scan: PlainScan) -> None:
        self._scan = scan
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            self._files = list(pool.map(self._open, [file.path for file in scan.files]))

    def _open(self, path: str) -> _Footer:
        with open_file(path) as file:
            found = readings(file, inside(self._scan.columns), dialect=self._scan.dialect)
            names = [column.name for column in inside(self._scan.columns)]
            paths = [file.schema.column(number).path for number in range(len(file.schema))]
            return _Footer(
                file.metadata, paths, found, Statistics(file, dict(zip(names, found, strict=True)))
            )

    def ranges(self, column: str) -> list[Range | None]:
        """Of whole numbers and times in each row group; None where a footer does not say."""
        position = self._scan.output[self._scan.schema.get_field_index(column)]
        name = self._scan.columns[position].field.name
        return [
            self._files[group.file].statistics.range(group.number, name)
            for group in self._scan.row_groups
        ]

    def facts(self, column: str) -> ColumnFacts:
        """What is known of a column in every row group."""
        groups = self._scan.row_groups
        rows = [group.rows for group in groups]
        place = self._place(column)
        if place is not None:
            chunks = [_chunk(self._files[group.file], group.number, place) for group in groups]
            return ColumnFacts.of(chunks, rows)
        # A path gives it, the same for all rows of a file.
        position = self._scan.output[self._scan.schema.get_field_index(column)]
        number = self._scan.columns[position].partition
        assert number is not None
        values = [self._scan.files[group.file].partition[number] for group in groups]
        return ColumnFacts.between(
            [None if value is None else (value, value) for value in values],
            nulls=np.array([float(value is None) for value in values]),
            width=np.full(len(groups), np.nan),
        )

    def _place(self, column: str) -> int | None:
        """Among the columns that are in the files; None for one that a path gives."""
        scan = self._scan
        position = scan.output[scan.schema.get_field_index(column)]
        if scan.columns[position].partition is not None:
            return None
        return sum(each.partition is None for each in scan.columns[:position])


def _chunk(footer: _Footer, group: int, place: int) -> Any:
    name = footer.readings[place].name
    if name not in footer.paths:
        return None
    return footer.metadata.row_group(group).column(footer.paths.index(name))
