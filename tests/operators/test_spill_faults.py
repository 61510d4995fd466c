"""Damaged spill files end a join with an error, before any wrong row."""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.operators.inputs import COSTS, batch, make, numbered
from tests.store.devices import small_device
from watersmeet.errors import SpillCorrupted, SpillError
from watersmeet.model import Side
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches

KEYS = [n * 7 % 23 for n in range(150)]


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 3)


def altered(file: Path) -> None:
    """Every byte after the schema, so that no block is spared."""
    content = file.read_bytes()
    start = len(content) // 3
    file.write_bytes(content[:start] + bytes(byte ^ 0x40 for byte in content[start:]))


def deleted(file: Path) -> None:
    file.unlink()


def idle(join: ProgressiveJoin) -> Iterator[Matches]:
    return join.idle(iter([False] * 200 + [True]).__next__)


def finish(join: ProgressiveJoin) -> Iterator[Matches]:
    for side in Side:
        yield from join.end(side)
    yield from join.finish()


def pushed(name: str, directory: Path) -> tuple[ProgressiveJoin, Counter[tuple[int, int]]]:
    tuning = Tuning(partitions=2, memory_rows=60, fan_in=2, costs=COSTS)
    join, found = make(name, directory, tuning), Counter[tuple[int, int]]()
    for start in range(0, len(KEYS), 25):
        for side in Side:
            found += numbered(join.push(side, batch(side, KEYS[start : start + 25], start)))
    return join, found


@pytest.mark.parametrize("damage", [truncated, altered, deleted])
@pytest.mark.parametrize(
    ("name", "stage"),
    [("rpj-md", idle), ("xjoin", idle), ("rpj-dd", idle), ("hmj", idle), ("rpj", finish),
     ("pmj", finish)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)  # fmt: skip
def test_damage_is_met_with_an_error_and_no_wrong_row(
    name: str,
    stage: Callable[[ProgressiveJoin], Iterator[Matches]],
    damage: Callable[[Path], None],
    tmp_path: Path,
) -> None:
    join, found = pushed(name, tmp_path)
    (private,) = tmp_path.iterdir()
    files = list(private.iterdir())
    assert files
    for file in files:
        damage(file)
    reported: list[Counter[tuple[int, int]]] = []
    with pytest.raises(SpillCorrupted, match=str(private)) as caught:
        reported.extend(numbered([matches]) for matches in stage(join))
    assert "run the join again" in caught.value.remedy
    found = sum(reported, found)
    right = {(i, j) for i, a in enumerate(KEYS) for j, b in enumerate(KEYS) if a == b}
    assert set(found) <= right
    assert set(found.values()) == {1}
    join.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "stage"), [("rpj-md", idle), ("rpj-dd", idle), ("rpj", finish)])
def test_without_damage_the_same_stages_read_those_files(
    name: str, stage: Callable[[ProgressiveJoin], Iterator[Matches]], tmp_path: Path
) -> None:
    """What the test above rests on: the stage has something to report from disk."""
    join, _ = pushed(name, tmp_path)
    assert numbered(stage(join))
    join.close()


@pytest.mark.parametrize("free_pages", [0, 2, 5])
def test_a_device_that_fills_up_during_a_flush_is_a_spill_error(
    free_pages: int, tmp_path: Path
) -> None:
    with small_device(tmp_path, kilobytes=64) as device:
        (device / "filler").write_bytes(bytes(65_536 - free_pages * mmap.PAGESIZE))
        with pytest.raises(SpillError, match="is full") as caught:
            pushed("rpj", device)
        assert not isinstance(caught.value, SpillCorrupted)
        assert "more memory" in caught.value.remedy


def test_a_join_whose_flush_failed_can_be_closed(tmp_path: Path) -> None:
    with small_device(tmp_path, kilobytes=64) as device:
        join = make("rpj", device, Tuning(memory_rows=20, costs=COSTS))
        filler = device / "filler"
        filler.write_bytes(bytes(65_536))
        with pytest.raises(SpillError, match="is full"):
            numbered(join.push(Side.LEFT, batch(Side.LEFT, range(100))))
        join.close()
        assert list(device.iterdir()) == [filler]
        assert join.metrics.memory_used == 0


def test_a_spill_directory_that_vanished_is_a_spill_error(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, Tuning(memory_rows=20, costs=COSTS))
    (private,) = tmp_path.iterdir()
    private.rmdir()
    with pytest.raises(SpillError, match="Cannot write to the spill directory"):
        numbered(join.push(Side.LEFT, batch(Side.LEFT, range(100))))
    join.close()
