"""What a join remembers of rows that are gone: nothing, however many there have been."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operators.inputs import COSTS, SCHEMAS, batch
from tests.operators.making import make_progressive
from watersmeet.model import Side
from watersmeet.operators.family import restore_operator
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import StateFolder

L, R = Side
TUNING = Tuning(partitions=3, costs=COSTS)


def new(how: str, directory: Path) -> ProgressiveJoin:
    schema = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", how)
    memory, spill = MemoryAccount(2**23), SpillArea(directory)
    return make_progressive("rpj", schema, memory=memory, spill=spill, tuning=TUNING)


def left_numbers(join: ProgressiveJoin, side: Side, keys: list[int], first: int) -> list[int]:
    found = join.push(side, batch(side, keys, first))
    rows = [join.workspace.schema.materialise(matches) for matches in found]
    return [number for each in rows for number in each.column("left").to_pylist()]


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_left_rows_that_have_found_a_partner_go_with_their_marks(how: str, tmp_path: Path) -> None:
    """They wait in memory for the right rows, which come a batch later."""
    join, found = new(how, tmp_path), Counter[int]()
    sizes = []
    for turn in range(600):
        keys = list(range(40 * turn, 40 * turn + 40))
        found.update(left_numbers(join, L, keys, 40 * turn))
        found.update(left_numbers(join, R, keys[::-1], 40 * turn))
        assert not list(join.tidy())
        sizes.append((len(join.workspace.memory.tables[L]), join.workspace.emitter.marks.nbytes))
    assert max(sizes) == (0, 1024)
    assert found == (Counter(range(24_000)) if how == "semi" else Counter())
    join.close()


def test_a_row_that_was_decided_after_it_was_saved_does_not_come_back(tmp_path: Path) -> None:
    join, area = new("semi", tmp_path), StateFolder(tmp_path / "state")
    left_numbers(join, L, [1, 2, 3, 4, 5], 0)
    join.save(area)
    assert sorted(left_numbers(join, R, [1, 2, 3, 5], 0)) == [0, 1, 2, 4]
    list(join.tidy())
    assert len(join.workspace.memory.tables[L]) == 1
    manifest = json.loads(json.dumps(join.save(area)))
    restored = restore_operator(
        "rpj",
        join.workspace.schema,
        area=area,
        manifest=manifest,
        memory=MemoryAccount(2**20),
        spill=SpillArea(tmp_path),
        tuning=TUNING,
    )
    assert isinstance(restored, ProgressiveJoin)
    assert len(restored.workspace.memory.tables[L]) == 1
    assert left_numbers(restored, R, [1, 2, 3, 4, 5], 5) == [3]
    for each in (join, restored):
        each.close()


# ---- keys that come, are promised away and go ---------------------------------------------------

# Memory for some of the rows that are there at a time, so that most of them pass through runs.
SPILLING = Tuning(partitions=3, costs=COSTS, memory_rows=60, fan_in=4, flush_share=0.3)


def passing_by(turns: int, directory: Path, *, settles: bool) -> list[dict[str, int]]:
    """A full join in which each key has two left rows, or one right row, or all three, and is
    promised away by both sides a few turns later; what there is after each turn."""
    schema = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", "full")
    spill, area = SpillArea(directory), StateFolder(directory / "state")
    memory = MemoryAccount(2**20)
    join = make_progressive(
        "rpj", schema, memory=memory, spill=spill, clock=lambda: 0.0, tuning=SPILLING
    )
    sizes, found, rows = [], Counter[tuple[int | None, int | None]](), [0, 0]

    def take(matches: Iterator[Matches]) -> None:
        for each in matches:
            batch = schema.materialise(each)
            columns = (batch.column(name).to_pylist() for name in ("left", "right"))
            found.update(zip(*columns, strict=True))

    for turn in range(turns):
        keys = list(range(30 * turn, 30 * turn + 30))
        for side, mine in ((L, keys[:20] * 2), (R, keys[10:])):
            take(join.push(side, batch(side, mine, rows[side])))
            rows[side] += len(mine)
        old = schema.encode(L, batch(L, [key - 90 for key in keys])).codes
        for side in Side:
            take(join.punctuate(side, Promise.of_codes(0, old)))
        if settles and turn % 10 == 9:
            take(join.settle())
        take(join.tidy())
        manifest = join.save(area)
        area.keep(manifest["files"])
        sizes.append(
            {
                "manifest": len(json.dumps(manifest)),
                "saved files": len(list(area.path.iterdir())),
                "spilled files": len(list(spill.path.iterdir())),
                "rows": sum(map(len, join.workspace.memory.tables))
                + int(join.workspace.expected.on_disk.sum()),
                "promises": sum(len(join.workspace.watching.promises.of(side, 0)) for side in Side),
                "marks": join.workspace.emitter.marks.nbytes,
            }
        )
    assert join.metrics.flush_count > turns // 10
    for side in Side:
        take(join.end(side))
    take(join.finish())
    join.close()
    # Of each turn ten keys are left only, ten have both, ten are right only.
    assert max(found.values()) == 1
    kinds = Counter((left is not None, right is not None) for left, right in found)
    assert kinds[True, True] == kinds[True, False] == 20 * turns
    assert kinds[False, True] == 10 * turns
    return sizes


@pytest.mark.parametrize(
    ("turns", "settles"),
    [
        (240, True),
        pytest.param(240, False, marks=pytest.mark.slow),
        pytest.param(3000, True, marks=pytest.mark.slow),
        pytest.param(3000, False, marks=pytest.mark.slow),
    ],
)
def test_what_passes_by_leaves_nothing_behind(turns: int, settles: bool, tmp_path: Path) -> None:
    sizes = passing_by(turns, tmp_path, settles=settles)
    early, late = sizes[40:140], sizes[-100:]
    for name in early[0]:
        most = [max(each[name] for each in some) for some in (early, late)]
        assert most[1] <= 1.1 * most[0], f"{name}: {most}"
    assert max(each["rows"] for each in late) < 12 * 60


def test_a_join_is_prepared_for_rows_that_fit_its_memory_and_for_no_others(tmp_path: Path) -> None:
    schema = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", "inner")
    buckets = []
    for coming in ((10, 10), (50_000, 10), (10**9, 10)):
        memory, spill = MemoryAccount(2**25), SpillArea(tmp_path)
        join = make_progressive("rpj", schema, memory=memory, spill=spill, coming=coming)
        buckets.append([table.index.buckets for table in join.workspace.memory.tables])
        join.close()
    assert buckets == [[1024, 1024], [2**15, 1024], [1024, 1024]]
