"""What the stages promise each other: memory kept to, resizing, leaving early."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.operators.inputs import COSTS, batch, make, numbered
from tests.operators.making import make_progressive
from watersmeet.errors import InvalidArgument, MemoryTooSmall
from watersmeet.model import Side
from watersmeet.operators.progressive.algorithm import PROGRESSIVE
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.schema import JoinSchema
from watersmeet.store import marks
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

L, R = Side
SPILLING = [name for name, algorithm in PROGRESSIVE.items() if algorithm.flush]
TEXTS = pa.schema({"key": pa.int64(), "text": pa.string()})


def of_texts(name: str, directory: Path, *, memory: int, how: str = "inner") -> ProgressiveJoin:
    return make_progressive(
        name,
        JoinSchema.resolve(TEXTS, TEXTS, "key", how),
        memory=MemoryAccount(memory),
        spill=SpillArea(directory),
        clock=lambda: 0.0,
        tuning=Tuning(partitions=4, costs=COSTS),
    )


def texts(keys: range, lengths: list[int]) -> pa.RecordBatch:
    values = ["x" * lengths[key % len(lengths)] for key in keys]
    return pa.record_batch([pa.array(keys, pa.int64()), pa.array(values)], schema=TEXTS)


@pytest.mark.parametrize("name", SPILLING)
def test_memory_is_kept_to_although_rows_are_of_very_uneven_size(name: str, tmp_path: Path) -> None:
    """Found as a bug: a flush reckoned with mean sizes, and gave up small rows for large ones."""
    join = of_texts(name, tmp_path, memory=2**16)
    for start in range(0, 400, 20):
        for side in Side:
            for _ in join.push(side, texts(range(start, start + 20), [5, 5, 5, 5, 5, 5, 5, 2000])):
                pass
    assert join.metrics.flush_count
    assert 2**14 < join.metrics.memory_peak <= 2**16
    join.close()


@pytest.mark.parametrize("name", SPILLING)
def test_a_row_larger_than_all_of_memory_is_taken_in(name: str, tmp_path: Path) -> None:
    join = of_texts(name, tmp_path, memory=2**12)
    found = 0
    for _ in range(3):
        for side in Side:
            found += sum(map(len, join.push(side, texts(range(2), [10_000]))))
    for side in Side:
        found += sum(map(len, join.end(side)))
    found += sum(map(len, join.finish()))
    assert found == 18
    join.close()


def test_shj_says_when_its_memory_is_full(tmp_path: Path) -> None:
    join = of_texts("shj", tmp_path, memory=2**14)
    with pytest.raises(MemoryTooSmall, match=r'shj keeps every row.*"rpj"'):
        list(join.push(L, texts(range(1000), [10])))
    join.close()
    assert not list(tmp_path.iterdir())


def test_shj_writes_nothing_to_disk_however_small_its_memory(tmp_path: Path) -> None:
    join = of_texts("shj", tmp_path, memory=2**14)
    for side in Side:
        list(join.push(side, texts(range(20), [10])))
    for side in Side:
        list(join.end(side))
    list(join.finish())
    assert join.metrics.flush_count == join.metrics.bytes_spilled == 0
    join.close()


@pytest.mark.parametrize("name", SPILLING)
def test_a_smaller_limit_is_kept_to_at_once_and_a_larger_one_is_used(
    name: str, tmp_path: Path
) -> None:
    join = of_texts(name, tmp_path, memory=2**18)
    list(join.push(L, texts(range(1000), [10])))
    assert not join.metrics.flush_count
    list(join.resize(2**15))
    assert join.metrics.flush_count
    assert join.metrics.memory_used <= 2**15
    spilled = join.metrics.rows_spilled
    list(join.resize(2**20))
    list(join.push(L, texts(range(1000, 2000), [10])))
    assert join.metrics.rows_spilled == spilled
    join.close()


def test_shj_refuses_a_limit_that_its_rows_do_not_fit(tmp_path: Path) -> None:
    join = of_texts("shj", tmp_path, memory=2**18)
    list(join.push(L, texts(range(1000), [10])))
    list(join.resize(2**20))
    with pytest.raises(MemoryTooSmall):
        list(join.resize(2**14))
    join.close()


@pytest.mark.parametrize("name", SPILLING)
def test_a_limit_below_what_marks_need_ends(name: str, tmp_path: Path) -> None:
    """Found as a bug: marks cannot be flushed, and resizing waited for them to go."""
    join = of_texts(name, tmp_path, memory=2**18, how="full")
    list(join.push(L, texts(range(100), [10])))
    list(join.resize(0))
    assert not join.workspace.memory.rows.any()
    unmatched = sum(map(len, join.end(L))) + sum(map(len, join.end(R)))
    assert unmatched + sum(map(len, join.finish())) == 100
    join.close()


KEYS = pa.schema({"key": pa.int64()})


@pytest.mark.parametrize(
    "memory", [5400, *(pytest.param(n, marks=pytest.mark.slow) for n in (5800, 7300, 7400))]
)
def test_pmj_loses_no_pair_when_marks_grow_into_the_room_of_an_arrival(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found as a bug: room was made a second time, when the arrival had its stamps already."""
    monkeypatch.setattr(marks, "_FEWEST_BYTES", 64)  # so that marks grow often
    join = make_progressive(
        "pmj",
        JoinSchema.resolve(KEYS, KEYS, "key", "full"),
        memory=MemoryAccount(memory),
        spill=SpillArea(tmp_path),
        clock=lambda: 0.0,
        tuning=Tuning(partitions=1, costs=COSTS),
    )
    results = 0
    for start in range(0, 2000, 30):
        keys = pa.array([n % 50 for n in range(start, min(start + 30, 2000))], pa.int64())
        for side in Side:
            results += sum(map(len, join.push(side, pa.record_batch([keys], schema=KEYS))))
    assert join.metrics.memory_peak <= memory
    results += sum(map(len, join.finish()))
    assert results == 2000 * 2000 // 50
    join.close()


