"""What is taken of a table's files: which rows, which columns, and what is computed of them.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.expressions.evaluation import Evaluation
from watersmeet.expressions.failing import can_fail
from watersmeet.expressions.nodes import Cast, Column, Logic, Node, columns_of, conjuncts
from watersmeet.expressions.numbers import ArithmeticFailed, Mask
from watersmeet.model import Side
from watersmeet.spark.scans.files import DataFile
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


@dataclass(frozen=True)
class Computed:
    """A column that is computed from columns of the table, and how Spark writes it."""

    text: str
    tree: Node

    @property
    def names(self) -> frozenset[str]:
        """The columns that it looks at."""
        return frozenset(column.name for column in columns_of(self.tree))

    def of(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        given = {(Side.LEFT, name): columns[name] for name in self.names}
        try:
            found = Evaluation(given).values(self.tree)
        except ArithmeticFailed as error:
            raise _failed(self.text, error) from None
        return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found


def _failed(text: str, error: ArithmeticFailed) -> ArithmeticFailed:
    """Spark's own computation of the DataFrame fails for the same row."""
    return ArithmeticFailed(f"{text} cannot be computed. {error.cause}", remedy=error.remedy)


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

    @property
    def can_fail(self) -> bool:
        """Whether there are values for which Spark raises an error."""
        return can_fail(self.condition)

    def mask(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """True for each row that is kept."""
        given = {(Side.LEFT, name): columns[name] for name in self.names}
        rows = len(next(iter(given.values())))
        evaluation = Evaluation(given)
        if not self.can_fail:
            found = evaluation.truth(self.condition).answer
            # An answer that is the same for all rows is one value: IS NULL where no row is null.
            return pa.repeat(found, rows) if isinstance(found, pa.Scalar) else found
        # Spark looks at a part only where those before it are true: not where they are null.
        kept: Mask | None = None
        try:
            for part in conjuncts(self.condition):
                holds = evaluation.truth(part, kept).holds
                kept = np.broadcast_to(holds if kept is None else kept & holds, rows)
        except ArithmeticFailed as error:
            raise _failed(self.text, error) from None
        return pa.array(kept)


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

    def only(self, columns: Sequence[str]) -> Selection:
        """The same rows with some columns."""
        chosen = [self.output[self.schema.get_field_index(name)] for name in columns]
        looked_at = self._looked_at(chosen)
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
        )

    def source(self, column: str) -> TableColumn | Computed:
        """The column of the table whose values it has, or how it is computed."""
        found: int | Computed = self.output[self.schema.get_field_index(column)]
        if not isinstance(found, Computed):
            return self.columns[found]
        match found.tree:
            # As unions cast, whose branches differ in their types.
            case Cast(Column() as narrow, kind) if _holds(kind, narrow.kind):
                return self._table_column(narrow.name)
        return found

    def _table_column(self, name: str) -> TableColumn:
        return next(column for column in self.columns if column.field.name == name)

    @property
    def conditions(self) -> list[Node]:
        """The parts of the filter, which must all be true for a row to be kept."""
        return [] if self.filter is None else list(conjuncts(self.filter.condition))

    def _looked_at(self, output: Sequence[int | Computed]) -> frozenset[str]:
        """The columns of the table that the filter and computed columns look at."""
        sources = [source.names for source in output if isinstance(source, Computed)]
        return frozenset().union(*sources, () if self.filter is None else self.filter.names)

    @property
    def kinds(self) -> list[pa.DataType]:
        """Of all that is in memory of a row: while a column is computed, those that it is computed
        from are there too."""
        read = [column.field.type for column in self.columns]
        return [*read, *(source.tree.kind for _, source in self._computed)]

    @property
    def _computed(self) -> list[tuple[str, Computed]]:
        pairs = zip(self.schema.names, self.output, strict=True)
        return [(name, source) for name, source in pairs if isinstance(source, Computed)]

    def describe(self) -> list[str]:
        """Its filter and what is computed, each in words."""
        filters = [] if self.filter is None else [f"filter {self.filter.text}"]
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
        """The columns of `schema` for the rows that the filter keeps. Only for those they are
        computed, for only those may fail."""
        names = [column.field.name for column in self.columns]
        mask = None
        if self.filter is not None:
            mask = self.filter.mask(dict(zip(names, columns, strict=True)))
            if mask.true_count == rows:
                mask = None
        if mask is not None and self._computed:
            columns, rows = [column.filter(mask) for column in columns], mask.true_count
            mask = None
        given = dict(zip(names, columns, strict=True))
        chosen = [
            source.of(given, rows) if isinstance(source, Computed) else columns[source]
            for source in self.output
        ]
        found = pa.RecordBatch.from_arrays(chosen, schema=self.schema)
        return found if mask is None else found.filter(mask)


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a number of the second type is the same number in the first."""
    whole = pt.is_signed_integer(wide) and pt.is_signed_integer(narrow)
    if whole or (pt.is_floating(wide) and pt.is_floating(narrow)):
        return bool(wide.bit_width >= narrow.bit_width)
    return False


def _repeated(column: TableColumn, file: DataFile, rows: int) -> pa.Array:
    assert column.partition is not None
    return pa.repeat(pa.scalar(file.partition[column.partition], column.field.type), rows)
