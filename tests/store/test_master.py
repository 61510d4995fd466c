"""Master tables: laid down within a memory limit, in order of code, read back by block."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.outside import Watched
from tests.store.arrays import VALUES, name_of
from tests.store.devices import small_device
from watersmeet.errors import SpillError, StateError
from watersmeet.model import Side
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.master import laying
from watersmeet.store.master.blocks import BlockPlaces
from watersmeet.store.master.laying import encoder, lay_down
from watersmeet.store.master.merging import portions
from watersmeet.store.master.table import Master, MasterRows
from watersmeet.store.spill import SpillArea

MB = 2**20
STREAM = pa.schema({"k": pa.int64()})


@pytest.fixture
def area(tmp_path: Path) -> Iterator[SpillArea]:
    area = SpillArea(tmp_path)
    yield area
    area.close()


def laid_down(
    table: pa.Table, area: SpillArea, *, memory: int = MB, name: str = "master", rows: int = 1000
) -> Master:
    schema = JoinSchema.resolve(STREAM, table.schema, "k")
    described = lay_down(
        iter(table.to_batches(max_chunksize=rows)),
        encoder(schema),
        schema=schema.stored(Side.RIGHT),
        target=area.path / name,
        scratch=area,
        memory=memory,
        version="first",
    )
    return Master.open(area.path / name, described)


def content(master: Master) -> MasterRows:
    """All rows; each block's codes rise, lie in its range, and go on where the last one ended."""
    if not len(master):
        return MasterRows(np.empty(0, np.uint64), pa.RecordBatch.from_pylist([], master.schema))
    for block in range(len(master)):
        codes, _ = master.read(block, block + 1)
        assert (codes[0], codes[-1]) == (master.first[block], master.last[block])
        assert len(codes) == master.block_rows[block]
    whole = master.read(0, len(master))
    assert (np.diff(whole.codes.astype(object)) >= 0).all()
    return whole


