"""What is taken of a table's files: which rows, which columns, and what is computed of them.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.expressions.nodes import Cast, Column, Node, conjuncts
from watersmeet.spark.scans.calls import Calls
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.formulas import Computed, Filter
from watersmeet.spark.scans.parquet import (
    Dialect,
    Reading,
    names_in,
    open_file,
    read_all,
    read_rows,
    readings,
)
from watersmeet.spark.scans.refusal import Refused

_Part = Callable[[pq.ParquetFile, Sequence[str]], Iterator[pa.RecordBatch]]
"""What is read of an open file, given the columns to read."""


@dataclass(frozen=True)
class TableColumn:
    """A column that is read; `partition` is its place among the values that a path gives."""

    field: pa.Field
    partition: int | None


def inside(columns: Sequence[TableColumn]) -> list[pa.Field]:
    """Those that are in the files and not in their paths."""
    return [column.field for column in columns if column.partition is None]


@dataclass(frozen=True)
class Selection:
    """What is taken of each file of a table, whichever files those are."""

    schema: pa.Schema
    filter: Filter | None
    columns: tuple[TableColumn, ...]
    # For each column of `schema`, its position in `columns`, or how it is computed from those; the
    # filter may look at more.
    output: tuple[int | Computed, ...]
    dialect: Dialect
    # Behind the filter, in this order: functions of the user's that are called on the rows that are
    # left, whose results computed columns look at, and filters that look at results.
    steps: tuple[Calls | Filter, ...] = ()

    def only(self, columns: Sequence[str]) -> Selection:
        """The same rows with some columns."""
        chosen = [self.output[self.schema.get_field_index(name)] for name in columns]
        steps, looked_at = self._needed(chosen)
        needed = [
            place
            for place, each in enumerate(self.columns)
            if place in chosen or each.field.name in looked_at
        ]
        return replace(
            self,
            schema=pa.schema([self.schema.field(name) for name in columns]),
            columns=tuple(self.columns[place] for place in needed),
            output=tuple(
                source if isinstance(source, Computed) else needed.index(source)
                for source in chosen
            ),
            steps=steps,
        )

    def _needed(
        self, output: Sequence[int | Computed]
    ) -> tuple[tuple[Calls | Filter, ...], frozenset[str]]:
        """The steps that these columns need, and by name the columns that filters, functions and
        computed columns look at."""
        computed = [source.names for source in output if isinstance(source, Computed)]
        names: frozenset[str] = frozenset().union(*computed)
        steps = []
        for step in reversed(self.steps):
            if isinstance(step, Filter) or any(each.name in names for each in step.results):
                steps.append(step)
                names |= step.names
        return tuple(reversed(steps)), names | (self.filter.names if self.filter else frozenset())

    def source(self, column: str) -> TableColumn | Computed:
        """The column of the table whose values it has, or how it is computed."""
        found: int | Computed = self.output[self.schema.get_field_index(column)]
        if not isinstance(found, Computed):
            return self.columns[found]
        match found.tree:
            # As unions cast, whose branches differ in their types.
            case Cast(Column() as narrow, kind) if _holds(kind, narrow.kind):
                same = (each for each in self.columns if each.field.name == narrow.name)
                # What a function returned is no column of the table.
                return next(same, found)
        return found

    @property
    def conditions(self) -> list[Node]:
        """The parts of the filter, which must all be true for a row to be kept."""
        return [] if self.filter is None else list(conjuncts(self.filter.condition))

    @property
    def has_functions(self) -> bool:
        """Whether functions of the user's are called."""
        return any(isinstance(step, Calls) for step in self.steps)

    @property
    def kinds(self) -> list[pa.DataType]:
        """Of all that is in memory of a row: while a column is computed, those that it is computed
        from are there too."""
        read = [column.field.type for column in self.columns]
        calls = (step for step in self.steps if isinstance(step, Calls))
        returned = [field.type for each in calls for field in each.results]
        return [*read, *returned, *(source.tree.kind for _, source in self._computed)]

    @property
    def _computed(self) -> list[tuple[str, Computed]]:
        pairs = zip(self.schema.names, self.output, strict=True)
        return [(name, source) for name, source in pairs if isinstance(source, Computed)]

    def describe(self) -> list[str]:
        """Its filter and what is computed, each in words."""
        steps: Iterable[Calls | Filter] = (*filter(None, (self.filter,)), *self.steps)
        filters = [f"filter {step.text}" for step in steps if isinstance(step, Filter)]
        return filters + [f"{name} computed as {source.text}" for name, source in self._computed]

    def read(
        self, file: DataFile, *, row_group: int, start: int, stop: int, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows [start, stop) of a row group that the filter keeps, in batches of at most
        `batch_rows`."""

        def part(opened: pq.ParquetFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return read_rows(
                opened, row_group, start=start, stop=stop, names=names, batch_rows=batch_rows
            )

        return self._read(file, part)

    def whole(self, file: DataFile, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """The rows of a whole file that the filter keeps.

        Refused is raised if it cannot be read as Spark would.
        """

        def all_of(opened: pq.ParquetFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return read_all(opened, names=names, batch_bytes=batch_bytes)

        return self._read(file, all_of)

    def _read(self, file: DataFile, part: _Part) -> Iterator[pa.RecordBatch]:
        try:
            with open_file(file.path) as opened:
                file.check()
                found = readings(opened, inside(self.columns), dialect=self.dialect)
                yield from self._kept(part(opened, names_in(found)), found, file)
        except (OSError, pa.ArrowException, Refused):
            file.check()
            raise
        file.check()

    def _kept(
        self, batches: Iterator[pa.RecordBatch], found: Sequence[Reading], file: DataFile
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = self.taken((reading.of(batch) for reading in found), batch.num_rows, file=file)
            if kept.num_rows:
                yield kept

    def taken(self, in_file: Iterator[pa.Array], rows: int, *, file: DataFile) -> pa.RecordBatch:
        """What is taken of rows of a file, of which the columns `inside` it are given."""
        columns = [
            next(in_file) if c.partition is None else _repeated(c, file, rows) for c in self.columns
        ]
        return self._filtered(columns, rows)

    def _filtered(self, columns: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
        """The columns of `schema` for the rows that the filters keep. Only for those they are
        computed, and functions called, for only those may fail."""
        names = [column.field.name for column in self.columns]
        given = dict(zip(names, columns, strict=True))
        mask = None if self.filter is None else _mask(self.filter, given, rows)
        for step in self.steps:
            given, rows = _kept(given, rows, mask)
            mask = None
            if isinstance(step, Calls):
                given |= step.of(given, rows)
            else:
                mask = _mask(step, given, rows)
        if self._computed:
            given, rows = _kept(given, rows, mask)
            mask = None
        chosen = [
            source.of(given, rows) if isinstance(source, Computed) else given[names[source]]
            for source in self.output
        ]
        found = pa.RecordBatch.from_arrays(chosen, schema=self.schema)
        return found if mask is None else found.filter(mask)


_Given = dict[str, pa.Array]


def _mask(filter: Filter, given: _Given, rows: int) -> pa.BooleanArray | None:
    """None if all rows are kept."""
    mask = filter.mask(given)
    return None if mask.true_count == rows else mask


def _kept(given: _Given, rows: int, mask: pa.BooleanArray | None) -> tuple[_Given, int]:
    if mask is None:
        return given, rows
    return {name: column.filter(mask) for name, column in given.items()}, mask.true_count


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a number of the second type is the same number in the first."""
    whole = pt.is_signed_integer(wide) and pt.is_signed_integer(narrow)
    if whole or (pt.is_floating(wide) and pt.is_floating(narrow)):
        return bool(wide.bit_width >= narrow.bit_width)
    return False


def _repeated(column: TableColumn, file: DataFile, rows: int) -> pa.Array:
    assert column.partition is not None
    return pa.repeat(pa.scalar(file.partition[column.partition], column.field.type), rows)
