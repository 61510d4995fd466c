"""Small batches are put together, and large ones left as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.rows.rebatched import gathered, rebatched

SIZES = [3, 1, 0, 7, 2, 2, 2, 40, 1]


def batches() -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": pa.array(range(size), pa.int64())}) for size in SIZES]


@pytest.mark.parametrize(
    ("rows", "sizes"), [(1, [3, 1, 7, 2, 2, 2, 40, 1]), (8, [11, 46, 1]), (1000, [58])]
)
def test_at_least_so_many_rows(rows: int, sizes: list[int]) -> None:
    assert [len(each) for each in rebatched(iter(batches()), rows) if len(each)] == sizes


@pytest.mark.parametrize(("nbytes", "sizes"), [(8, [3, 1, 7, 2, 2, 2, 40, 1]), (64, [11, 46, 1])])
def test_fewer_rows_if_they_are_long(nbytes: int, sizes: list[int]) -> None:
    found = [*rebatched(iter(batches()), 1000, nbytes)]
    assert [len(each) for each in found if len(each)] == sizes


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [(1, [3, 1, 7, 2, 2, 2, 40, 1]), (8, [4, 7, 6, 40, 1]), (1000, [58])],
)
def test_at_most_so_many_bytes(rows: int, sizes: list[int]) -> None:
    found = [*gathered(iter(batches()), 8 * rows)]
    assert [len(each) for each in found if len(each)] == sizes
    assert pa.Table.from_batches(found) == pa.Table.from_batches(batches())