def bag(table: pa.Table | pa.RecordBatch) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def numbers(rows: int, *, distinct: int | None = None, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    keys = random.integers(0, distinct or rows, rows)
    texts = [f"{key:0{5 + key % 40}}" for key in keys.tolist()]
    return pa.table({"k": keys, "n": np.arange(rows), "text": texts})


def codes_of(table: pa.Table) -> list[int]:
    schema = JoinSchema.resolve(STREAM, table.schema, "k")
    batch = table.combine_chunks().to_batches()[0]
    codes: list[int] = schema.encode(Side.RIGHT, batch).with_keys().codes.tolist()
    return codes


def assert_in_order(whole: MasterRows, table: pa.Table) -> None:
    """All rows are there, each with its own code, in order of code."""
    assert bag(whole.rows) == bag(table)
    assert whole.codes.tolist() == sorted(codes_of(table))
    assert whole.codes.tolist() == codes_of(pa.Table.from_batches([whole.rows]))


# ---- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [64 * 1024, MB, 64 * MB])
def test_all_rows_are_there_in_order_of_code(memory: int, area: SpillArea) -> None:
    """With little memory from many tables that are merged, with much from memory."""
    table = numbers(20_000)
    master = laid_down(table, area, memory=memory)
    whole = content(master)
    assert_in_order(whole, table)
    assert (master.rows, master.version) == (20_000, "first")
    assert master.distinct == len(set(whole.codes.tolist()))
    assert [entry.name for entry in area.path.iterdir()] == ["master"], "no scratch file is left"


def test_tables_are_merged_in_several_levels(
    area: SpillArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    merges = []
    monkeypatch.setattr(laying, "_MOST_TABLES", 4)
    merge_some = laying._Laying._merge_some

    def counted(self: Any) -> None:
        merges.append(len(self._tables))
        merge_some(self)

    monkeypatch.setattr(laying._Laying, "_merge_some", counted)
    table = numbers(20_000)
    assert_in_order(content(laid_down(table, area, memory=64 * 1024)), table)
    assert len(merges) > 10


@pytest.mark.parametrize("memory", [64 * 1024, 64 * MB])
def test_one_code_may_have_more_rows_than_fit_in_memory(memory: int, area: SpillArea) -> None:
    hot = pa.table({"k": [7] * 15_000, "n": range(15_000), "text": ["x" * 30] * 15_000})
    table = pa.concat_tables([numbers(2_000), hot, numbers(2_000, seed=1)])
    master = laid_down(table, area, memory=memory)
    whole = content(master)
    assert_in_order(whole, table)
    assert master.distinct == len(set(whole.codes.tolist()))
    if memory < MB:
        assert (master.first == master.last).sum() > 50, "blocks of this code alone"


def test_a_table_of_one_code_and_the_largest_codes_there_are(area: SpillArea) -> None:
    batch = pa.record_batch({"x": pa.array(range(9000))})
    codes = np.full(9000, 2**64 - 1, np.uint64)
    codes[:4000] = 0
    described = lay_down(
        [batch.slice(start, 100) for start in range(0, 9000, 100)],
        lambda part: (codes[part.column(0).to_numpy()], part),
        schema=batch.schema,
        target=area.path / "master",
        scratch=area,
        memory=24 * 1024,
        version="v",
    )
    whole = content(Master.open(area.path / "master", described))
    assert whole.codes.tolist() == sorted(codes.tolist())
    assert bag(whole.rows) == bag(batch)


def test_rows_without_a_key_are_left_out_and_counted(area: SpillArea) -> None:
    table = pa.table({"k": [None, 1, None, 2], "x": ["a", "b", "c", None]})
    master = laid_down(table, area)
    assert bag(content(master).rows) == bag(table.slice(1, 1)) + bag(table.slice(3, 1))
    assert (master.rows, master.facts["null_keys"]) == (2, 2)


@pytest.mark.parametrize("rows", [0, 5])
def test_a_table_may_be_empty(rows: int, area: SpillArea) -> None:
    """No batch at all, or none that has a key."""
    table = pa.table({"k": pa.nulls(rows, pa.int64()), "x": pa.nulls(rows, pa.string())})
    master = laid_down(table, area)
    assert (len(master), master.rows, master.nbytes, master.distinct) == (0, 0, 0, 0)
    assert master.schema.names == ["k", "x"]
    assert not len(master.first)
    assert not len(master.lengths)


KINDS = {
    **VALUES,
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", "a"],
    pa.string_view(): ["short", "longer than twelve bytes"],
}


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_columns_of_every_type_come_back(kind: pa.DataType, area: SpillArea) -> None:
    values = pa.array([None, *KINDS[kind], None] * 40, kind)
    table = pa.table({"k": pa.array(range(len(values))), "x": values})
    master = laid_down(table, area, memory=8 * 1024, rows=20)
    whole = content(master)
    whole.rows.validate(full=True)
    assert bag(whole.rows) == bag(table)


def test_keys_of_text_bring_what_verifies_them(area: SpillArea) -> None:
    """A key of several columns has a hidden column, which is stored with the rows."""
    sides = pa.schema({"k": pa.string(), "d": pa.decimal128(10, 2)})
    schema = JoinSchema.resolve(sides, sides, ["k", "d"])
    table = pa.table([["a", "b", None], [Decimal(1), Decimal(2), Decimal(3)]], schema=sides)
    lay_down(
        table.to_batches(),
        encoder(schema),
        schema=schema.stored(Side.RIGHT),
        target=area.path / "master",
        scratch=area,
        memory=MB,
        version="v",
    )
    master = Master.open(area.path / "master")
    assert master.schema.equals(schema.stored(Side.RIGHT))
    assert content(master).rows.num_rows == 2


def test_neighbouring_blocks_are_one_read(area: SpillArea, monkeypatch: pytest.MonkeyPatch) -> None:
    master = laid_down(numbers(5_000), area, memory=64 * 1024)
    parts = [master.read(block, block + 1).rows for block in range(3, 9)]
    reads: list[tuple[int, int, int]] = []
    pread = os.pread

    def counted(*arguments: int) -> bytes:
        reads.append(arguments)  # type: ignore[arg-type]
        return pread(*arguments)

    monkeypatch.setattr(os, "pread", counted)
    together = master.read(3, 9)
    assert len(reads) == 1
    assert together.rows.equals(pa.concat_batches(parts))
    assert reads[0][1] == master.lengths[3:9].sum()


@pytest.mark.parametrize("gigabytes", [0.001, 0.1, 1, 10])
@pytest.mark.parametrize("memory", [64 * MB, 256 * MB])
def test_blocks_are_small_and_so_is_their_index(
    memory: int, gigabytes: float, area: SpillArea
) -> None:
    laying_down = laying._Laying(STREAM, area.path, memory, memory)
    laying_down._bytes = int(gigabytes * 2**30)
    block_bytes = laying_down.block_bytes()
    assert 64 * 1024 <= block_bytes <= memory / 48
    index_bytes = laying_down._bytes / block_bytes * 40
    assert index_bytes <= memory / 64 or block_bytes >= memory / 49


# ---- portions ------------------------------------------------------------------------------------


@st.composite
def tables(draw: st.DrawFn) -> list[list[list[int]]]:
    """Codes of each block of some tables, in order."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        codes = sorted(draw(st.lists(st.integers(0, 12) | st.just(2**64 - 1), max_size=30)))
        size = draw(st.integers(1, 5))
        found.append([codes[start : start + size] for start in range(0, len(codes), size)])
    return found


@given(tables(), st.integers(1, 12))
def test_every_code_is_in_one_portion_and_portions_fit(
    blocks: list[list[list[int]]], nbytes: int
) -> None:
    places = [
        BlockPlaces.of(
            [(n, 0, block[0], block[-1], len(block)) for n, block in enumerate(each)],
            until=len(each),
        )
        for each in blocks
    ]
    found = list(portions(places, nbytes=nbytes))
    codes = {code for each in blocks for block in each for code in block}
    end = 2**64
    for code in codes:
        assert sum(low <= code < (high or end) for low, high, _ in found) == 1
    for low, high, alone in found:
        inside = [
            [block for block in each if block[-1] >= low and block[0] < (high or end)]
            for each in blocks
        ]
        if not alone:
            # A block that goes on from the portion before, and all of one code that is not alone.
            assert sum(map(len, inside)) <= max(nbytes, len(blocks) * 2 + nbytes // 2)


# ---- files ---------------------------------------------------------------------------------------


def use(path: Path) -> Counter[str]:
    master = Master.open(path)
    return bag(master.read(0, len(master)).rows)


def test_a_flipped_byte_is_noticed_wherever_it_is(area: SpillArea) -> None:
    table = numbers(30)
    laid_down(table, area)
    path = area.path / "master"
    intact = path.read_bytes()
    positions = {*range(8, len(intact), 13), *range(len(intact) - 40, len(intact))}
    for position in positions:  # Not the magic at the beginning, which nobody reads.
        altered = bytearray(intact)
        altered[position] ^= 0x10
        path.write_bytes(altered)
        with pytest.raises(StateError, match=r"altered|laid down"):
            use(path)
    path.write_bytes(intact)
    assert use(path) == bag(table)


def test_a_shorter_file_is_noticed(area: SpillArea) -> None:
    laid_down(numbers(30), area)
    path = area.path / "master"
    intact = path.read_bytes()
    for length in range(0, len(intact), 97):
        path.write_bytes(intact[:length])
        with pytest.raises(StateError, match=r"incomplete") as caught:
            Master.open(path)
    assert "laid down again" in caught.value.remedy
    master = laid_down(numbers(3000), area, name="other")
    os.truncate(area.path / "other", 1000)
    with pytest.raises(StateError, match="shorter"):
        master.read(0, len(master))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"gone.*cannot be opened"):
        Master.open(tmp_path / "gone")


def test_another_table_than_the_one_described_is_refused(area: SpillArea) -> None:
    described = laid_down(numbers(30), area).describe()
    laid_down(numbers(30, seed=1), area, name="other")
    (area.path / "other").replace(area.path / "master")
    with pytest.raises(StateError, match="not the one that was laid down"):
        Master.open(area.path / "master", described)


def test_uris_are_paths_too(area: SpillArea) -> None:
    table = numbers(100)
    master = laid_down(table, area)
    again = Master.open((area.path / "master").as_uri(), master.describe())
    assert bag(content(again).rows) == bag(table)


def test_a_failing_source_leaves_nothing(area: SpillArea) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbers(5_000).to_batches(max_chunksize=500)
        raise OSError(errno.EIO, "the source's own error")

    schema = JoinSchema.resolve(STREAM, numbers(1).schema, "k")
    with pytest.raises(OSError, match="the source's own"):
        lay_down(
            batches(),
            encoder(schema),
            schema=schema.stored(Side.RIGHT),
            target=area.path / "master",
            scratch=area,
            memory=32 * 1024,
            version="v",
        )
    assert not list(area.path.iterdir())


@pytest.mark.parametrize("full", ["target", "scratch"])
def test_a_full_device_is_an_error_and_nothing_is_left(
    full: str, area: SpillArea, tmp_path: Path
) -> None:
    with small_device(tmp_path, kilobytes=256) as mounted:
        small = SpillArea(mounted)
        schema = JoinSchema.resolve(STREAM, numbers(1).schema, "k")
        with pytest.raises(SpillError, match="is full"):
            lay_down(
                numbers(20_000).to_batches(max_chunksize=500),
                encoder(schema),
                schema=schema.stored(Side.RIGHT),
                target=(small if full == "target" else area).path / "master",
                scratch=small if full == "scratch" else area,
                memory=MB,
                version="v",
            )
        assert not list(small.path.iterdir())
        assert not list(area.path.iterdir())


@pytest.mark.slow
def test_memory_stays_within_the_limit(tmp_path: Path) -> None:
    """Measured from outside, on a table ten times as large."""
    program = f"""
import sys
from pathlib import Path
import numpy as np, pyarrow as pa
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.master.laying import encoder, lay_down
from watersmeet.store.spill import SpillArea

kinds = pa.schema({{"k": pa.int64(), "n": pa.int64(), "text": pa.string()}})
schema = JoinSchema.resolve(kinds, kinds, "k")

text = pa.array(["some text that is rather long: " * (n % 4) for n in range(10_000)])

def batches(count):
    for start in range(0, count * 10_000, 10_000):
        keys = np.arange(start, start + 10_000)
        yield pa.record_batch([keys, keys, text], schema=kinds)

area = SpillArea({str(tmp_path)!r})
def lay(count, name):
    lay_down(batches(count), encoder(schema), schema=schema.stored(1), target=area.path / name,
             scratch=area, memory={16 * MB}, version="v")
lay(1, "warm")
print("0", flush=True)
sys.stdin.readline()
lay(150, "master")
print((area.path / "master").stat().st_size, flush=True)
sys.stdin.readline()
"""
    with Watched(["-c", program]) as watched:
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        assert watched.hear() > 100 * MB
        assert watched.peak_bytes() < 64 * MB
