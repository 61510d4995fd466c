"""Runs: sorted rows with their stamps, in blocks, on disk or still in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import SpillCorrupted
from watersmeet.kernels.hashing import hash_codes
from watersmeet.store.runs import (
    STILL_HERE,
    Piece,
    ResidentRun,
    Run,
    RunWriter,
    SpilledRun,
    resident_piece,
    stamped,
    write_run,
)
from watersmeet.store.spill import Io, IoKind, SpillArea
from watersmeet.store.table import Table

SCHEMA = pa.schema({"key": pa.uint64(), "text": pa.string(), "list": pa.list_(pa.int8())})
ROWS = 100


@pytest.fixture
def seen() -> list[Io]:
    return []


@pytest.fixture
def area(tmp_path: Path, seen: list[Io]) -> Iterator[SpillArea]:
    area = SpillArea(tmp_path, observe=seen.append)
    yield area
    area.close()


@pytest.fixture
def table() -> Table:
    """Keys come twice, so that equal hashes have an older and a newer row."""
    table = Table(SCHEMA, rows=ROWS, nbytes=10_000, partitions=1)
    keys = np.arange(ROWS, dtype=np.uint64) % np.uint64(ROWS // 2)
    texts = [None if n % 9 == 0 else f"t{n}" for n in range(ROWS)]
    batch = pa.record_batch([keys, texts, [[n] for n in range(ROWS)]], schema=SCHEMA)
    table.add(hash_codes(keys), np.arange(500, 500 + ROWS), batch)
    return table


def everything(table: Table) -> np.ndarray:
    return np.arange(len(table), dtype=np.int32)


def content(run: Run, kind: IoKind = IoKind.SCAN) -> Piece:
    read = run.open(kind)
    return Piece.concat([read(n) for n in range(run.block_count)], SCHEMA)


def written(area: SpillArea, table: Table, *, block_rows: int = 7) -> SpilledRun:
    writer = RunWriter(area, SCHEMA, IoKind.FLUSH, block_rows=block_rows)
    run = write_run(writer, table, table.by_code(everything(table))[1], departed=900)
    writer.close()
    return run


def test_rows_in_order_of_hash_are_oldest_first_among_equals(table: Table) -> None:
    order = table.by_code(everything(table))[1]
    pairs = list(zip(table.codes(order).tolist(), table.stamps[order].tolist(), strict=True))
    assert pairs == sorted(pairs)


@pytest.mark.parametrize("block_rows", [1, 7, 100, 1000])
def test_a_run_comes_back_from_disk(area: SpillArea, table: Table, block_rows: int) -> None:
    run = written(area, table, block_rows=block_rows)
    assert (run.rows, run.departed, run.block_count) == (ROWS, (900, 900), -(-ROWS // block_rows))
    piece = content(run)
    assert piece.batch.equals(resident_piece(table, table.by_code(everything(table))[1], 900).batch)
    assert (piece.dts == 900).all()
    assert piece.rows.schema == SCHEMA
    for n in range(run.block_count):
        codes = piece.codes[n * block_rows :][: run.block_rows(n)]
        assert (run.first_code(n), run.last_code(n)) == (codes[0], codes[-1])


def test_a_run_in_memory_reads_like_one_on_disk(area: SpillArea, table: Table) -> None:
    resident = ResidentRun(table, everything(table), block_rows=7)
    spilled = written(area, table)
    assert (resident.rows, resident.block_count) == (spilled.rows, spilled.block_count)
    assert resident.departed == (STILL_HERE, STILL_HERE)
    assert [resident.block_rows(n) for n in range(resident.block_count)] == [
        spilled.block_rows(n) for n in range(spilled.block_count)
    ]
    assert content(resident).rows.equals(content(spilled).rows)
    assert content(resident).ats.tolist() == content(spilled).ats.tolist()


def test_runs_of_one_file_go_together(area: SpillArea, table: Table) -> None:
    order = table.by_code(everything(table))[1]
    writer = RunWriter(area, SCHEMA, IoKind.FLUSH, block_rows=10)
    halves = [write_run(writer, table, part, departed=900) for part in (order[:50], order[50:])]
    writer.close()
    (file,) = area.path.iterdir()
    halves[0].remove()
    assert content(halves[1]).ats.tolist() == table.stamps[order[50:]].tolist()
    halves[1].remove()
    assert not file.exists()


def test_each_run_of_a_file_begins_with_a_first_block(
    area: SpillArea, table: Table, seen: list[Io]
) -> None:
    order = table.by_code(everything(table))[1]
    writer = RunWriter(area, SCHEMA, IoKind.MERGE_WRITE, block_rows=20)
    runs = [write_run(writer, table, part, departed=900) for part in (order[:50], order[50:])]
    writer.close()
    assert [(io.kind, io.rows, io.first) for io in seen] == [
        (IoKind.MERGE_WRITE, rows, first)
        for rows, first in [(20, True), (20, False), (10, False)] * 2
    ]
    assert sum(io.bytes for io in seen) == sum(run.nbytes for run in runs)
    seen.clear()
    content(runs[1], IoKind.SCAN)
    assert [(io.kind, io.first) for io in seen] == [
        (IoKind.SCAN, True), (IoKind.SCAN, False), (IoKind.SCAN, False)
    ]  # fmt: skip


def test_a_description_travels_as_json_and_finds_its_rows(
    area: SpillArea, table: Table, tmp_path: Path
) -> None:
    run = written(area, table)
    other = SpillArea(tmp_path)
    described = json.loads(json.dumps(run.describe()))
    described["name"] = other.adopt(area.path, run.name)
    again = SpilledRun.from_description(described, SCHEMA, other)
    assert content(again).batch.equals(content(run).batch)
    assert (again.departed, again.rows, again.nbytes) == (run.departed, run.rows, run.nbytes)
    other.close()


def test_an_altered_run_yields_its_sound_blocks_only(area: SpillArea, table: Table) -> None:
    run = written(area, table)
    (file,) = area.path.iterdir()
    altered = bytearray(file.read_bytes())
    altered[run.blocks[2].offset + run.blocks[2].length // 2] ^= 1
    file.write_bytes(altered)
    read = run.open(IoKind.SCAN)
    assert len(read(0)) == len(read(1)) == 7
    with pytest.raises(SpillCorrupted):
        read(2)


def test_no_pieces_make_an_empty_one_of_the_right_schema() -> None:
    piece = Piece.concat([], SCHEMA)
    assert len(piece) == 0
    assert piece.batch.schema == stamped(SCHEMA)
    assert piece.rows.schema == SCHEMA


def test_slices_and_choices_keep_stamps_with_their_rows(table: Table) -> None:
    piece = resident_piece(table, table.by_code(everything(table))[1], 900)
    part = piece.slice(10, 30).take(np.array([3, 0, 19]))
    expected = [13, 10, 29]
    assert part.codes.tolist() == piece.codes[expected].tolist()
    assert part.ats.tolist() == piece.ats[expected].tolist()
    assert part.rows.to_pylist() == piece.rows.take(pa.array(expected)).to_pylist()