def test_a_flush_of_both_sides_of_a_partition_has_a_reason_for_each(tmp_path: Path) -> None:
    """Found as a bug: the second reason stood for both."""
    join = make("rpj", tmp_path, Tuning(partitions=1, memory_rows=10, flush_share=1.0, costs=COSTS))
    list(join.push(L, batch(L, range(3))))
    list(join.push(R, batch(R, range(8))))
    reasons = {record.side: record.reason for record in join.metrics.flushes}
    assert set(reasons) == set(Side)
    assert reasons[L] != reasons[R]
    join.close()


@pytest.mark.parametrize("name", SPILLING)
def test_a_join_can_be_left_in_the_middle_of_anything(name: str, tmp_path: Path) -> None:
    tuning = Tuning(partitions=2, memory_rows=10, fan_in=2, chunk_rows=3, costs=COSTS)
    for stage in ("push", "idle", "finish"):
        join = make(name, tmp_path, tuning)
        join.workspace.block_bytes = 1
        for side in (L, R, L, R):
            list(join.push(side, batch(side, [1, 2, 3] * 8)))
        if stage == "push":
            left_off = join.push(L, batch(L, [1] * 30))
        elif stage == "idle":
            left_off = join.idle(lambda: False)
        else:
            left_off = join.finish()
        next(left_off, None)
        join.close()
        join.close()
        del left_off, join
        assert not list(tmp_path.iterdir())


def test_the_tables_of_a_closed_join_are_freed(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=2, memory_rows=1000, costs=COSTS))
    list(join.push(L, batch(L, range(500))))
    assert join.workspace.memory.nbytes
    join.close()
    assert not join.workspace.memory.nbytes
    assert not join.workspace.account.used


def test_an_unknown_algorithm_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"'gracious' is not known.*shj, xjoin"):
        make("gracious", tmp_path, Tuning())


def test_one_side_that_ends_first_frees_what_the_other_has_in_memory(tmp_path: Path) -> None:
    """Rows whose every partner is in memory and has arrived have nothing to wait for."""
    join = make("rpj", tmp_path, Tuning(partitions=2, memory_rows=1000, costs=COSTS))
    list(join.push(L, batch(L, range(50))))
    list(join.push(R, batch(R, range(50))))
    list(join.end(L))
    assert join.workspace.memory.rows.sum(axis=1).tolist() == [50, 0]
    assert numbered(join.push(R, batch(R, range(50), first=50))) == Counter(
        {(n, n + 50): 1 for n in range(50)}
    )
    assert join.workspace.memory.rows.sum(axis=1).tolist() == [50, 0]
    join.close()
