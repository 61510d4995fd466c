"""A split is read in bounded batches, and never from a file that is not the one that was opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.scans import plain, read
from watersmeet.errors import InputChanged
from watersmeet.spark.scans.relation import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS, GROUP = 1_000, 400
CONDITIONS: dict[str, Callable[[int], bool]] = {
    "true": lambda id: True,
    "id < 450": lambda id: id < 450,
    "text IS NULL": lambda id: id % 5 == 0,
}


def write(path: Path, first: int = 0) -> None:
    ids = range(first, first + ROWS)
    texts = [None if id % 5 == 0 else f"text {id}" for id in ids]
    pq.write_table(pa.table({"id": ids, "text": texts}), path, row_group_size=GROUP)


@pytest.fixture
def frame(spark: SparkSession, tmp_path: Path) -> DataFrame:
    write(tmp_path / "data.parquet")
    return spark.read.parquet(str(tmp_path))


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("batch_rows", [1, 7, 64, 10_000])
def test_splits_give_their_rows_and_no_others(
    frame: DataFrame, condition: str, batch_rows: int
) -> None:
    scan = plain(frame.where(condition))
    for group, start, stop in [(0, 0, 400), (0, 399, 400), (1, 33, 97), (2, 0, 200), (2, 150, 200)]:
        batches = list(scan.read(Split(0, group, start, stop), batch_rows=batch_rows))
        assert all(0 < batch.num_rows <= batch_rows for batch in batches)
        assert all(batch.schema.equals(scan.schema) for batch in batches)
        ids = [id for batch in batches for id in batch.column("id").to_pylist()]
        expected = range(group * GROUP + start, group * GROUP + stop)
        assert ids == [id for id in expected if CONDITIONS[condition](id)]


def test_rows_without_columns_of_the_file_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "p=1").mkdir()
    write(tmp_path / "p=1" / "data.parquet")
    scan = plain(spark.read.parquet(str(tmp_path)).select("p"))
    batches = list(scan.read(Split(0, 0, 10, 300), batch_rows=100))
    assert [batch.num_rows for batch in batches] == [100, 100, 90]
    assert set(batches[0].column("p").to_pylist()) == {1}
    assert scan.nbytes == 0


def test_a_task_reads_a_scan_that_was_sent_to_it(spark: SparkSession, frame: DataFrame) -> None:
    scan = plain(frame.where("id < 450"))
    splits = [Split(group.file, group.number, 0, group.rows) for group in scan.row_groups]

    def count(split: Split) -> int:
        return sum(batch.num_rows for batch in scan.read(split, batch_rows=64))

    assert spark.sparkContext.parallelize(splits, 2).map(count).collect() == [400, 50]


def test_a_large_row_group_is_not_held_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    size = 2_000_000
    noise = np.random.default_rng(0).integers(0, 2**63, size)
    # Without a dictionary, which is one page and would have to be held.
    pq.write_table(
        pa.table({"n": noise}), tmp_path / "data.parquet", use_dictionary=False, row_group_size=size
    )
    scan = plain(spark.read.parquet(str(tmp_path)))
    assert scan.nbytes > 16_000_000
    pool = pa.default_memory_pool()
    before, most, total = pool.bytes_allocated(), 0, 0
    for batch in scan.read(Split(0, 0, 0, size), batch_rows=10_000):
        most = max(most, pool.bytes_allocated() - before)
        total += batch.num_rows
    assert total == size
    assert most < 6_000_000


def rewritten(path: Path) -> None:
    """Other rows, under the same name."""
    write(path, first=5_000)


def replaced(path: Path) -> None:
    """Another file put in its place, of the same size."""
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


CHANGES: list[Callable[[Path], None]] = [rewritten, replaced, cut_short, Path.unlink]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_file_gives_an_error_and_no_row(
    frame: DataFrame, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    scan = plain(frame)
    change(tmp_path / "data.parquet")
    batches = scan.read(Split(0, 0, 0, GROUP), batch_rows=10)
    with pytest.raises(InputChanged, match=r"data\.parquet has (changed|vanished)") as caught:
        next(batches)
    assert "Keep the files" in caught.value.remedy


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_changes_while_it_is_read_is_noticed_before_the_end(
    frame: DataFrame, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    batches = plain(frame).read(Split(0, 0, 0, GROUP), batch_rows=10)
    next(batches)
    change(tmp_path / "data.parquet")
    with pytest.raises(InputChanged):
        list(batches)


def test_a_file_that_stayed_is_read_again_and_again(frame: DataFrame) -> None:
    scan = plain(frame)
    assert read(scan).equals(read(scan))
