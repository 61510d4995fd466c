"""What an operator says about itself is what it did."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.operators.inputs import BLOCK_BYTES, COSTS, SCHEMA, batch, make, numbered
from tests.operators.making import make_progressive
from watersmeet.model import Side
from watersmeet.operators.metrics import FlushRecord, Metrics
from watersmeet.operators.progressive.algorithm import PROGRESSIVE
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import Io, IoKind, SpillArea

PARTITIONS = 4
ROWS = 400
TUNING = Tuning(partitions=PARTITIONS, memory_rows=60, fan_in=2, costs=COSTS)
SPILLING = [name for name, algorithm in PROGRESSIVE.items() if algorithm.flush]


def play(join: ProgressiveJoin) -> dict[str, int]:
    """Results by stage, as they are received."""
    results: dict[str, int] = dict.fromkeys(Stage, 0)

    def receive(matches: Iterable[Matches]) -> None:
        for each in matches:
            results[each.stage] += len(each)

    for start in range(0, ROWS, 20):
        for side in Side:
            receive(join.push(side, batch(side, (n % 37 for n in range(start, start + 20)), start)))
        receive(join.idle(iter([False] * 3 + [True]).__next__))
    for side in Side:
        receive(join.end(side))
    receive(join.finish())
    return results


@pytest.mark.parametrize("name", SPILLING)
def test_every_flush_is_on_record_with_its_reason(name: str, tmp_path: Path) -> None:
    seen: list[Io] = []
    join = make_progressive(
        name,
        SCHEMA,
        memory=MemoryAccount(2**20),
        spill=SpillArea(tmp_path, observe=seen.append),
        clock=lambda: 0.0,
        tuning=TUNING,
    )
    join.workspace.block_bytes = BLOCK_BYTES
    play(join)
    metrics = join.metrics
    assert metrics.flushes
    for record in metrics.flushes:
        assert record.rows > 0
        assert record.bytes > 0
        assert record.reason
        assert record.side in tuple(Side)
        assert record.partition is not None
        assert 0 <= record.partition < PARTITIONS
        assert record.reason in str(record)
    assert len({record.stamp for record in metrics.flushes}) == metrics.flush_count
    stamps = [record.stamp for record in metrics.flushes]
    assert stamps == sorted(stamps)
    written = [io for io in seen if io.kind is IoKind.FLUSH]
    assert metrics.rows_spilled == sum(r.rows for r in metrics.flushes)
    assert metrics.rows_spilled == sum(io.rows for io in written)
    assert metrics.bytes_spilled == sum(r.bytes for r in metrics.flushes)
    assert metrics.bytes_spilled == sum(io.bytes for io in written)
    assert len(metrics.flushes) == sum(io.first for io in written)
    join.close()


@pytest.mark.parametrize("name", SPILLING)
def test_results_by_stage_add_up(name: str, tmp_path: Path) -> None:
    join = make(name, tmp_path, TUNING)
    received = play(join)
    join.close()
    assert join.metrics.results == received
    times = np.bincount(np.arange(ROWS) % 37)
    assert join.metrics.rows_out == sum(received.values()) == int((times**2).sum())
    assert join.metrics.candidates >= join.metrics.rows_out
    assert join.metrics.rows_in == [ROWS, ROWS]


def test_each_stage_reports_what_its_policy_is_for(tmp_path: Path) -> None:
    by_name = {name: play(make(name, tmp_path, TUNING)) for name in SPILLING}
    assert by_name["rpj-md"][Stage.MD] > 0 == by_name["rpj-md"][Stage.DD]
    assert by_name["xjoin"][Stage.MD] > 0 == by_name["xjoin"][Stage.DD]
    assert by_name["rpj-dd"][Stage.DD] > 0 == by_name["rpj-dd"][Stage.MD]
    assert by_name["hmj"][Stage.DD] > 0 == by_name["hmj"][Stage.MD]
    assert by_name["pmj"][Stage.MD] == by_name["pmj"][Stage.DD] == 0
    for results in by_name.values():
        assert results[Stage.MM] > 0
        assert results[Stage.CLEANUP] > 0
        assert results[Stage.UNMATCHED] == 0


def test_statistics_are_tables_by_side_and_partition(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, TUNING)
    for side in Side:
        numbered(join.push(side, batch(side, (n % 37 for n in range(ROWS)))))
    statistics = join.metrics.statistics()
    shapes = {name: np.shape(value) for name, value in statistics.items()}
    assert shapes == {
        "arrival_probabilities": (2, PARTITIONS),
        "rows_in_memory": (2, PARTITIONS),
        "rows_on_disk": (2, PARTITIONS),
        "md_expected_results": (2, PARTITIONS),
        "md_expected_seconds": (2, PARTITIONS),
        "dd_expected_results": (PARTITIONS,),
        "dd_expected_seconds": (PARTITIONS,),
        "distinct_per_partition": (),
    }
    assert statistics["arrival_probabilities"].sum() == pytest.approx(1.0)
    assert statistics["distinct_per_partition"] == pytest.approx(37 / PARTITIONS, rel=0.1)
    assert statistics["rows_on_disk"].sum() == join.metrics.rows_spilled
    assert (statistics["rows_in_memory"] + statistics["rows_on_disk"]).sum() == 2 * ROWS
    join.close()


def test_memory_in_use_is_told_and_given_back(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, TUNING)
    numbered(join.push(Side.LEFT, batch(Side.LEFT, range(30))))
    assert (
        join.metrics.memory_used == sum(table.nbytes for table in join.workspace.memory.tables) > 0
    )
    assert join.metrics.memory_peak >= join.metrics.memory_used
    join.close()
    assert join.metrics.memory_used == 0
    assert join.workspace.account.by_purpose() == {}


def test_rows_without_a_key_are_counted(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, TUNING)
    rows = pa.record_batch({"key": pa.array([1, None, None]), "left": [0, 1, 2]})
    numbered(join.push(Side.LEFT, rows))
    assert (join.metrics.rows_in, join.metrics.null_keys) == ([3, 0], [2, 0])
    join.close()


def test_the_counters_travel_as_json(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, TUNING)
    play(join)
    counters = json.loads(json.dumps(join.metrics.as_dict()))
    assert counters["rows_out"] == join.metrics.rows_out
    assert counters["results"] == {str(s): n for s, n in join.metrics.results.items()}
    assert counters["rows_spilled"] == join.metrics.rows_spilled
    assert not {"flushes", "statistics"} & set(counters)
    join.close()


def test_only_the_latest_flushes_are_remembered() -> None:
    metrics = Metrics()
    for stamp in range(5_000):
        metrics.flushed(FlushRecord(stamp, Side.LEFT, 0, rows=2, bytes=30, reason="full"))
    assert 0 < len(metrics.flushes) < 5_000
    assert metrics.flushes[-1].stamp == 4_999
    assert (metrics.rows_spilled, metrics.bytes_spilled) == (10_000, 150_000)
