"""Tables that are read a block at a time, in any order: Parquet row groups, or rows in memory."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.aggregates.sampling.plan import Block
from watersmeet.aggregates.sampling.planner import cut, pieces
from watersmeet.errors import InputChanged, InvalidArgument, SchemaError
from watersmeet.local.files import find_files
from watersmeet.model import Side
from watersmeet.parquet.footers import Footer, each_footer
from watersmeet.parquet.numbered import read_numbered

_MEMORY_BLOCK = 16_384
# In memory there is no reading, so blocks may be small.
_MEMORY_BLOCKS = 128
# Without a buffered stream Arrow loads whole column chunks: those that are larger than this are
# read through one, which took 7% longer.
_CHUNK = 2**20
_BUFFER = 256 * 1024
# Before it is known how wide rows are.
_FIRST_ROWS = 2048
_FEW_TIMES = 2


class BlockTable(Protocol):
    """A table in blocks. `bundle` is a number that blocks share which are best read together."""

    schema: pa.Schema
    name: str

    def blocks(self, key: str, names: Sequence[str]) -> tuple[Block, ...]:
        """All blocks, with the bytes of these columns, uncompressed, and with what the key lies
        between in each if that is known."""
        ...

    def facts(self, names: Sequence[str]) -> dict[str, ColumnFacts]:
        """What is known of these columns in every block, without reading."""
        ...

    def bundle(self, block: int) -> int: ...

    def read(
        self,
        blocks: Sequence[int],
        names: Sequence[str],
        *,
        batch_bytes: int,
        labels: Collection[str] = (),
        numbered: Collection[str] = (),
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """These columns of some blocks of one bundle, ascending: a block, and some rows of it.

        A batch has about so many bytes, and a block at least one batch. `labels` are columns of
        text that may come as numbers with a dictionary, `numbered` columns of numbers or days.
        """
        ...

    def read_bundle(
        self,
        bundle: int,
        names: Sequence[str],
        *,
        batch_bytes: int,
        labels: Collection[str] = (),
        numbered: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """All blocks of a bundle, as few batches as fit."""
        ...


@dataclass(frozen=True)
class _Piece:
    """Rows [start, stop) of a row group."""

    group: int
    start: int
    stop: int


@dataclass(frozen=True)
class _RowGroup:
    file: int
    number: int
    rows: int


@dataclass(frozen=True)
class _File:
    """A file as it was when it was opened."""

    path: Path
    footer: Footer
    stamp: tuple[int, int]

    @classmethod
    def open(cls, path: Path, argument: str, like: _File | None = None) -> _File:
        try:
            stamp = _stamp(path)
            footer = Footer.read(path, None if like is None else like.footer)
            return cls(path, footer, stamp)
        except (OSError, pa.ArrowException) as error:
            raise InvalidArgument(
                f"{argument}: {str(path)!r} cannot be read as Parquet: {error}.",
                remedy="Check that the file is complete.",
            ) from error

    @cached_property
    def schema(self) -> pa.Schema:
        return _without_views(self.footer.schema)

    def check_columns(self, schema: pa.Schema, names: Sequence[str]) -> None:
        """All files of a table must have the columns of the first."""
        for name in names:
            kind = schema.field(name).type
            if name not in self.schema.names or self.schema.field(name).type != kind:
                raise SchemaError(
                    f"{self.path} has no column {name!r} of type {kind}, as the first file has.",
                    remedy="Write all files of an input with the same columns.",
                )

    def check(self) -> None:
        try:
            same = _stamp(self.path) == self.stamp
        except OSError:
            same = False
        if not same:
            raise InputChanged(
                f"{self.path} has changed or vanished since it was opened.",
                remedy="Run the aggregate again, over files that stay as they are meanwhile.",
            )

    def read(
        self, group: int, names: Sequence[str], *, rows: int, labels: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """A row group, so many rows at a time. Whoever has read enough checks the file."""
        try:
            with pq.ParquetFile(
                self.path,
                metadata=self.footer.metadata,
                pre_buffer=False,
                buffer_size=_BUFFER if self.footer.largest(group, names) > _CHUNK else 0,
                read_dictionary=sorted(labels) or None,
            ) as file:
                yield from file.iter_batches(
                    rows, row_groups=[group], columns=list(names), use_threads=False
                )
        except (OSError, pa.ArrowException):
            self.check()
            raise

    def read_numbered(
        self, group: int, names: Sequence[str], *, most: int
    ) -> pa.RecordBatch | None:
        """A row group whose columns all are numbers of values in their dictionary, if reading it
        takes no more bytes; None if Arrow has to read it."""
        found = [self.footer.stored(group, name) for name in names]
        columns = [each for each in found if each is not None]
        if len(columns) < len(names) or sum(each.needed for each in columns) > most:
            return None
        arrays = []
        try:
            file = os.open(self.path, os.O_RDONLY)
            try:
                for column in columns:
                    array = read_numbered(os.pread(file, column.stored, column.offset), column)
                    if array is None:
                        return None
                    arrays.append(array)
            finally:
                os.close(file)
        except (OSError, pa.ArrowException):
            return None
        return pa.RecordBatch.from_arrays(arrays, names=list(names))


class ParquetTable:
    """Row groups of Parquet files, cut into pieces where they are few."""

    def __init__(self, paths: Sequence[Path], *, argument: str) -> None:
        self.name = f"{len(paths)} Parquet file" + ("s" if len(paths) != 1 else "")
        first = _File.open(paths[0], argument)
        others = each_footer(lambda path: _File.open(path, argument, first), paths[1:])
        self._files = [first, *others]
        self.schema = first.schema
        self._groups = [
            _RowGroup(place, number, rows)
            for place, file in enumerate(self._files)
            for number in range(file.footer.row_groups)
            if (rows := file.footer.rows(number))
        ]
        self._pieces = [_Piece(*piece) for piece in pieces([group.rows for group in self._groups])]
        # Bytes of a row in memory, by the columns that are read.
        self._widths: dict[tuple[str, ...], float] = {}
        # Columns of a row group that was not as the dictionaries of its columns are read.
        self._unnumbered: set[tuple[str, ...]] = set()

    def blocks(self, key: str, names: Sequence[str]) -> tuple[Block, ...]:
        first = self._files[0].footer
        for file in self._files:
            if file.footer.schema is not first.schema:
                file.check_columns(self.schema, names)
        ranges = [self._footer(group).range(group.number, key) for group in self._groups]
        by_file = [list(file.footer.sizes(names)) for file in self._files]
        sizes = [by_file[group.file][group.number] for group in self._groups]
        found = []
        for piece in self._pieces:
            number = piece.group
            rows = piece.stop - piece.start
            nbytes = sizes[number] * rows // self._groups[number].rows
            found.append(Block(rows, nbytes, ranges[number]))
        return tuple(found)

    def facts(self, names: Sequence[str]) -> dict[str, ColumnFacts]:
        index = np.array([piece.group for piece in self._pieces], np.int64)
        return {
            name: ColumnFacts.of(
                [self._footer(group).chunk(group.number, name) for group in self._groups]
            ).taken(index)
            for name in names
        }

    def _footer(self, group: _RowGroup) -> Footer:
        return self._files[group.file].footer

    def bundle(self, block: int) -> int:
        return self._pieces[block].group

    def read(
        self,
        blocks: Sequence[int],
        names: Sequence[str],
        *,
        batch_bytes: int,
        labels: Collection[str] = (),
        numbered: Collection[str] = (),
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        number = self._pieces[blocks[0]].group
        group = self._groups[number]
        pieces = [(block, self._pieces[block]) for block in blocks]
        if all(name in numbered or name in labels for name in names):
            whole = self._numbered(group, tuple(names), batch_bytes)
            if whole is not None:
                for block, piece in pieces:
                    yield block, whole.slice(piece.start, piece.stop - piece.start)
                self._files[group.file].check()
                return
        rows = _Piece(number, pieces[0][1].start, pieces[-1][1].stop)
        for start, batch in self._rows(rows, names, batch_bytes=batch_bytes, labels=labels):
            for block, piece in pieces:
                first, last = max(piece.start, start), min(piece.stop, start + len(batch))
                if first < last:
                    yield block, batch.slice(first - start, last - first)

    def read_bundle(
        self,
        bundle: int,
        names: Sequence[str],
        *,
        batch_bytes: int,
        labels: Collection[str] = (),
        numbered: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        group = self._groups[bundle]
        if all(name in numbered or name in labels for name in names):
            found = self._numbered(group, tuple(names), batch_bytes)
            if found is not None:
                yield found
                self._files[group.file].check()
                return
        whole = _Piece(bundle, 0, group.rows)
        for _, batch in self._rows(whole, names, batch_bytes=batch_bytes, labels=labels):
            yield batch

    def _rows(
        self, piece: _Piece, names: Sequence[str], *, batch_bytes: int, labels: Collection[str]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Some rows of a row group: the first of a batch, and the batch."""
        group = self._groups[piece.group]
        file = self._files[group.file]
        schema = pa.schema([self.schema.field(name) for name in names])
        done, end = piece.start, piece.stop
        while done < end:
            rows = self._rows_at_once(tuple(names), batch_bytes)
            position = 0
            for batch in file.read(group.number, names, rows=rows, labels=labels):
                start, position = position, position + len(batch)
                if position > done:
                    fresh = max(start, done)
                    wanted = batch.slice(fresh - start, min(position, end) - fresh)
                    done = position
                    yield fresh, _as(wanted, schema)
                if done >= end or self._resized(tuple(names), batch, rows, batch_bytes):
                    # Arrow cannot skip rows: with batches of another size, all begins anew.
                    break
            file.check()

    def _numbered(
        self, group: _RowGroup, names: tuple[str, ...], most: int
    ) -> pa.RecordBatch | None:
        if names in self._unnumbered:
            return None
        found = self._files[group.file].read_numbered(group.number, names, most=most)
        if found is None:
            # Others are most probably as this one, and trying is reading them twice.
            self._unnumbered.add(names)
        return found

    def _rows_at_once(self, names: tuple[str, ...], batch_bytes: int) -> int:
        width = self._widths.get(names)
        if width is None:
            return _FIRST_ROWS
        return max(int(batch_bytes / max(width, 1.0)), 1)

    def _resized(
        self, names: tuple[str, ...], batch: pa.RecordBatch, rows: int, batch_bytes: int
    ) -> bool:
        """Learn how wide rows are, and say whether they should be read in other portions.

        Footers do not know: of a text that comes often, a file has one copy.
        """
        width = batch.nbytes / max(len(batch), 1)
        known = self._widths.get(names)
        if known is None or width > known:
            self._widths[names] = width
        if known is None:
            return self._rows_at_once(names, batch_bytes) > _FEW_TIMES * rows
        return batch.nbytes > _FEW_TIMES * batch_bytes and rows > 1


