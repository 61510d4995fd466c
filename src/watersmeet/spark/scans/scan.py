"""How a task reads its part of a table's files, with Spark's meaning.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.expressions.evaluation import Evaluation
from watersmeet.expressions.nodes import Logic, Node, columns_of, conjuncts
from watersmeet.model import Side
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.footers import FileFooter
from watersmeet.spark.scans.parquet import Dialect, names_in, open_file, read_rows, readings
from watersmeet.spark.scans.refusal import Refused
from watersmeet.words import count_text


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
class TableColumn:
    """A column that is read; `partition` is its place among the values that a path gives."""

    field: pa.Field
    partition: int | None


def inside(columns: Sequence[TableColumn]) -> list[pa.Field]:
    """Those that are in the files and not in their paths."""
    return [column.field for column in columns if column.partition is None]


@dataclass(frozen=True)
class Filter:
    """A condition over columns of the table, and how Spark writes it."""

    text: str
    condition: Node

    @property
    def conjuncts(self) -> tuple[Filter, ...]:
        """The parts that must all be true for a row to be kept."""
        return tuple(Filter(self.text, part) for part in conjuncts(self.condition))

    @property
    def names(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset(column.name for column in columns_of(self.condition))

    def and_then(self, other: Filter) -> Filter:
        both = Logic("AND", self.condition, other.condition, pa.bool_())
        return Filter(f"{self.text} AND {other.text}", both)

    def mask(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """True, false or null for each row."""
        given = {(Side.LEFT, name): columns[name] for name in self.names}
        found = Evaluation(given).truth(self.condition).answer
        # An answer that is the same for all rows is one value: IS NULL where no row is null.
        rows = len(next(iter(given.values())))
        return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found


@dataclass(frozen=True)
class PlainScan:
    """A DataFrame that we read ourselves. A value that can be sent to tasks."""

    schema: pa.Schema
    files: tuple[DataFile, ...]
    row_groups: tuple[RowGroup, ...]
    filter: Filter | None
    columns: tuple[TableColumn, ...]
    # For each column of `schema`, its position in `columns`; the filter may look at more.
    output: tuple[int, ...]
    dialect: Dialect
    # Of each file, where it was opened; what is sent to tasks has none.
    footers: tuple[FileFooter, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "footers": ()}

    def only(self, columns: Sequence[str]) -> PlainScan:
        """The same rows with some columns."""
        chosen = [self.output[self.schema.get_field_index(name)] for name in columns]
        looked_at = frozenset() if self.filter is None else self.filter.names
        needed = [
            place
            for place, each in enumerate(self.columns)
            if place in chosen or each.field.name in looked_at
        ]
        return replace(
            self,
            schema=pa.schema([self.schema.field(name) for name in columns]),
            columns=tuple(self.columns[place] for place in needed),
            output=tuple(map(needed.index, chosen)),
        )

    @property
    def rows(self) -> int:
        """Before the filter, in row groups that can hold a row that it keeps."""
        return sum(group.rows for group in self.row_groups)

    @property
    def nbytes(self) -> int:
        return sum(group.nbytes for group in self.row_groups)

    def describe(self) -> str:
        counts = [
            count_text(len(self.files), "Parquet file"),
            count_text(len(self.row_groups), "row group"),
            count_text(self.rows, "row"),
        ]
        return ", ".join(counts if self.filter is None else [*counts, f"filter {self.filter.text}"])

    def read(self, split: Split, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a split that the filter keeps, in batches of at most `batch_rows`.

        InputChanged is raised if the file is not the one that was opened: before the first row,
        and again after the last, when what was handed out must not be used.
        """
        file = self.files[split.file]
        try:
            with open_file(file.path) as opened:
                file.check()
                yield from self._read(opened, file, split=split, batch_rows=batch_rows)
        except (OSError, pa.ArrowException, Refused):
            file.check()
            raise
        file.check()

    def _read(
        self, opened: pq.ParquetFile, file: DataFile, *, split: Split, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        found = readings(opened, inside(self.columns), dialect=self.dialect)
        batches = read_rows(
            opened,
            split.row_group,
            start=split.start,
            stop=split.stop,
            names=names_in(found),
            batch_rows=batch_rows,
        )
        for batch in batches:
            in_file = (reading.of(batch) for reading in found)
            columns = [
                next(in_file) if c.partition is None else _repeated(c, file, batch.num_rows)
                for c in self.columns
            ]
            kept = self._filtered(columns)
            if kept.num_rows:
                yield kept

    def _filtered(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        chosen = [columns[position] for position in self.output]
        rows = pa.RecordBatch.from_arrays(chosen, schema=self.schema)
        if self.filter is None:
            return rows
        names = (column.field.name for column in self.columns)
        mask = self.filter.mask(dict(zip(names, columns, strict=True)))
        return rows if mask.true_count == len(mask) else rows.filter(mask)


def _repeated(column: TableColumn, file: DataFile, rows: int) -> pa.Array:
    assert column.partition is not None
    return pa.repeat(pa.scalar(file.partition[column.partition], column.field.type), rows)
