"""A run's storage gives back what was written, or says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.store.devices import small_device
from watersmeet.errors import SpillCorrupted, SpillError
from watersmeet.store.exchange import ExchangeDir, Sections

SCHEMA = pa.schema({"k": pa.int64(), "text": pa.string()})


def block(start: int, rows: int = 100) -> pa.RecordBatch:
    numbers = np.arange(start, start + rows)
    return pa.record_batch([numbers, [f"row {n}" for n in numbers]], schema=SCHEMA)


@pytest.fixture
def storage(tmp_path: Path) -> ExchangeDir:
    return ExchangeDir(tmp_path.as_uri())


def written(storage: ExchangeDir) -> Sections:
    return storage.write_sections("left", iter([(0, block(0)), (2, block(100)), (0, block(200))]))


def test_each_instance_reads_its_own_rows_in_order(storage: ExchangeDir) -> None:
    file = Sections.from_description(written(storage).describe())
    rows = list(storage.read_sections([file.of(0)], SCHEMA))
    assert pa.Table.from_batches(rows) == pa.Table.from_batches([block(0), block(200)])
    assert list(storage.read_sections([file.of(1)], SCHEMA)) == []
    assert file.by_instance() == {0: file.of(0), 2: file.of(2)}
    assert file.rows == 300


def test_attempts_do_not_share_names(storage: ExchangeDir) -> None:
    assert written(storage).name != written(storage).name


@pytest.mark.parametrize("byte", [0, 200, -1])
def test_a_changed_byte_is_found_before_its_rows_are_used(
    storage: ExchangeDir, tmp_path: Path, byte: int
) -> None:
    file = storage.write_sections("left", iter([(0, block(0))]))
    path = tmp_path / file.name
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)
    with pytest.raises(SpillCorrupted, match="altered"):
        next(storage.read_sections([file], SCHEMA))


def test_a_full_device_is_named(tmp_path: Path) -> None:
    with small_device(tmp_path, kilobytes=64) as device:
        storage = ExchangeDir(device.as_uri())
        with pytest.raises(SpillError, match="No space left"):
            storage.write_sections("left", ((0, block(n, 1000)) for n in range(100)))


def test_an_error_of_the_source_is_not_blamed_on_the_storage(storage: ExchangeDir) -> None:
    def blocks() -> Iterator[tuple[int, pa.RecordBatch]]:
        yield 0, block(0)
        raise OSError("the input's own trouble")

    with pytest.raises(OSError, match="own trouble"):
        storage.write_sections("left", blocks())


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SpillError, match="cannot be written"):
        ExchangeDir((tmp_path / "file" / "below").as_uri()).create()