class MemoryTable:
    """Rows in memory, in stretches."""

    def __init__(self, table: pa.Table, *, name: str, ours: bool = False) -> None:
        """`ours`: nobody else holds these rows, which have been read to be kept."""
        self.name = name
        self.ours = ours
        self.schema = _without_views(table.schema)
        # In the pieces it has: to make it one would be a copy.
        self._table = table if table.schema == self.schema else table.cast(self.schema)
        self.nbytes = int(self._table.nbytes)
        most = min(max(len(table) // _MEMORY_BLOCKS, 16), _MEMORY_BLOCK)
        self._pieces = list(cut(len(table), most))

    def blocks(self, key: str, names: Sequence[str]) -> tuple[Block, ...]:
        width = self._table.select(names).nbytes // max(len(self._table), 1)
        return tuple(Block(stop - start, (stop - start) * width) for start, stop in self._pieces)

    def facts(self, names: Sequence[str]) -> dict[str, ColumnFacts]:
        return {name: self._facts(name) for name in names}

    def _facts(self, name: str) -> ColumnFacts:
        """By looking: rows in memory are soon seen."""
        column = self._table[name]
        ends: list[tuple[Any, Any] | None] = []
        nulls, width = [], []
        for start, stop in self._pieces:
            rows = column.slice(start, stop - start)
            ends.append(_ends(rows))
            nulls.append(rows.null_count / max(len(rows), 1))
            width.append(np.nan)
        return ColumnFacts.between(ends, nulls=np.array(nulls), width=np.array(width))

    def bundle(self, block: int) -> int:
        return block

    def read_bundle(
        self,
        bundle: int,
        names: Sequence[str],
        *,
        batch_bytes: int,
        labels: Collection[str] = (),
        numbered: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        for _, batch in self.read([bundle], names, batch_bytes=batch_bytes):
            yield batch

    def batches(self) -> list[pa.RecordBatch]:
        """All rows as they came."""
        found: list[pa.RecordBatch] = self._table.to_batches()
        return found

    def shuffled(self, seed: int, rows: int) -> Iterator[pa.RecordBatch]:
        """All rows in a random order, so many at a time."""
        order = np.random.default_rng(seed).permutation(np.arange(len(self._table), dtype=np.int32))
        for start in range(0, len(order), rows):
            yield _one(self._table.take(pa.array(order[start : start + rows])))

    def read(
        self,
        blocks: Sequence[int],
        names: Sequence[str],
        *,
        batch_bytes: int,
        labels: Collection[str] = (),
        numbered: Collection[str] = (),
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        chosen = self._table.select(names)
        for block in blocks:
            start, stop = self._pieces[block]
            rows = chosen.slice(start, stop - start)
            parts = min(-(-rows.nbytes // batch_bytes), len(rows))
            for first, last in cut(len(rows), -(-len(rows) // max(parts, 1))):
                yield block, _one(rows.slice(first, last - first))


def open_table(source: Any, *, side: Side) -> BlockTable | None:
    """Parquet files, and what is in memory already; None for what comes in one order, once."""
    argument = side.name.lower()
    if isinstance(source, ds.FileSystemDataset) and source.format == ds.ParquetFileFormat():
        source = [Path(path) for path in source.files]
    is_path = isinstance(source, str | os.PathLike)
    if is_path or (isinstance(source, list | tuple) and source and _all_paths(source)):
        paths = [Path(source)] if is_path else [Path(path) for path in source]
        files = [file for path in paths for file in find_files(path, argument)]
        if all(file.format.name == "parquet" and not file.values for file in files):
            return ParquetTable([file.path for file in files], argument=argument)
    if isinstance(source, list | tuple) and source and _all_batches(source):
        source = pa.Table.from_batches(source)
    if isinstance(source, pa.Table | pa.RecordBatch):
        # In memory already, and its owner's.
        table = source if isinstance(source, pa.Table) else pa.Table.from_batches([source])
        return MemoryTable(table, name=f"{argument} ({type(source).__name__})")
    return None


def _without_views(schema: pa.Schema) -> pa.Schema:
    """Text and bytes in the form that Arrow can take rows of: its views cannot be filtered."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Just these columns, in these types; text that comes with a dictionary keeps it."""
    columns, fields = [], []
    for field in schema:
        column = batch.column(field.name)
        if pt.is_dictionary(column.type) and not pt.is_dictionary(field.type):
            if column.type.value_type != field.type:
                values = column.dictionary.cast(field.type)
                column = pa.DictionaryArray.from_arrays(column.indices, values)
            field = field.with_type(column.type)
        elif column.type != field.type:
            column = column.cast(field.type)
        columns.append(column)
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _one(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _ends(rows: pa.ChunkedArray) -> tuple[Any, Any] | None:
    kind = rows.type
    if pt.is_boolean(kind) or pt.is_nested(kind) or pt.is_null(kind) or pt.is_dictionary(kind):
        return None
    try:
        ends = pc.min_max(rows)
        least, most = ends["min"].as_py(), ends["max"].as_py()
    except (pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None  # A type without an order, or a year that Python does not know.
    return None if least is None else (least, most)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _all_batches(items: Sequence[Any]) -> bool:
    """Batches of one schema; others are refused by who reads them one after the other."""
    return all(isinstance(item, pa.RecordBatch) for item in items) and all(
        item.schema == items[0].schema for item in items
    )


def _all_paths(items: Sequence[Any]) -> bool:
    return all(isinstance(item, str | os.PathLike) for item in items)
