"""Every row has the same key: results stay bounded, begin at once, and come once each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.operators.inputs import COSTS, batch, make, numbered
from watersmeet.model import Side
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches

SPILLING = ["xjoin", "hmj", "hmj-all", "pmj", "rpj", "rpj-md", "rpj-dd"]


def by_turns(join: ProgressiveJoin, rows: int, *, each: int) -> Iterator[Matches]:
    for start in range(0, rows, each):
        for side in Side:
            keys = [7] * min(each, rows - start)
            yield from join.push(side, batch(side, keys, start))


@pytest.mark.parametrize("name", SPILLING)
def test_results_of_one_huge_key_come_in_bounded_chunks_as_rows_arrive(
    name: str, tmp_path: Path
) -> None:
    """The whole result has 900,000,000 rows; nobody must hold them to report the first."""
    wanted, chunk = 200_000, 1_000
    tuning = Tuning(chunk_rows=chunk, memory_rows=400, costs=COSTS)
    join = make(name, tmp_path, tuning)
    results = 0
    for matches in by_turns(join, 30_000, each=100):
        assert 0 < len(matches) <= chunk
        assert matches.stage is Stage.MM
        results += len(matches)
        if results >= wanted:
            break
    assert results >= wanted
    assert join.metrics.rows_spilled > 0
    assert sum(join.metrics.rows_in) < 30_000
    assert list(tmp_path.iterdir())
    join.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", SPILLING)
def test_a_join_on_one_key_is_complete_and_exact(name: str, tmp_path: Path) -> None:
    rows, chunk = 300, 64
    tuning = Tuning(partitions=2, chunk_rows=chunk, memory_rows=20, fan_in=2, costs=COSTS)
    join = make(name, tmp_path, tuning)

    def run() -> Iterator[Matches]:
        yield from by_turns(join, rows // 2, each=13)
        yield from join.idle(iter([False] * 40 + [True]).__next__)
        for side in Side:
            yield from join.push(side, batch(side, [7] * (rows - rows // 2), rows // 2))
        yield from join.idle(iter([False] * 40 + [True]).__next__)
        for side in Side:
            yield from join.end(side)
        yield from join.finish()

    found = numbered(matches for matches in run() if _is_bounded(matches, chunk))
    assert found == dict.fromkeys(product(range(rows), range(rows)), 1)
    assert join.metrics.rows_spilled > rows
    join.close()
    assert not list(tmp_path.iterdir())


def _is_bounded(matches: Matches, chunk: int) -> bool:
    assert 0 < len(matches) <= chunk
    return True
