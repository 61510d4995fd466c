"""Lays a master table down: writes its rows once, in order of code, within a memory limit.

Rows are gathered until a third of the memory is full, sorted, and written as a table of their own
to the scratch area. At the end these tables are merged into the file. Rows that fit that third are
never in the scratch area.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.rows.encoded import Codes
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.leftovers import hand_back
from watersmeet.store.master.blocks import PLACE_BYTES
from watersmeet.store.master.merging import Ordered, in_order, merged
from watersmeet.store.master.table import Master, describe
from watersmeet.store.master.writing import MasterWriter, new_file, with_code
from watersmeet.store.spill import SpillArea, unusable

Encode = Callable[[pa.RecordBatch], tuple[Codes, pa.RecordBatch]]
"""The codes of a batch's rows that have a key, and these rows as they are stored."""

_GATHERED_SHARE = 3
# The texts of rows that are put together may have no more bytes than an int32 counts.
_MOST_GATHERED = 2**30
# A block is read whole for the sake of one row, and takes as long to decode as 1,000 of its rows.
_BLOCK_BYTES = 256 * 1024
_FEWEST_BYTES = 4096
# Of the memory of a join, the index of blocks takes at most this part.
_INDEX_SHARE = 64
# And a block at most this one, since a step reads a 24th.
_BLOCK_SHARE = 48
# Into how many blocks of the scratch area gathered rows are divided, and how large these are at
# least if that leaves some. Their index may be larger than the file's: with blocks as large as the
# file's, a table of 100 times the memory was written 26 times, and 5 times with these.
_PARTS_GATHERED, _LEAST_PARTS = 512, 24
_SCRATCH_BYTES = 32 * 1024
_SCRATCH_INDEX = 8
_MOST_TABLES = 256  # Each has an open file.


def encoder(schema: JoinSchema) -> Encode:
    """Encodes rows of the right input of a join, which is the master."""

    def encode(batch: pa.RecordBatch) -> tuple[Codes, pa.RecordBatch]:
        encoded = schema.encode(Side.RIGHT, batch).with_keys()
        return encoded.codes, encoded.rows

    return encode


def lay_down(
    batches: Iterable[pa.RecordBatch],
    encode: Encode,
    *,
    schema: pa.Schema,
    target: str | os.PathLike[str],
    scratch: SpillArea,
    memory: int,
    reader_memory: int | None = None,
    version: str,
    argument: str = "spill_dir",
) -> dict[str, Any]:
    """Write the rows of `batches` to a new file, in the schema in which `encode` stores them; the
    description of the file, for a manifest.

    `target` is a path, or a URI that `pyarrow.fs` knows; the file appears there when it is
    complete. `reader_memory` is the limit of the join that will read it, if that is not `memory`;
    blocks are larger with more of it. `argument` is what the user calls the file's directory.
    """
    laying = _Laying(schema, scratch.path, memory, reader_memory or memory)
    try:
        for batch in batches:
            codes, rows = encode(batch)
            laying.add(codes, rows, without_key=len(batch) - len(rows))
            del batch, codes, rows  # Or they would stay in memory while the next one is read.
        facts = {"version": version, "null_keys": laying.without_key}
        with new_file(target, argument) as out:
            writer = MasterWriter(out, schema, laying.block_bytes())
            for ordered in laying.in_order():
                writer.append(*ordered)
                del ordered
                hand_back()
            end = writer.finish(facts)
    finally:
        laying.close()
    return describe(os.fspath(target), writer.size, end.checksum, end.facts)


class _Laying:
    """Rows on their way into order."""

    def __init__(self, schema: pa.Schema, scratch: Path, memory: int, reader_memory: int) -> None:
        self._schema = schema
        self._columns = with_code(schema)
        self._reader_memory = reader_memory
        self._most = min(memory // _GATHERED_SHARE, _MOST_GATHERED)
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix="laying-", dir=scratch))
        except OSError as error:
            raise unusable(scratch, error) from error
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._bytes = 0
        self._tables: list[Master] = []
        self._written = 0
        self.without_key = 0

    def add(self, codes: Codes, rows: pa.RecordBatch, *, without_key: int) -> None:
        self.without_key += without_key
        if not len(rows):
            return
        batch = pa.RecordBatch.from_arrays([pa.array(codes), *rows.columns], schema=self._columns)
        self._gathered.append(batch)
        self._gathered_bytes += batch.nbytes
        self._bytes += batch.nbytes
        if self._gathered_bytes >= self._most:
            self._put_away()

    def block_bytes(self) -> int:
        """Bytes of a block of the file: few enough that a step can load several."""
        most = self._reader_memory // _BLOCK_SHARE
        return max(min(max(_BLOCK_BYTES, self._least_block()), most), _FEWEST_BYTES)

    def _least_block(self) -> int:
        """Bytes of a block with which the index of all blocks stays small."""
        return self._bytes * PLACE_BYTES * _INDEX_SHARE // self._reader_memory

    def _scratch_block(self) -> int:
        """Bytes of a block in the scratch area: few enough that many tables can be merged at once,
        so many that blocks take no longer than their rows."""
        small = min(self._most // _PARTS_GATHERED, _BLOCK_BYTES)
        fewest = min(_SCRATCH_BYTES, self._most // _LEAST_PARTS)
        return max(small, fewest, self._least_block() // _SCRATCH_INDEX, _FEWEST_BYTES)

    def in_order(self) -> Iterator[Ordered]:
        """All rows, in order of code."""
        if not self._tables:
            yield from self._sorted()
            return
        if self._gathered:
            self._put_away()
        while self._too_many():
            self._merge_some()
        yield from merged(self._tables, nbytes=self._most)

    def close(self) -> None:
        for table in self._tables:
            table.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _sorted(self) -> Iterator[Ordered]:
        if self._gathered:
            gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
            yield in_order(gathered)

    def _put_away(self) -> None:
        """Write what has been gathered as a table of its own."""
        self._write(self._sorted())
        hand_back()
        if self._too_many():
            self._merge_some()

    def _too_many(self) -> bool:
        """Whether merging all tables would take more memory than there is: a block of each must
        fit in half of it."""
        largest = sum(int(table.lengths.max()) for table in self._tables)
        return len(self._tables) > 2 and (
            len(self._tables) > _MOST_TABLES or largest > self._most // 2
        )

    def _merge_some(self) -> None:
        """Merge the smaller half of the tables into one."""
        tables = sorted(self._tables, key=lambda table: table.nbytes)
        half = max(len(tables) // 2, 2)
        some, self._tables = tables[:half], tables[half:]
        try:
            self._write(merged(some, nbytes=self._most))
        finally:
            for table in some:
                table.close()
                Path(table.name).unlink(missing_ok=True)

    def _write(self, pieces: Iterator[Ordered]) -> None:
        self._written += 1
        path = self._scratch / f"{self._written:06}"
        with new_file(path, "spill_dir") as out:
            writer = MasterWriter(out, self._schema, self._scratch_block())
            for ordered in pieces:
                writer.append(*ordered)
            writer.finish({"version": ""})
        self._tables.append(Master.open(path))
