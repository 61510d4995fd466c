"""Memory is a cap whatever the keys, partitions become even, and stalls are used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.operators.making import make_rectangle
from tests.operators.rectangle.running import SCHEMAS, Watched, batch
from watersmeet.model import Side
from watersmeet.operators.rectangle.algorithm import RECTANGLE
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Invocation, Tuning
from watersmeet.rows.schema import JoinSchema
from watersmeet.sim.keys import ZipfKeys
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import Pause

TUNING = Tuning(partitions=8, memory_rows=2_000)


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("pr-join", "ripple") else pytest.param(name, marks=pytest.mark.slow)
        for name in RECTANGLE
    ],
)
def test_one_key_for_all_rows_stays_within_memory(name: str, tmp_path: Path) -> None:
    """A partition several times as large as memory: it is joined in chunks."""
    rows, each, memory = 250, 25, 2**16
    schemas = [SCHEMAS[side].append(pa.field("text", pa.string())) for side in Side]
    schema = JoinSchema.resolve(schemas[0], schemas[1], "key", "inner")
    account = MemoryAccount(memory)
    join = make_rectangle(name, schema, memory=account, spill=SpillArea(tmp_path))
    texts = pa.array(["x" * 500] * each)
    results = checksum = 0
    for start in range(0, rows, each):
        for side in Side:
            numbers = batch(side, [7] * each, start)
            pushed = pa.record_batch([*numbers.columns, texts], schema=schemas[side])
            for matches in join.push(side, pushed):
                results += len(matches)
                checksum += int(np.multiply(*join.numbers(matches)).sum())
            assert account.used <= memory
    for side in Side:
        assert not list(join.end(side))
    for matches in join.finish():
        results += len(matches)
        checksum += int(np.multiply(*join.numbers(matches)).sum())
    assert account.peak <= memory
    assert join.metrics.bytes_spilled > 3 * memory
    assert results == rows * rows
    assert checksum == (rows * (rows - 1) // 2) ** 2
    join.close()
    assert not account.used


def spread(directory: Path, *, remaps: bool) -> float:
    """How large the largest partition is for the mean, when keys are Zipf's."""
    rng = np.random.default_rng(5)
    keys = ZipfKeys(20_000, 0.7)
    drawn = keys.draw(15_000, rng), keys.draw(15_000, rng)
    watched = Watched("pr-join", directory, replace(TUNING, partitions=32, remaps=remaps))
    watched.run(drawn, each=100)
    rectangles = watched.join.rectangles
    assert rectangles.evened == remaps
    for side in Side:
        codes = watched.schema.encode(side, batch(side, drawn[side])).codes
        partitions = watched.join.workspace.memory.partition_of(codes)
        assert (rectangles.arrived[side] == np.bincount(partitions, minlength=32)).all()
    watched.join.close()
    both = rectangles.arrived.sum(axis=0)
    return float(both.max() / both.mean())


def test_partitions_are_made_even_when_memory_is_half_full(tmp_path: Path) -> None:
    assert spread(tmp_path, remaps=True) < 0.75 * spread(tmp_path, remaps=False)


def test_a_stall_joins_what_is_new_and_stops_when_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 3_000, 9_000), rng.integers(0, 3_000, 9_000)
    watched = Watched("pr-join", tmp_path, replace(TUNING, invocation=Invocation(gamma=50.0)))
    join = watched.join
    for push in watched.pushes(keys, each=500):
        assert all(matches.stage is Stage.MM for matches in push)
    before = join.rectangles
    new = (before.arrived - before.joined).sum(axis=0)
    assert not list(join.idle(Pause(0)))
    found = sum(len(matches) for matches in join.idle(Pause(2)))
    after = join.rectangles
    joined = np.flatnonzero((after.joined != before.joined).any(axis=0))
    assert found > 0
    assert joined.tolist() in ([], [int(np.argmax(new))])
    found += sum(len(matches) for matches in join.idle(Pause(10**6)))
    done = join.rectangles
    assert (done.joined == done.arrived).all()
    early = sum(join.metrics.results.values())
    assert sum(len(matches) for matches in watched.finish()) == 0
    assert early == int((np.bincount(keys[0]) * np.bincount(keys[1], minlength=3_000)).sum())
    join.close()


@pytest.mark.parametrize("name", sorted(set(RECTANGLE) - {"pr-join"}))
def test_others_wait_in_a_stall(name: str, tmp_path: Path) -> None:
    watched = Watched(name, tmp_path, TUNING)
    for push in watched.pushes((np.arange(4_000), np.arange(4_000)), each=500):
        for _ in push:
            pass
    assert not list(watched.join.idle(Pause(10**6)))
    watched.join.close()


def test_no_estimate_before_the_share_that_was_asked_for(tmp_path: Path) -> None:
    rows = 20_000
    keys = np.arange(rows), np.arange(rows)
    tuning = replace(
        TUNING, expected_rows=(rows, rows), invocation=Invocation(stops=False, not_before=0.4)
    )
    watched = Watched("pr-join", tmp_path, tuning)
    for push in watched.pushes(keys, each=500):
        stages = {matches.stage for matches in push}
        share = sum(watched.join.metrics.rows_in) / (2 * rows)
        assert (Stage.DD in stages) <= (share >= 0.4)
    assert watched.join.metrics.results[Stage.DD] > 0
    watched.join.close()
