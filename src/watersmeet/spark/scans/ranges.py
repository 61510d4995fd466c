"""Between which values does a column lie, in each row group of a table and in all of it?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq

from watersmeet.aggregates.bounds import extremes_in
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
            paths = [file.schema.column(number).path for number in range(len(file.schema))]
            return _Footer(file.metadata, paths, found, Statistics(file, dict(enumerate(found))))

    def ranges(self, column: str) -> list[Range | None]:
        """Of whole numbers and times in each row group; None where a footer does not say."""
        place = self._place(column)
        groups = self._scan.row_groups
        if place is None:
            return [None] * len(groups)
        return [self._files[group.file].statistics.range(group.number, place) for group in groups]

    def extremes(self, column: str) -> tuple[float, float] | None:
        """Of a number in all row groups; None if one of them does not say."""
        place = self._place(column)
        if place is None:
            return None
        found = [
            _extremes(self._files[group.file], group.number, place)
            for group in self._scan.row_groups
        ]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        return min(least for least, _ in known), max(most for _, most in known)

    def _place(self, column: str) -> int | None:
        """Among the columns that are in the files; None for one that a path gives."""
        scan = self._scan
        position = scan.output[scan.schema.get_field_index(column)]
        if scan.columns[position].partition is not None:
            return None
        return sum(each.partition is None for each in scan.columns[:position])


def _extremes(footer: _Footer, group: int, place: int) -> tuple[float, float] | None:
    name = footer.readings[place].name
    if name not in footer.paths:
        return None
    column = footer.metadata.row_group(group).column(footer.paths.index(name))
    return extremes_in(column.statistics)


def known_extremes(footers: Footers, columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Those that the footers know."""
    found = {column: footers.extremes(column) for column in columns}
    return {column: ends for column, ends in found.items() if ends is not None}
