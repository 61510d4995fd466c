"""A table of text files whose lines our tasks read, but for those that only Spark can read.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.delimited.layout import Layout
from watersmeet.delimited.ranges import lines_between
from watersmeet.delimited.reading import NotPlain, columns_of
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.selection import Selection
from watersmeet.words import count_text, size_text

# So much text is in memory at a time.
_CHUNK_BYTES = 1 << 20
_BATCH_ROWS = 1 << 16
# Behind a line that is not plain, batches are small for a while. Behind so many such lines, all
# that is left of a chunk is left to Spark.
_MOST_REFUSED = 64
# A smaller partition takes longer to begin than to read.
_LEAST_BYTES = 64 * 1024
MARK = b"\xef\xbb\xbf"
"""Of UTF-8, before the first line of some files."""

Refused = Callable[[pa.Buffer, str], None]
"""What is told of text that is not plain: whole lines, and what is wrong with the first of them."""


@dataclass(frozen=True)
class TextRange:
    """The lines of a file that begin in [start, stop)."""

    file: int
    start: int
    stop: int


@dataclass(frozen=True)
class SparkReader:
    """How Spark reads copies of lines, as plain values."""

    format: str
    """As Spark calls it."""
    schema: str
    """In Spark's JSON."""
    columns: tuple[tuple[str, str], ...]
    """Of those that are read, their names in this schema, and what `raw` calls them."""
    options: tuple[tuple[str, str], ...]
    head: bytes
    """Begins a copy, as its first line may be read in another way; no row comes of it."""
    where: str = ""
    """Rows that are needed, in SQL."""


@dataclass
class Tally:
    """Of the lines that Spark has parsed, how many there were, and why."""

    lines: dict[TextRange, int] = field(default_factory=dict)
    reason: str = ""

    def describe(self) -> list[str]:
        if not self.lines:
            return []
        count = sum(self.lines.values())
        return [f"{count_text(count, 'line')} parsed by Spark (first, {self.reason})"]


@dataclass(frozen=True)
class TextScan:
    """A DataFrame whose lines we read ourselves. A value that can be sent to tasks."""

    schema: pa.Schema
    files: tuple[DataFile, ...]
    begins: tuple[int, ...]
    """Where lines begin in each file, behind its header."""
    selection: Selection
    layout: Layout
    # For each column that the selection takes from inside of files, its place among those that the
    # layout reads; these come in the order of the file.
    places: tuple[int, ...]
    reader: SparkReader
    line_bytes: float
    """About what a line has, by those that were looked at."""
    # Known where it was opened; what is sent to tasks has none.
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "tally": Tally()}

    @property
    def nbytes(self) -> int:
        pairs = zip(self.files, self.begins, strict=True)
        return sum(file.size - begin for file, begin in pairs)

    @property
    def rows(self) -> int:
        """About, before the filter."""
        return ceil(self.nbytes / max(self.line_bytes, 1.0))

    def describe(self) -> str:
        files = count_text(len(self.files), f"{self.reader.format.upper()} file")
        parts = [files, size_text(self.nbytes), *self.selection.describe()]
        return ", ".join([*parts, *self.tally.describe()])

    def cut(self, many: int) -> list[tuple[TextRange, ...]]:
        """The ranges of each of about so many partitions, all of about one size, in the order of
        the files' names: a directory lists its files in no order, and a seed should mean the same
        again."""
        each = max(ceil(self.nbytes / many), _LEAST_BYTES)
        partitions: list[list[TextRange]] = []
        room = 0
        for number in sorted(range(len(self.files)), key=lambda number: self.files[number].path):
            at, end = self.begins[number], self.files[number].size
            while at < end:
                if not room:
                    partitions.append([])
                    room = each
                stop = min(at + room, end)
                partitions[-1].append(TextRange(number, at, stop))
                room -= stop - at
                at = stop
        return [tuple(ranges) for ranges in partitions]

    @property
    def raw(self) -> pa.Schema:
        """The columns that are read, in the order of the file. At least one: rows are counted by
        it."""
        kinds = [kind for kind in self.layout.kinds if kind is not None] or [pa.string()]
        names = [name for _, name in self.reader.columns]
        return pa.schema(list(zip(names, kinds, strict=True)))

    def read(self, part: TextRange, refused: Refused) -> Iterator[pa.RecordBatch]:
        """The rows of a range that the filter keeps, but for lines that are `refused`.

        InputChanged is raised if the file is not the one that was opened: before the first row,
        and again after the last, when what was handed out must not be used.
        """
        file = self.files[part.file]
        for columns, rows in self._columns(file, part, refused):
            yield from self._kept(columns, rows, file)

    def look(self, part: TextRange, refused: Refused) -> None:
        """Tell of the lines of a range that are `refused`; of the others nothing is computed."""
        for _ in self._columns(self.files[part.file], part, refused):
            pass

    def parsed(
        self, part: TextRange, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """What is taken of lines of a range that Spark has parsed into the `raw` columns."""
        for batch in batches:
            yield from self._kept(batch.columns, batch.num_rows, self.files[part.file])

    def _kept(
        self, columns: Sequence[pa.Array], rows: int, file: DataFile
    ) -> Iterator[pa.RecordBatch]:
        in_file = (columns[place] for place in self.places)
        kept = self.selection.taken(in_file, rows, file=file)
        if kept.num_rows:
            yield kept

    def _columns(
        self, file: DataFile, part: TextRange, refused: Refused
    ) -> Iterator[tuple[list[pa.Array], int]]:
        try:
            file.check()
            with Path(file.path).open("rb", buffering=0) as opened:
                for start in range(part.start, part.stop, _CHUNK_BYTES):
                    stop = min(start + _CHUNK_BYTES, part.stop)
                    text = lines_between(opened, start, stop, size=file.size)
                    yield from plain_rows(text, self.layout, refused)
        except (OSError, EOFError):
            file.check()
            raise
        file.check()


def column_name(place: int) -> str:
    """What a column of lines is called that Spark is given to parse."""
    return f"c{place}"


def plain_rows(
    text: pa.Buffer, layout: Layout, refused: Refused
) -> Iterator[tuple[list[pa.Array], int]]:
    """Columns of the lines that are plain, and how many rows; `refused` is told of the others.

    Which lines are refused depends on nothing but the text.
    """
    count = 0

    def refuse(line: NotPlain) -> None:
        nonlocal count
        count += 1
        if count == _MOST_REFUSED:
            raise line
        refused(text.slice(line.start, line.stop - line.start), line.reason)

    try:
        yield from columns_of(text, layout, batch_rows=_BATCH_ROWS, refuse=refuse)
    except NotPlain as line:
        refused(text.slice(line.start), line.reason)
