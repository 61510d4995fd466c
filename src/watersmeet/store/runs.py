"""Sorted runs: rows that left memory together, or were merged, in order of their hash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.store.spill import Block, BlockReader, BlockWriter, IoKind, SpillArea
from watersmeet.store.index import Hashes
from watersmeet.store.table import Table

Stamps = NDArray[np.int64]

STILL_HERE = np.iinfo(np.int64).max
"""The departure stamp (DTS) of a row that has not left memory."""

_STAMPED = [("__hash", pa.uint64()), ("__ats", pa.int64()), ("__dts", pa.int64())]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows with what is needed to join them: hash, arrival and departure stamps."""

    hashes: Hashes
    ats: Stamps
    dts: Stamps
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.hashes)

    def slice(self, start: int, stop: int) -> Piece:
        return Piece(
            self.hashes[start:stop],
            self.ats[start:stop],
            self.dts[start:stop],
            self.rows.slice(start, stop - start),
        )

    def take(self, index: Index) -> Piece:
        return Piece(
            self.hashes[index], self.ats[index], self.dts[index], self.rows.take(pa.array(index))
        )

    @classmethod
    def concat(cls, pieces: list[Piece], schema: pa.Schema) -> Piece:
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            none = np.empty(0, np.int64)
            return cls(np.empty(0, np.uint64), none, none, pa.RecordBatch.from_pylist([], schema))
        return cls(
            np.concatenate([piece.hashes for piece in pieces]),
            np.concatenate([piece.ats for piece in pieces]),
            np.concatenate([piece.dts for piece in pieces]),
            pa.concat_batches([piece.rows for piece in pieces]),
        )


class Run(Protocol):
    """Rows sorted by hash, in blocks. `departed` are the first and last DTS among them."""

    rows: int
    departed: tuple[int, int]

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

    @property
    def nbytes(self) -> int:
        return sum(block.length for block in self.blocks)

    @property
    def block_count(self) -> int:
        return len(self.blocks)

    def block_rows(self, number: int) -> int:
        return self.blocks[number].rows

    def first_hash(self, number: int) -> int:
        return self.blocks[number].first_hash

    def last_hash(self, number: int) -> int:
        return self.blocks[number].last_hash

    def open(self, kind: IoKind) -> Callable[[int], Piece]:
        reader = self.area.open(self.name, stamped(self.schema), kind)

        def read(number: int) -> Piece:
            piece = _unstamp(reader.read(self.blocks[number]), self.schema)
            if number == len(self.blocks) - 1:
                reader.close()
            return piece

        return read

    def remove(self) -> None:
        self.area.release(self.name)

    def describe(self) -> dict[str, Any]:
        """The run as JSON values, for a manifest."""
        blocks = [list(asdict(block).values()) for block in self.blocks]
        return {
            "name": self.name,
            "rows": self.rows,
            "departed": list(self.departed),
            "blocks": blocks,
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
        )


class ResidentRun:
    """Rows that are still in memory, in the shape of a run, so that a merge takes them too."""

    def __init__(self, table: Table, index: NDArray[np.int32], *, block_rows: int) -> None:
        self._table = table
        self._index = by_hash(table, index)
        self._block_rows = block_rows
        self.rows = len(index)
        self.departed = (STILL_HERE, STILL_HERE)

    @property
    def block_count(self) -> int:
        return -(-self.rows // self._block_rows)

    def block_rows(self, number: int) -> int:
        return len(self._block(number))

    def open(self, kind: IoKind) -> Callable[[int], Piece]:
        return lambda number: resident_piece(self._table, self._block(number), STILL_HERE)

    def _block(self, number: int) -> Index:
        return self._index[number * self._block_rows : (number + 1) * self._block_rows]


def by_hash(table: Table, index: NDArray[np.int32]) -> Index:
    """These row numbers in order of hash; older rows first among equals."""
    return index[np.argsort(table.hashes(index), kind="stable")].astype(np.int64)


def resident_piece(table: Table, index: Index, departed: int) -> Piece:
    columns = [table.take(column, index) for column in range(len(table.schema))]
    return Piece(
        table.hashes(index),
        table.stamps[index],
        np.full(len(index), departed, np.int64),
        pa.RecordBatch.from_arrays(columns, schema=table.schema),
    )


class RunWriter:
    """Writes sorted rows in blocks. One file may hold several runs: creating files is slow."""

    def __init__(self, area: SpillArea, schema: pa.Schema, kind: IoKind) -> None:
        self._area = area
        self._schema = schema
        self._stamped = stamped(schema)
        self._out: BlockWriter = area.create(self._stamped, kind)
        self._blocks: list[Block] = []
        self._departed = (STILL_HERE, 0)

    def append(self, piece: Piece) -> None:
        if not len(piece):
            return
        columns = [pa.array(piece.hashes), pa.array(piece.ats), pa.array(piece.dts)]
        batch = pa.RecordBatch.from_arrays([*columns, *piece.rows.columns], schema=self._stamped)
        hashes = (int(piece.hashes[0]), int(piece.hashes[-1]))
        self._blocks.append(self._out.append(batch, hashes, first=not self._blocks))
        first, last = self._departed
        self._departed = (min(first, int(piece.dts.min())), max(last, int(piece.dts.max())))

    def cut(self) -> SpilledRun:
        """End one run; what is appended next begins another."""
        name, blocks = self._out.path.name, self._blocks
        rows = sum(block.rows for block in blocks)
        self._area.retain(name)
        run = SpilledRun(name, blocks, rows, self._departed, self._schema, self._area)
        self._blocks, self._departed = [], (STILL_HERE, 0)
        return run

    def close(self) -> None:
        self._out.finish()

    def abandon(self) -> None:
        self._out.abandon()


def append_rows(
    writer: RunWriter, table: Table, index: Index, *, departed: int, block_rows: int
) -> None:
    """Append rows of a table to a run, in the order given."""
    for start in range(0, len(index), block_rows):
        writer.append(resident_piece(table, index[start : start + block_rows], departed))


def stamped(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*(pa.field(*field) for field in _STAMPED), *schema])


def _unstamp(batch: pa.RecordBatch, schema: pa.Schema) -> Piece:
    hashes, ats, dts = (column.to_numpy() for column in batch.columns[:3])
    return Piece(hashes, ats, dts, pa.RecordBatch.from_arrays(batch.columns[3:], schema=schema))
