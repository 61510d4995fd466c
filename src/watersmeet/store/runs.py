"""Sorted runs: rows that left memory together, or were merged, in order of their code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import sorting
from watersmeet.rows.address import Index
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.values import rows_at
from watersmeet.store.index import Codes
from watersmeet.store.rows import IndexedRows
from watersmeet.store.spill import Block, BlockWriter, IoKind, SpillArea
from watersmeet.store.table import Table

Stamps = NDArray[np.int64]

Span = tuple[int, int]
Spans = tuple[Span, ...]
"""For each watched predicate but the first, the smallest and the largest code of some rows; none if
they are not known (operators/progressive/watching.py)."""

STILL_HERE = np.iinfo(np.int64).max
"""The departure stamp (DTS) of a row that has not left memory."""

_STAMPED = pa.schema([("__code", pa.uint64()), ("__ats", pa.int64()), ("__dts", pa.int64())])
_STAMPS = len(_STAMPED)
# How many blocks of rows are copied from a table at a time, since a copy of few rows takes as long.
BLOCKS_COPIED = 8


class Piece:
    """Some rows with what is needed to join them: code, arrival and departure stamps.

    They are one batch, as it is written and read, with code and stamps as its first columns. It is
    split into columns only when they are asked for, since most pieces soon become part of another.
    """

    def __init__(self, batch: pa.RecordBatch, codes: Codes | None = None) -> None:
        self.batch = batch
        self.codes: Codes = batch.column(0).to_numpy() if codes is None else codes

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def ats(self) -> Stamps:
        stamps: Stamps = self.batch.column(1).to_numpy()
        return stamps

    @cached_property
    def dts(self) -> Stamps:
        stamps: Stamps = self.batch.column(2).to_numpy()
        return stamps

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows without their stamps."""
        return self.batch.select(list(range(_STAMPS, self.batch.num_columns)))

    @cached_property
    def source(self) -> BatchRows:
        return BatchRows(self.rows)

    def slice(self, start: int, stop: int) -> Piece:
        return Piece(self.batch.slice(start, stop - start), self.codes[start:stop])

    def take(self, index: Index) -> Piece:
        return Piece(rows_at(self.batch, index))

    def by_code(self) -> Piece:
        """The same rows in order of their codes."""
        _, order = sorting.sort(self.codes)
        return self.take(order.astype(np.int64))

    @classmethod
    def concat(cls, pieces: list[Piece], schema: pa.Schema) -> Piece:
        """All pieces as one; `schema` is that of the rows, in case there are no pieces."""
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            return cls(pa.RecordBatch.from_pylist([], stamped(schema)))
        return cls(pa.concat_batches([piece.batch for piece in pieces]))


class Run(Protocol):
    """Rows sorted by code, in blocks. `departed` are the first and last DTS among them, `earliest`
    and `latest` the first and last ATS, and `generation` counts how often its rows were merged."""

    rows: int
    departed: tuple[int, int]
    earliest: int
    latest: int
    generation: int

    @property
    def block_count(self) -> int: ...

    def block_rows(self, number: int) -> int: ...

    def open(self, kind: IoKind) -> Callable[[int], Piece]:
        """A function that reads blocks by number."""
        ...


@dataclass(slots=True)
class SpilledRun:
    """A run in a file of the spill area."""

    name: str
    blocks: list[Block]
    rows: int
    departed: tuple[int, int]
    schema: pa.Schema
    area: SpillArea
    earliest: int = 0
    """The first ATS among its rows; 0 if it is not known."""
    latest: int = STILL_HERE
    """The last ATS among its rows; later than any if it is not known."""
    generation: int = 0
    place: int = 0
    """Its number among the runs of its file, once the file has been saved."""
    spans: Spans = ()

    @property
    def nbytes(self) -> int:
        return sum(block.length for block in self.blocks)

    @property
    def block_count(self) -> int:
        return len(self.blocks)

    def block_rows(self, number: int) -> int:
        return self.blocks[number].rows

    def block_bytes(self, number: int) -> int:
        return self.blocks[number].length

    def first_code(self, number: int) -> int:
        return self.blocks[number].first_code

    def last_code(self, number: int) -> int:
        return self.blocks[number].last_code

    def open(self, kind: IoKind) -> Callable[[int], Piece]:
        reader = self.area.open(self.name, stamped(self.schema), kind)

        def read(number: int) -> Piece:
            piece = Piece(reader.read(self.blocks[number]))
            if number == len(self.blocks) - 1:
                reader.close()
            return piece

        return read

    def remove(self) -> None:
        self.area.release(self.name)

    def describe(self) -> dict[str, Any]:
        """The run as JSON values, for a manifest."""
        blocks = [list(block) for block in self.blocks]
        return {
            "name": self.name,
            "rows": self.rows,
            "departed": list(self.departed),
            "earliest": self.earliest,
            "latest": self.latest,
            "generation": self.generation,
            "blocks": blocks,
            **({"spans": self.spans} if self.spans else {}),
        }

    @classmethod
    def from_description(
        cls, described: dict[str, Any], schema: pa.Schema, area: SpillArea
    ) -> SpilledRun:
        first, last = described["departed"]
        return cls(
            name=described["name"],
            blocks=[Block(*block) for block in described["blocks"]],
            rows=described["rows"],
            departed=(first, last),
            schema=schema,
            area=area,
            earliest=described["earliest"],
            latest=described["latest"],
            generation=described["generation"],
            spans=tuple((first, last) for first, last in described.get("spans", ())),
        )


