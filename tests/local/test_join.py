from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.local.inputs import PATIENCE_S, SPILLING, SPILLING_ROWS, batches, sides
from tests.local.oracle import expected, rows_of
from watersmeet.operators.family import ALGORITHMS

HOW = ["inner", "left", "right", "full", "semi", "anti"]
LEFT, RIGHT = sides(2_000)


def as_table(table: pa.Table, path: Path) -> Any:
    return table


def as_iterator(table: pa.Table, path: Path) -> Any:
    return iter(batches(table, 300))


def as_reader(table: pa.Table, path: Path) -> Any:
    return table.to_reader(max_chunksize=300)


def as_dataset(table: pa.Table, path: Path) -> Any:
    return ds.dataset(table)


def as_file(table: pa.Table, path: Path) -> Any:
    pq.write_table(table, path / "table.parquet")
    return path / "table.parquet"


def as_directory(table: pa.Table, path: Path) -> Any:
    pq.write_table(table.slice(0, 700), path / "0.parquet")
    pq.write_table(table.slice(700), path / "1.parquet")
    return str(path)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "kind", [as_table, as_iterator, as_reader, as_dataset, as_file, as_directory]
)
def test_every_source_and_join_type_gives_the_exact_result(
    kind: Any, how: str, tmp_path: Path
) -> None:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
    run = wm.local.join(
        kind(LEFT, tmp_path / "left"), kind(RIGHT, tmp_path / "right"), on="k", how=how
    )
    assert rows_of(run.read_all()) == expected(LEFT, RIGHT, how)


@pytest.mark.parametrize("how", HOW)
def test_the_result_is_exact_in_the_least_memory(how: str, tmp_path: Path) -> None:
    left, right = sides(SPILLING_ROWS)
    with wm.local.join(left, right, on="k", how=how, memory=SPILLING, spill_dir=tmp_path) as run:
        result = run.read_all()
        assert run.metrics.rows_spilled > 0
        assert run.metrics.memory_peak <= 2**20
    assert rows_of(result) == expected(left, right, how)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
def test_every_algorithm_is_within_reach(algorithm: str) -> None:
    run = wm.local.join(LEFT, RIGHT, on="k", algorithm=algorithm)
    assert rows_of(run.read_all()) == expected(LEFT, RIGHT)


def test_the_first_row_needs_only_the_first_pair() -> None:
    left, right = sides(2_000, keys=1)
    # A source that is asked for its second row has had its first one put into the inbox. Without
    # this the thread of one source may start so late that the other's rows are all taken before.
    both_asked_again = threading.Barrier(2)

    def rows(table: pa.Table) -> Iterator[pa.RecordBatch]:
        first, *others = batches(table, 1)
        yield first
        both_asked_again.wait(PATIENCE_S)
        yield from others

    with wm.local.join(rows(left), rows(right), on="k") as run:
        next(run)
        assert run.metrics.rows_in == [1, 1]


def test_waiting_input_stays_within_its_share_of_the_memory() -> None:
    left, right = sides(20_000)
    held = []

    def watched(table: pa.Table) -> Any:
        for batch in batches(table, 100):
            held.append(run._driver.memory.by_purpose().get("input", 0))
            yield batch

    run = wm.local.join(watched(left), watched(right), on="k", memory="2MB")
    rows = sum(len(batch) for batch in run)
    assert rows == sum(expected(left, right).values())
    assert 0 < max(held) <= run._driver.shares.input


def test_the_schema_is_known_at_once_or_with_the_first_batches() -> None:
    names = ["k", "a", "b"]
    assert wm.local.join(LEFT, RIGHT, on="k").schema.names == names
    run = wm.local.join(iter(batches(LEFT)), iter(batches(RIGHT)), on="k")
    assert run.schema.names == names
    assert rows_of(run.read_all()) == expected(LEFT, RIGHT)


def test_read_all_of_nothing_still_has_columns() -> None:
    run = wm.local.join(LEFT, RIGHT.slice(0, 0), on="k")
    assert run.read_all().schema.names == ["k", "a", "b"]


def test_keys_of_other_names_suffixes_and_a_condition() -> None:
    left = pa.table({"id": [1, 2, 3], "v": [1, 2, 3]})
    right = pa.table({"user": [1, 2, 3], "v": [9, 2, 1]})
    run = wm.local.join(
        left,
        right,
        on={"id": "user"},
        suffixes=("_l", "_r"),
        condition=pc.field("v_l") < pc.field("v_r"),
    )
    assert run.read_all().to_pylist() == [{"id": 1, "v_l": 1, "user": 1, "v_r": 9}]


def test_batches_that_differ_only_in_nullability_are_one_input() -> None:
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    parts = [pa.record_batch({"k": [1]}), pa.record_batch([pa.array([2])], schema=strict)]
    right = pa.table({"k": [1, 2]})
    assert wm.local.join(iter(parts), right, on="k").read_all().num_rows == 2


def test_empty_batches_are_no_rows_and_no_end() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=LEFT.schema)
    parts = [empty, *batches(LEFT, 500), empty]
    run = wm.local.join(iter(parts), RIGHT, on="k")
    assert rows_of(run.read_all()) == expected(LEFT, RIGHT)


def test_explain_says_what_runs_and_what_it_decided(tmp_path: Path) -> None:
    left, right = sides(SPILLING_ROWS)
    run = wm.local.join(left, right, on="k", memory=SPILLING, spill_dir=tmp_path)
    before = run.explain()
    assert "auto, which is rpj" in before
    assert "1 MB" in before
    assert str(tmp_path) in before
    rows = run.read_all().num_rows
    after = " ".join(run.explain().split())
    assert f"{rows:,} rows" in after
    assert "of arrivals can meet it" in after
    shj = wm.local.join(left, right, on="k", algorithm="shj").explain()
    assert "keeps everything in memory" in shj
    assert "waits" in shj


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    wm.local.join(LEFT, RIGHT, on="k").read_all()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("memory", "partitions"), [("15MB", 16), ("16MB", 32)])
def test_little_memory_is_divided_among_fewer_partitions(memory: str, partitions: int) -> None:
    """So that what leaves it at a time is not too small."""
    keys = pa.table({"k": range(100), "a": range(100)})
    for promises in ((), [wm.unique("left", "k")]):
        with wm.local.join(keys, RIGHT, on="k", memory=memory, promises=promises) as run:
            next(run)
            statistics = run.metrics.statistics()
        assert statistics["arrival_probabilities"].shape == (2, partitions)
