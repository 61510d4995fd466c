"""What is written to disk is read back exactly, or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.store.arrays import VALUES, name_of
from tests.store.devices import small_device
from watersmeet.errors import SpillCorrupted, SpillError
from watersmeet.store.spill import Block, Io, IoKind, SpillArea, unusable

NUMBERS = pa.schema({"n": pa.int64(), "text": pa.string()})


def numbers(rows: int) -> pa.RecordBatch:
    return pa.record_batch([range(rows), [f"row {n}" for n in range(rows)]], schema=NUMBERS)


@pytest.fixture
def area(tmp_path: Path) -> Iterator[SpillArea]:
    area = SpillArea(tmp_path)
    yield area
    area.close()


def write(area: SpillArea, *batches: pa.RecordBatch) -> tuple[Path, list[Block]]:
    writer = area.create(batches[0].schema, IoKind.FLUSH)
    blocks = [writer.append(b, (n, n), first=n == 0) for n, b in enumerate(batches)]
    return area.path / writer.finish(), blocks


def read(area: SpillArea, path: Path, block: Block, schema: pa.Schema = NUMBERS) -> pa.RecordBatch:
    reader = area.open(path.name, schema, IoKind.SCAN)
    try:
        return reader.read(block)
    finally:
        reader.close()


@pytest.mark.parametrize("kind", VALUES, ids=name_of)
def test_blocks_of_every_type_come_back(kind: pa.DataType, area: SpillArea) -> None:
    whole = pa.array([None, *VALUES[kind], None] * 3, kind)
    batches = [
        pa.record_batch({"x": part}) for part in (whole, whole.slice(2, 5), whole.slice(0, 0))
    ]
    path, blocks = write(area, *batches)
    for block, batch in reversed(list(zip(blocks, batches, strict=True))):
        back = read(area, path, block, batch.schema)
        back.validate(full=True)
        assert back.equals(batch)
        assert block.rows == len(batch)


def test_a_file_is_an_arrow_stream(area: SpillArea) -> None:
    batches = [numbers(3), numbers(0), numbers(1000)]
    path, _ = write(area, *batches)
    with pa.ipc.open_stream(path) as stream:
        assert stream.read_all().equals(pa.Table.from_batches(batches))


def test_a_flipped_byte_is_noticed_wherever_it_is(area: SpillArea) -> None:
    path, blocks = write(area, numbers(2), numbers(3))
    intact = path.read_bytes()
    block = blocks[1]
    for position in range(block.offset, block.offset + block.length):
        altered = bytearray(intact)
        altered[position] ^= 0x10
        path.write_bytes(altered)
        with pytest.raises(SpillCorrupted, match="altered"):
            read(area, path, block)
        assert read(area, path, blocks[0]).equals(numbers(2))


def test_a_shorter_file_is_noticed(area: SpillArea) -> None:
    path, (block,) = write(area, numbers(5))
    for length in (block.offset + block.length - 1, block.offset, 0):
        os.truncate(path, length)
        with pytest.raises(SpillCorrupted, match="shorter"):
            read(area, path, block)


def test_a_missing_file_is_noticed_and_the_error_says_what_to_do(area: SpillArea) -> None:
    path, (block,) = write(area, numbers(5))
    path.unlink()
    with pytest.raises(SpillCorrupted, match=path.name) as caught:
        read(area, path, block)
    assert caught.value.remedy in str(caught.value)
    assert "run the join again" in caught.value.remedy


def test_blocks_swapped_between_files_are_noticed(area: SpillArea) -> None:
    """Both files are sound, and neither is what was written under its name."""
    (one, (block, *_)), (other, _) = write(area, numbers(5)), write(area, numbers(5)[::-1])
    one.write_bytes(other.read_bytes())
    with pytest.raises(SpillCorrupted, match=r"altered|shorter"):
        read(area, one, block)


def test_every_block_is_reported_with_its_kind_and_size(tmp_path: Path) -> None:
    seen: list[Io] = []
    area = SpillArea(tmp_path, observe=seen.append)
    writer = area.create(NUMBERS, IoKind.MERGE_WRITE)
    flags = [True, False, True]
    blocks = [
        writer.append(numbers(n), (0, 0), first=first)
        for n, first in zip((3, 2, 4), flags, strict=True)
    ]
    name = writer.finish()
    assert seen == [
        Io(IoKind.MERGE_WRITE, block.rows, block.length, first)
        for block, first in zip(blocks, flags, strict=True)
    ]
    seen.clear()
    for _ in range(2):  # each opening is a pass of its own
        reader = area.open(name, NUMBERS, IoKind.MERGE_READ)
        reader.read(blocks[1])
        reader.read(blocks[2])
        reader.close()
    passed = [(2, blocks[1].length, True), (4, blocks[2].length, False)]
    assert seen == [Io(IoKind.MERGE_READ, *each) for each in passed * 2]
    area.close()


def test_a_block_that_is_refused_is_not_reported(tmp_path: Path) -> None:
    seen: list[Io] = []
    area = SpillArea(tmp_path, observe=seen.append)
    path, (block,) = write(area, numbers(5))
    seen.clear()
    os.truncate(path, 100)
    with pytest.raises(SpillCorrupted):
        read(area, path, block)
    assert not seen


def test_a_file_goes_with_the_last_run_in_it(area: SpillArea) -> None:
    path, _ = write(area, numbers(1))
    area.retain(path.name)
    area.retain(path.name)
    area.release(path.name)
    assert path.exists()
    area.release(path.name)
    assert not path.exists()


def test_a_file_that_is_adopted_outlives_its_first_owner(area: SpillArea, tmp_path: Path) -> None:
    first = SpillArea(tmp_path)
    path, (block,) = write(first, numbers(5))
    write(area, numbers(1))  # a file of the same name
    mine = area.path / area.adopt(first.path, path.name)
    first.close()
    assert not path.exists()
    assert read(area, mine, block).equals(numbers(5))


def test_a_file_from_another_device_is_adopted_by_copying(
    area: SpillArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    first = SpillArea(tmp_path)
    path, (block,) = write(first, numbers(5))
    monkeypatch.setattr(os, "link", refuse)
    mine = area.path / area.adopt(first.path, path.name)
    assert mine.stat().st_ino != path.stat().st_ino
    assert read(area, mine, block).equals(numbers(5))


def test_adopting_a_missing_file_is_a_spill_error(area: SpillArea, tmp_path: Path) -> None:
    with pytest.raises(SpillError):
        area.adopt(tmp_path, "run-000001.arrow")


def test_closing_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    area = SpillArea(tmp_path)
    write(area, numbers(1))
    area.close()
    area.close()
    assert not list(tmp_path.iterdir())


def test_areas_in_one_directory_do_not_share_files(tmp_path: Path) -> None:
    one, other = SpillArea(tmp_path), SpillArea(tmp_path)
    path, (block,) = write(one, numbers(5))
    write(other, numbers(9))
    other.close()
    assert read(one, path, block).equals(numbers(5))


def test_an_abandoned_file_is_gone(area: SpillArea) -> None:
    writer = area.create(NUMBERS, IoKind.FLUSH)
    writer.append(numbers(5), (0, 0), first=True)
    writer.abandon()
    assert not list(area.path.iterdir())


def a_missing_directory(base: Path) -> Path:
    return base / "missing"


def a_file(base: Path) -> Path:
    (base / "file").touch()
    return base / "file"


@pytest.mark.parametrize("place", [a_missing_directory, a_file])
def test_an_unusable_directory_is_refused(place: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(SpillError, match="Cannot write to the spill directory") as caught:
        SpillArea(place(tmp_path))
    assert "spill_dir" in caught.value.remedy


def test_a_directory_that_vanished_is_a_spill_error(tmp_path: Path) -> None:
    area = SpillArea(tmp_path)
    area.path.rmdir()
    with pytest.raises(SpillError, match="Cannot write"):
        area.create(NUMBERS, IoKind.FLUSH)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    with small_device(tmp_path, kilobytes=1024) as mounted:
        yield mounted


def test_a_full_device_is_a_spill_error_and_the_file_is_gone(device: Path) -> None:
    area = SpillArea(device)
    writer = area.create(NUMBERS, IoKind.FLUSH)
    much = pa.Table.from_batches([numbers(1000)] * 100).combine_chunks().to_batches()[0]
    with pytest.raises(SpillError, match="is full") as caught:
        writer.append(much, (0, 0), first=True)
    assert not isinstance(caught.value, SpillCorrupted)
    assert "Free some space" in caught.value.remedy
    assert not list(area.path.iterdir())
    area.close()


def test_a_device_that_is_full_at_the_last_byte_is_noticed(device: Path) -> None:
    """Buffers hide a full device until the file is closed."""
    area = SpillArea(device)
    writer = area.create(NUMBERS, IoKind.FLUSH)
    writer.append(numbers(1), (0, 0), first=True)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (device / "filler").write_bytes(bytes(2**21))
    with pytest.raises(SpillError, match="is full"):
        writer.finish()
    assert not list(area.path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_used_up_quota_say_the_same(number: int, tmp_path: Path) -> None:
    error = unusable(tmp_path, OSError(number, os.strerror(number)))
    assert "is full" in error.cause
    assert str(tmp_path) in error.cause
