"""Lays a master table down: writes its rows once, in order of code, within a memory limit.

Rows are gathered until a third of the memory is full, sorted, and written to the scratch area as a
run; at the end all runs are merged into the file. A table that fits that third never sees the
scratch area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import xxhash

from watersmeet.kernels import sorting
from watersmeet.rows.encoded import Codes
from watersmeet.rows.values import rows_at
from watersmeet.store.master.blocks import MAGIC, PLACE_BYTES, BlockPlaces, MasterEnd
from watersmeet.store.merging import merged_by_code
from watersmeet.store.runs import Piece, RunWriter, SpilledRun, stamped
from watersmeet.store.spill import IoKind, SpillArea, unusable

Encode = Callable[[pa.RecordBatch], tuple[Codes, pa.RecordBatch]]
"""The codes of a batch's rows that have a key, and these rows as they are stored."""

_GATHERED_SHARE = 3
# A block is read whole for the sake of one row, and takes as long to decode as 1,000 of its rows.
_BLOCK_BYTES = 256 * 1024
_FEWEST_BYTES = 4096
# Of the memory of a join, the index of blocks takes at most this part.
_INDEX_SHARE = 64
_MERGED_AT_ONCE = 32


def lay_down(
    batches: Iterable[pa.RecordBatch],
    encode: Encode,
    *,
    schema: pa.Schema,
    target: Path,
    scratch: SpillArea,
    memory: int,
    facts: dict[str, Any],
) -> None:
    """Write the rows of `batches`, as `encode` stores them with this schema, to a new file.

    `facts` name the version, and are kept with the rows. The file appears under its name when it is
    complete.
    """
    laying = _Laying(schema, scratch, memory)
    for batch in batches:
        laying.add(*encode(batch))
    draft = target.with_name(f"{target.name}.draft")
    try:
        with draft.open("wb") as file:
            _write(file, laying.in_order(), schema, laying.block_bytes(), facts)
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise unusable(target.parent, error) from error
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


class _Laying:
    """Rows on their way into order."""

    def __init__(self, schema: pa.Schema, scratch: SpillArea, memory: int) -> None:
        self._schema = schema
        self._scratch = scratch
        self._memory = memory
        self._gathered: list[Piece] = []
        self._bytes = 0
        self._total_bytes = 0
        self._rows = 0
        self._runs: list[SpilledRun] = []

    def add(self, codes: Codes, rows: pa.RecordBatch) -> None:
        if not len(rows):
            return
        no_stamp = pa.array(np.zeros(len(rows), np.int64))
        columns = [pa.array(codes), no_stamp, no_stamp, *rows.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=stamped(self._schema))
        self._gathered.append(Piece(batch, codes))
        self._rows += len(rows)
        self._bytes += batch.nbytes
        self._total_bytes += batch.nbytes
        if self._bytes >= self._memory // _GATHERED_SHARE:
            self._write_run()

    def block_bytes(self) -> int:
        """Bytes of a block of the file: few enough that a step can load several, so many that the
        index of all blocks stays small."""
        least = self._total_bytes * PLACE_BYTES * _INDEX_SHARE // self._memory
        return max(min(_BLOCK_BYTES, self._memory // 64), least, _FEWEST_BYTES)

    def in_order(self) -> Iterator[Piece]:
        """All rows, in order of code."""
        if not self._runs:
            if self._gathered:
                yield self._sorted()
            return
        if self._gathered:
            self._write_run()
        while len(self._runs) > _MERGED_AT_ONCE:
            some, self._runs = self._runs[:_MERGED_AT_ONCE], self._runs[_MERGED_AT_ONCE:]
            self._runs.append(self._merged(some))
        yield from merged_by_code(self._runs, ahead=self._ahead(len(self._runs)))
        for run in self._runs:
            run.remove()

    def _sorted(self) -> Piece:
        pieces, self._gathered, self._bytes = self._gathered, [], 0
        together = Piece.concat(pieces, self._schema)
        pieces.clear()
        codes, order = sorting.sort(together.codes)
        return Piece(rows_at(together.batch, order.astype(np.int64)), codes)

    def _write_run(self) -> None:
        piece = self._sorted()
        self._runs.append(self._written(iter([piece])))

    def _merged(self, runs: list[SpilledRun]) -> SpilledRun:
        run = self._written(merged_by_code(runs, ahead=self._ahead(len(runs))))
        for each in runs:
            each.remove()
        return run

    def _written(self, pieces: Iterator[Piece]) -> SpilledRun:
        # A merge has a block of each run in memory, and as many rows again in order.
        rows = self._ahead(_MERGED_AT_ONCE)
        writer = RunWriter(self._scratch, self._schema, IoKind.FLUSH, block_rows=rows)
        for piece in pieces:
            writer.append(piece)
        run = writer.cut((0, 0))
        writer.close()
        return run

    def _ahead(self, runs: int) -> int:
        """How many rows of each run are in memory at a time."""
        row_bytes = max(self._total_bytes / max(self._rows, 1), 1)
        return max(int(self._memory / _GATHERED_SHARE / runs / row_bytes / 2), 1)


def _write(
    file: BinaryIO, pieces: Iterator[Piece], schema: pa.Schema, block_bytes: int, facts: Any
) -> None:
    columns = pa.schema([pa.field("__code", pa.uint64(), nullable=False), *schema])
    offset = file.write(MAGIC)
    places = []
    for piece in pieces:
        batch = pa.RecordBatch.from_arrays(
            [pa.array(piece.codes), *piece.rows.columns], schema=columns
        )
        size = max(int(block_bytes / max(batch.nbytes / len(batch), 1)), 1)
        for start in range(0, len(batch), size):
            block = batch.slice(start, size)
            message = block.serialize()
            file.write(message)
            codes = piece.codes[start : start + size]
            checksum = xxhash.xxh3_64_intdigest(message)
            places.append((offset, checksum, int(codes[0]), int(codes[-1]), len(codes)))
            offset += len(message)
    end = MasterEnd(columns, BlockPlaces.of(places, until=offset), facts)
    file.write(end.to_bytes())
