"""Stream rows without a partner that wait for newer versions of the master table, until a deadline.

They are many and nobody asks for them until the next version comes, so they are kept on disk, but
for the last few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.semistream.memory import SemiStreamMemory
from watersmeet.rows.address import Index
from watersmeet.rows.leaves import Mask
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import rows_where
from watersmeet.store.index import Codes
from watersmeet.store.runs import Piece, RunWriter, SpilledRun, stamped
from watersmeet.store.spill import IoKind, SpillArea

SINCE = pa.field("__since", pa.int64(), nullable=False)
"""When a row arrived, in microseconds; the last column of rows that may have to be patient."""

# The part of the capacity for rows that have not been written yet.
_IN_MEMORY = 1 / 16
# A run is written when its rows came in this part of the time they have, so that all of them have
# none left soon after the first.
_TIME_OF_A_RUN = 1 / 16
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Patience:
    """How many seconds a row has from its arrival to find a partner, by the clock `wall`, which
    goes on when the join is saved and restored elsewhere."""

    deadline: float
    wall: Callable[[], float]


class PatientRows:
    """Rows that no master row has met, with their codes and the time at which they arrived."""

    def __init__(
        self,
        schema: JoinSchema,
        memory: SemiStreamMemory,
        *,
        spill: SpillArea,
        patience: Patience,
        block_bytes: int,
    ) -> None:
        self._schema = schema.stored(Side.LEFT)
        self._memory = memory
        self._spill = spill
        self._time = int(patience.deadline * _MICROSECONDS)
        self._wall = patience.wall
        self._block_bytes = block_bytes
        self._pieces: list[Piece] = []
        self.nbytes = 0
        """Bytes of the rows in memory."""
        self._first = 0
        """When the first of the rows in memory arrived."""
        self.runs: list[SpilledRun] = []
        """Their `earliest` and `latest` are the times at which rows arrived."""

    def __len__(self) -> int:
        return sum(map(len, self._pieces)) + sum(run.rows for run in self.runs)

    def now(self) -> int:
        return int(self._wall() * _MICROSECONDS)

    def stamped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that arrive now, with the time."""
        times = pa.array(np.full(len(rows), self.now()))
        return pa.RecordBatch.from_arrays([*rows.columns, times], schema=self._schema)

    def have_time(self, rows: pa.RecordBatch) -> Mask:
        """Which rows may wait for another version."""
        return _times(rows) + self._time > self.now()

    def add(self, codes: Codes, rows: pa.RecordBatch) -> None:
        """Have rows wait for the next version."""
        if not len(rows):
            return
        none = pa.array(np.zeros(len(rows), np.int64))
        columns = [pa.array(codes), none, none, *rows.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=stamped(self._schema))
        times = _times(rows)
        first = int(times.min())
        self._first = min(self._first, first) if self._pieces else first
        self._pieces.append(Piece(batch, codes))
        self.nbytes += batch.nbytes
        spread = int(times.max()) - self._first
        full = self.nbytes > _IN_MEMORY * self._memory.capacity
        if full or spread > _TIME_OF_A_RUN * self._time:
            self.write()

    def write(self) -> None:
        """Have all rows on disk."""
        if not self._pieces:
            return
        mean = self.nbytes / sum(map(len, self._pieces))
        pieces = self._taken_pieces()
        rows = max(int(self._block_bytes / max(mean, 1.0)), 1)
        writer = RunWriter(self._spill, self._schema, IoKind.FLUSH, block_rows=rows)
        times = [_times(piece.rows) for piece in pieces]
        for piece in pieces:
            writer.append(piece)
        arrived = min(int(t.min()) for t in times), max(int(t.max()) for t in times)
        self.runs.append(writer.cut((0, 0), arrived=arrived))
        writer.close()

    def due(self) -> float | None:
        """When `overdue` will next have rows, in seconds; None if there are none."""
        ends = [run.earliest + self._time + self._lateness for run in self.runs]
        ends += [self._first + self._time] if self._pieces else []
        return min(ends) / _MICROSECONDS if ends else None

    @property
    def _lateness(self) -> int:
        return int(_TIME_OF_A_RUN * self._time)

    def overdue(self) -> Iterator[pa.RecordBatch]:
        """Take out rows that have no time left. Those on disk may be late by a sixteenth of it:
        then most runs are read once, when none of their rows has any."""
        now = self.now()
        before = now - self._time - self._lateness
        late = [run for run in self.runs if run.earliest <= before]
        self.runs = [run for run in self.runs if run.earliest > before]
        for codes, rows in _read(late):
            yield from self._divided(codes, rows)
        if self._pieces and self._first + self._time <= now:
            for piece in self._taken_pieces():
                yield from self._divided(piece.codes, piece.rows)

    def _divided(self, codes: Codes, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that have no time left; the others go on waiting."""
        timely = self.have_time(rows)
        if not timely.all():
            yield rows_where(rows, ~timely)
        self.add(codes[timely], rows_where(rows, timely))

    def _taken_pieces(self) -> list[Piece]:
        pieces, self._pieces, self.nbytes = self._pieces, [], 0
        return pieces

    def take_all(self) -> Iterator[tuple[Codes, pa.RecordBatch]]:
        """Take out all rows. Others may be added meanwhile."""
        pieces = self._taken_pieces()
        runs, self.runs = self.runs, []
        yield from _read(runs)
        for piece in pieces:
            yield piece.codes, piece.rows


def _read(runs: list[SpilledRun]) -> Iterator[tuple[Codes, pa.RecordBatch]]:
    for run in runs:
        read = run.open(IoKind.SCAN)
        for number in range(run.block_count):
            piece = read(number)
            yield piece.codes, piece.rows
        run.remove()


def _times(rows: pa.RecordBatch) -> Index:
    times: Index = rows.column(rows.num_columns - 1).to_numpy()
    return times
