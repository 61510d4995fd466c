"""Saved joins: what travels, what may change meanwhile, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.operators.inputs import COSTS, SCHEMA, SCHEMAS, batch, make, numbered
from watersmeet.errors import SpillCorrupted, StateError
from watersmeet.model import Side
from watersmeet.operators.base import Manifest, StateArea
from watersmeet.operators.progressive.algorithm import PROGRESSIVE
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import Pause, StateFolder

L, R = Side
TUNING = Tuning(partitions=3, memory_rows=30, fan_in=2, costs=COSTS)
KEYS = [n % 11 for n in range(100)]
EVERY = Counter((i, j) for i in range(100) for j in range(100) if KEYS[i] == KEYS[j])


def half_way(
    directory: Path, name: str = "rpj"
) -> tuple[ProgressiveJoin, Counter[tuple[int, int]]]:
    """A join that has spilled and is in the middle of a task, and what it has reported."""
    join = make(name, directory, TUNING)
    found = Counter[tuple[int, int]]()
    for side in (L, R, L, R):
        start = join.metrics.rows_in[side]
        found += numbered(join.push(side, batch(side, KEYS[start : start + 40], first=start)))
    found += numbered(join.idle(Pause(3)))
    return join, found


def rest(join: ProgressiveJoin) -> Counter[tuple[int, int]]:
    found = Counter[tuple[int, int]]()
    for side in Side:
        start = join.metrics.rows_in[side]
        found += numbered(join.push(side, batch(side, KEYS[start:], first=start)))
        found += numbered(join.end(side))
    return found + numbered(join.finish())


def restored(
    area: StateArea, manifest: Manifest, directory: Path, **changes: Any
) -> ProgressiveJoin:
    settings: dict[str, Any] = {
        "schema": SCHEMA,
        "algorithm": PROGRESSIVE["rpj"],
        "memory": MemoryAccount(2**20),
        "spill": SpillArea(directory),
        "clock": lambda: 0.0,
        "tuning": TUNING,
    }
    join = ProgressiveJoin(**settings | changes)
    try:
        join.load(area, json.loads(json.dumps(manifest)))
    except BaseException:
        join.close()
        raise
    return join


@pytest.mark.parametrize("name", ["rpj", "xjoin", "hmj", "pmj"])
def test_a_join_goes_on_elsewhere_and_the_saved_one_goes_on_too(name: str, tmp_path: Path) -> None:
    join, found = half_way(tmp_path, name)
    area = StateFolder(tmp_path / "state")
    manifest = join.save(area)
    assert found + rest(join) == EVERY
    join.close()
    other = restored(area, manifest, tmp_path, algorithm=PROGRESSIVE[name])
    assert found + rest(other) == EVERY
    other.close()
    third = restored(area, manifest, tmp_path, algorithm=PROGRESSIVE[name])
    area.close()
    assert found + rest(third) == EVERY
    third.close()
    assert not list(tmp_path.iterdir())


def test_a_manifest_does_not_change_when_the_join_goes_on(tmp_path: Path) -> None:
    join, _ = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    manifest = join.save(area)
    as_text = json.dumps(manifest)
    rest(join)
    assert json.dumps(manifest) == as_text
    join.close()
    area.close()


def test_a_join_restored_twice_from_one_manifest_shares_nothing(tmp_path: Path) -> None:
    join, _ = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    manifest = join.save(area)
    as_text = json.dumps(manifest)
    settings: dict[str, Any] = {"schema": SCHEMA, "algorithm": PROGRESSIVE["rpj"], "tuning": TUNING}
    other = ProgressiveJoin(
        memory=MemoryAccount(2**20), spill=SpillArea(tmp_path), clock=lambda: 0.0, **settings
    )
    other.load(area, manifest)  # As it is, without a detour through text.
    rest(other)
    assert json.dumps(manifest) == as_text
    for each in (join, other, area):
        each.close()


def test_a_restored_join_has_its_counters_and_its_memory(tmp_path: Path) -> None:
    join, found = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    other = restored(area, join.save(area), tmp_path)
    for name in ("rows_in", "results", "flush_count", "rows_spilled", "memory_used"):
        assert getattr(other.metrics, name) == getattr(join.metrics, name), name
    assert other.metrics.rows_out == found.total()
    for name, numbers in join.statistics().items():
        assert other.statistics()[name] == pytest.approx(numbers), name
    for each in (join, other, area):
        each.close()


def test_less_memory_after_a_restore_is_kept_to_from_the_next_row_on(tmp_path: Path) -> None:
    join, found = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    smaller = Tuning(partitions=3, memory_rows=5, costs=COSTS)
    other = restored(area, join.save(area), tmp_path, tuning=smaller)
    found += numbered(other.push(L, batch(L, KEYS[80:81], first=80)))
    assert other.workspace.memory.used <= 5
    assert found + rest(other) == EVERY
    for each in (join, other, area):
        each.close()


OTHER_KEY = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], [("left", "right")])
OUTER = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", "left")
OTHER_TYPE = JoinSchema.resolve(
    pa.schema({"key": pa.int32(), "left": pa.int64()}), SCHEMAS[1], "key"
)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"algorithm": PROGRESSIVE["hmj"]}, "algorithm"),
        ({"schema": OUTER}, "how"),
        ({"schema": OTHER_KEY}, "predicates"),
        ({"schema": OTHER_TYPE}, "left"),
        ({"tuning": Tuning(partitions=4, costs=COSTS)}, "partitions"),
    ],
)
def test_a_state_of_another_join_is_refused(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    join, _ = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    with pytest.raises(StateError, match=rf"{named}=.*not .*Restore it with the same"):
        restored(area, join.save(area), tmp_path, **changes)
    join.close()
    area.close()


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    join, _ = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    with pytest.raises(StateError, match="format 99"):
        restored(area, join.save(area) | {"format": 99}, tmp_path)
    join.close()
    area.close()


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    # A new file, because the saved one may be a link to one that the join still uses.
    file.unlink()
    file.write_bytes(content)


def cut_short(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("damage", [flip_a_byte, cut_short])
def test_damage_to_any_saved_file_is_noticed_before_a_wrong_row(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    join, found = half_way(tmp_path)
    area = StateFolder(tmp_path / "state")
    manifest = join.save(area)
    assert len(manifest["files"]) > 3
    for name in manifest["files"]:
        damaged = StateFolder(tmp_path / "damaged")
        shutil.copytree(area.path, damaged.path)
        damage(damaged.path / name)
        got = Counter[tuple[int, int]]()
        with pytest.raises(SpillCorrupted):
            go_on(damaged, manifest, tmp_path, got)
        assert not got - (EVERY - found)
        damaged.close()
    join.close()


def go_on(area: StateArea, manifest: Manifest, directory: Path, got: Counter[Any]) -> None:
    join = restored(area, manifest, directory)
    for side in Side:
        got.update(numbered(join.end(side)))
    for matches in join.finish():
        got.update(numbered([matches]))
