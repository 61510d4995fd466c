"""How rows go: what is read for it, and what is remembered of promises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.operators.inputs import COSTS, SCHEMA, SCHEMAS, batch, make
from tests.operators.making import make_progressive
from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.promises import LAST_CODE, Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import Io, IoKind, SpillArea
from watersmeet.testing.schedule import StateFolder

L, R = Side
ALL = Promise.between(0, 0, LAST_CODE)
TUNING = Tuning(partitions=3, costs=COSTS, memory_rows=20)


def spilled(how: str, directory: Path, tuning: Tuning = TUNING) -> tuple[ProgressiveJoin, list[Io]]:
    """A join whose left rows are on disk and owe nothing, and what is read and written from now."""
    seen: list[Io] = []
    schema = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], "key", how)
    join = make_progressive(
        "rpj",
        schema,
        memory=MemoryAccount(2**20),
        spill=SpillArea(directory, observe=seen.append),
        tuning=tuning,
    )
    for first in range(0, 60, 10):
        list(join.push(L, batch(L, range(first, first + 10), first)))
    list(join.settle())
    assert join.workspace.expected.on_disk[L].sum() > 20
    seen.clear()
    return join, seen


def rows_there(join: ProgressiveJoin) -> int:
    runs = [run for disk in join.workspace.disk.partitions for both in disk.runs for run in both]
    return sum(run.rows for run in runs) + sum(map(len, join.workspace.memory.tables))


def test_runs_about_which_all_is_promised_go_unread(tmp_path: Path) -> None:
    join, seen = spilled("inner", tmp_path)
    list(join.punctuate(R, ALL))
    list(join.tidy())
    assert rows_there(join) == 0
    assert not seen
    assert [path.suffix for path in join.workspace.spill.path.iterdir()] == []
    join.close()


def test_outer_joins_read_them_once_to_report_them(tmp_path: Path) -> None:
    join, seen = spilled("left", tmp_path)
    on_disk = int(join.workspace.expected.on_disk.sum())
    found = sum(map(len, join.punctuate(R, ALL))) + sum(map(len, join.tidy()))
    assert found == 60
    assert rows_there(join) == 0
    assert sum(io.rows for io in seen if io.kind is IoKind.MERGE_READ) == on_disk
    assert not any(io.kind is IoKind.MERGE_WRITE for io in seen)
    join.close()


def test_runs_are_not_read_until_many_rows_have_come(tmp_path: Path) -> None:
    """A promise may be about any of them. To read all for each would cost more than it frees."""
    join, seen = spilled("inner", tmp_path, tuning=Tuning(**vars(TUNING) | {"purge_share": 0.5}))
    list(join.tidy())
    codes = SCHEMA.encode(R, batch(R, range(60))).codes
    for number in range(4):
        list(join.punctuate(R, Promise.of_codes(0, codes[10 * number : 10 * number + 10])))
        list(join.tidy())
    reads = sum(io.rows for io in seen if io.kind is IoKind.SCAN)
    assert reads < 2 * 60
    list(join.push(R, batch(R, range(1000, 1030))))
    list(join.tidy())
    assert rows_there(join) == 20 + 30
    join.close()


def test_what_both_sides_have_promised_is_forgotten_when_nothing_of_it_is_there(
    tmp_path: Path,
) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, costs=COSTS))
    area, sizes = StateFolder(tmp_path / "state"), []
    for turn in range(60):
        keys = np.arange(100 * turn, 100 * turn + 100)
        codes = SCHEMA.encode(L, batch(L, keys)).codes
        for side in Side:
            list(join.push(side, batch(side, keys)))
        for side in Side:
            list(join.punctuate(side, Promise.of_codes(0, codes)))
        list(join.tidy())
        sizes.append(len(json.dumps(join.save(area))))
    assert rows_there(join) == 0
    assert max(sizes[30:]) <= 1.05 * max(sizes[:30])
    join.close()


def test_what_one_side_has_promised_is_kept_for_rows_to_come(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, costs=COSTS))
    codes = SCHEMA.encode(L, batch(L, range(1000))).codes
    list(join.punctuate(L, Promise.of_codes(0, codes)))
    list(join.tidy())
    join.save(StateFolder(tmp_path / "state"))
    list(join.push(R, batch(R, range(1100))))
    assert rows_there(join) == 100
    join.close()


def test_a_promise_about_a_predicate_that_there_is_not_is_refused(tmp_path: Path) -> None:
    join = make("rpj", tmp_path, TUNING)
    with pytest.raises(InvalidArgument, match="predicate 1, and this join has 1"):
        list(join.punctuate(L, Promise.between(1, 0, 5)))
    join.close()


@pytest.mark.parametrize("rows", [100, 1000])
def test_many_rows_that_met_their_only_partner_go_with_the_next_sweep(
    rows: int, tmp_path: Path
) -> None:
    """Few wait until the join is tidied: to look for them would cost more than it frees."""
    join = make_progressive(
        "rpj",
        SCHEMA,
        memory=MemoryAccount(2**24),
        spill=SpillArea(tmp_path),
        tuning=Tuning(costs=COSTS),
        one_partner=[R],
    )
    list(join.push(R, batch(R, range(rows))))
    list(join.push(L, batch(L, range(rows - 50))))
    list(join.punctuate(R, Promise.of_codes(0, SCHEMA.encode(L, batch(L, [5])).codes)))
    left, right = map(len, join.workspace.memory.tables)
    assert left == rows - 51
    assert right == (50 if rows == 1000 else rows)
    list(join.tidy())
    assert len(join.workspace.memory.tables[R]) == 50
    join.close()
