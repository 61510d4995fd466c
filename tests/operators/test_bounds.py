"""What a join remembers of rows that are gone: nothing, however many there have been."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.operators.inputs import COSTS, SCHEMAS, batch
from tests.operators.making import make_progressive
from watersmeet.model import Side
from watersmeet.operators.family import restore_operator
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
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
