"""md-tasks step by step: interrupted, resumed, and with new rows and runs in between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.operators.inputs import COSTS, batch, make, numbered
from watersmeet.model import Side
from watersmeet.operators.progressive.tasks import MdTask
from watersmeet.operators.tuning import Tuning
from watersmeet.store.spill import Io, IoKind
from watersmeet.testing.schedule import Pause

L, R = Side
# Memory for eight rows, one partition, and a flush of the larger side.
TUNING = Tuning(partitions=1, memory_rows=8, flush_share=0, costs=COSTS)


@pytest.mark.parametrize("polls", range(9))
def test_an_md_task_may_be_interrupted_between_any_two_blocks(polls: int, tmp_path: Path) -> None:
    join = make("xjoin", tmp_path, TUNING)
    join.workspace.block_bytes = 1  # blocks of a row
    found = Counter[tuple[int, int]]()
    list(join.push(L, batch(L, [*range(6), 9, 9, 9])))  # eight rows of it are flushed
    found += numbered(join.push(R, batch(R, [0, 1, 2])))
    found += numbered(join.idle(Pause(polls)))
    assert (join.reactive.running is not None) == (0 < polls < 7)
    # A row that comes while the task waits meets the blocks that are still to be read.
    found += numbered(join.push(R, batch(R, [3], first=3)))
    found += numbered(join.idle(lambda: False))
    assert join.reactive.running is None
    assert found == Counter([(n, n) for n in range(4)])
    for side in Side:
        assert not numbered(join.end(side))
    assert not numbered(join.finish())
    join.close()


def test_a_run_that_is_flushed_while_an_md_task_waits_is_read_too(tmp_path: Path) -> None:
    join = make("xjoin", tmp_path, TUNING)
    join.workspace.block_bytes = 1
    list(join.push(L, batch(L, [*range(6), 8, 8, 8])))
    found = numbered(join.push(R, batch(R, [0])))
    found += numbered(join.idle(Pause(2)))
    running = join.reactive.running
    assert running is not None
    assert isinstance(running.task, MdTask)
    found += numbered(join.push(L, batch(L, [20, 21, 22, 23, 24, 25, 26], first=9)))
    assert len(join.workspace.disk[0].runs[L]) == 2
    # Came before that run left, so the two met in memory.
    found += numbered(join.push(R, batch(R, [20], first=1)))
    found += numbered(join.idle(lambda: False))
    for side in Side:
        found += numbered(join.end(side))
    found += numbered(join.finish())
    assert found == Counter([(0, 0), (9, 1)])
    join.close()


def test_an_md_task_reads_every_block_of_the_other_side_once(tmp_path: Path) -> None:
    seen: list[Io] = []
    join = make("xjoin", tmp_path, TUNING)
    join.workspace.spill._observe = seen.append
    join.workspace.block_bytes = 1
    list(join.push(L, batch(L, [*range(6), 9, 9, 9])))
    list(join.push(R, batch(R, [0, 1, 2])))
    list(join.idle(lambda: False))
    scanned = [io for io in seen if io.kind is IoKind.SCAN]
    assert [io.rows for io in scanned] == [1] * 8
    assert [io.first for io in scanned] == [True] + [False] * 7
    join.close()


def test_an_md_task_leaves_out_rows_that_the_last_one_has_used(tmp_path: Path) -> None:
    """Lemma 2: they owe nothing, so they are not even candidates."""
    join = make("xjoin", tmp_path, TUNING)
    list(join.push(L, batch(L, [*range(6), 9, 9, 9])))
    list(join.push(R, batch(R, [0, 1, 2])))
    list(join.idle(lambda: False))
    before = join.metrics.candidates
    list(join.push(R, batch(R, [3], first=3)))
    list(join.idle(lambda: False))
    assert join.metrics.md_tasks == 2
    assert join.metrics.candidates - before == 1
    join.close()


@pytest.mark.parametrize("name", ["xjoin", "hmj", "rpj"])
def test_a_stall_without_anything_owed_does_nothing(name: str, tmp_path: Path) -> None:
    join = make(name, tmp_path, TUNING)
    assert not list(join.idle(lambda: False))
    list(join.push(L, batch(L, range(20))))
    assert join.metrics.flush_count
    assert not list(join.idle(lambda: False))
    assert join.metrics.md_tasks == join.metrics.dd_tasks == 0
    join.close()