class ResidentRun:
    """Rows that are still in memory, with the methods of a run, so that merges can read them."""

    def __init__(self, table: Table, index: NDArray[np.int32], *, block_rows: int) -> None:
        self._table = table
        self._codes, self._index = table.by_code(index)
        self._block_rows = block_rows
        self.rows = len(index)
        self.departed = (STILL_HERE, STILL_HERE)
        self.earliest, self.latest, self.generation = 0, STILL_HERE, 0

    @property
    def block_count(self) -> int:
        return -(-self.rows // self._block_rows)

    def block_rows(self, number: int) -> int:
        return len(self._index[self._part(number)])

    def open(self, kind: IoKind) -> Callable[[int], Piece]:
        return self._piece

    def _piece(self, number: int) -> Piece:
        part = self._part(number)
        return resident_piece(self._table, self._index[part], STILL_HERE, self._codes[part])

    def _part(self, number: int) -> slice:
        return slice(number * self._block_rows, (number + 1) * self._block_rows)


def resident_piece(
    table: IndexedRows, index: Index, departed: int, codes: Codes | None = None
) -> Piece:
    """Rows of a table with their stamps; `codes` are theirs, if they are known."""
    codes = table.codes(index) if codes is None else codes
    stamps = [codes, table.stamps[index], np.full(len(index), departed)]
    columns = [table.take(column, index) for column in range(len(table.schema))]
    batch = pa.RecordBatch.from_arrays(
        [*map(pa.array, stamps), *columns], schema=stamped(table.schema)
    )
    return Piece(batch, codes)


class RunWriter:
    """Writes sorted rows in blocks. One file may hold several runs: creating files is slow."""

    def __init__(
        self, area: SpillArea, schema: pa.Schema, kind: IoKind, *, block_rows: int
    ) -> None:
        self.block_rows = block_rows
        self._area = area
        self._schema = schema
        self._out: BlockWriter = area.create(stamped(schema), kind)
        self._blocks: list[Block] = []

    def append(self, piece: Piece) -> None:
        """Write more rows of the run; their codes are not below those of its rows so far."""
        batch, codes, size = piece.batch, piece.codes, self.block_rows
        for start in range(0, codes.size, size):
            ends = (int(codes[start]), int(codes[min(start + size, codes.size) - 1]))
            block = batch if codes.size <= size else batch.slice(start, size)
            self._blocks.append(self._out.append(block, ends, first=not self._blocks))

    def cut(
        self,
        departed: tuple[int, int],
        *,
        arrived: tuple[int, int] = (0, STILL_HERE),
        generation: int = 0,
    ) -> SpilledRun:
        """End a run; `departed` are the first and last DTS of its rows, `arrived` those ATS."""
        name, blocks, self._blocks = self._out.path.name, self._blocks, []
        rows = sum(block.rows for block in blocks)
        self._area.retain(name)
        return SpilledRun(
            name, blocks, rows, departed, self._schema, self._area, *arrived, generation
        )

    def close(self) -> None:
        self._out.finish()

    def abandon(self) -> None:
        self._out.abandon()


def write_run(
    writer: RunWriter,
    table: IndexedRows,
    index: Index,
    *,
    departed: int,
    codes: Codes | None = None,
) -> SpilledRun:
    """Write rows of a table as one run, in the order given; `codes` are theirs, if known."""
    _append(writer, table, index, departed=departed, codes=codes)
    stamps = table.stamps[index]
    arrived = (int(stamps.min()), int(stamps.max())) if len(index) else (0, 0)
    return writer.cut((departed, departed), arrived=arrived)


def _append(
    writer: RunWriter, table: IndexedRows, index: Index, *, departed: int, codes: Codes | None
) -> None:
    size = BLOCKS_COPIED * writer.block_rows
    for start in range(0, len(index), size):
        part = slice(start, start + size)
        known = None if codes is None else codes[part]
        writer.append(resident_piece(table, index[part], departed, known))


def write_runs(
    writer: RunWriter,
    table: IndexedRows,
    index: Index,
    *,
    rows: Sequence[int],
    arrived: Sequence[tuple[int, int]],
    departed: int,
    codes: Codes,
) -> list[SpilledRun]:
    """Write rows of a table, which are in order of their codes, as runs of so many `rows` each;
    `arrived` are the first and the last ATS of each run.
    They are copied out of the table together: to copy those of each run alone takes as long as to
    sort them."""
    if len(rows) == 1:
        _append(writer, table, index, departed=departed, codes=codes)
        return [writer.cut((departed, departed), arrived=arrived[0])]
    together, start, runs = resident_piece(table, index, departed, codes), 0, []
    for count, came in zip(rows, arrived, strict=True):
        writer.append(together.slice(start, start + count))
        runs.append(writer.cut((departed, departed), arrived=came))
        start += count
    return runs


def copied_together(rows: Sequence[int], *, most: int) -> Iterator[range]:
    """Neighbouring runs, of so many `rows` each, that have no more than `most` rows together; one
    that has more is alone, and runs without rows are part of others."""
    start = held = 0
    for number, count in enumerate(rows):
        if held and held + count > most:
            yield range(start, number)
            start, held = number, 0
        held += count
    if held:
        yield range(start, len(rows))


def arrived(runs: Sequence[Run]) -> tuple[int, int]:
    """The first and the last ATS among the rows of all these runs."""
    return min(run.earliest for run in runs), max(run.latest for run in runs)


def spans_of(runs: Sequence[Run]) -> Spans:
    """The spans of the rows of all these runs."""
    return united_spans([getattr(run, "spans", ()) for run in runs])


def united_spans(spans: Sequence[Spans]) -> Spans:
    """The spans of several lots of rows; none if those of some are not known."""
    if not all(spans):
        return ()
    return tuple(
        (min(first for first, _ in each), max(last for _, last in each))
        for each in zip(*spans, strict=True)
    )


@lru_cache
def stamped(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*_STAMPED, *schema])
