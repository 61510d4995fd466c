"""Joins of many inputs in several threads: each combination of rows meets in one of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.local.test_join_many import NAMES, RELATIONS, TREES, expected, numbers, relation
from tests.local.threaded import arriving, instance_threads
from watersmeet.errors import InvalidArgument
from watersmeet.local import LocalJoin
from watersmeet.local.dividing import Divider
from watersmeet.operators.many import ManyQuestion
from watersmeet.rows.schema import JoinSchema


def copies(join: LocalJoin) -> list[int]:
    divider: Divider = join._driver.instances._divider  # type: ignore[attr-defined]
    return divider.copies


@pytest.mark.parametrize("tree", TREES)
def test_the_result_is_the_join(tree: str) -> None:
    on, where = TREES[tree]
    join = wm.local.join_many(RELATIONS, on, threads=2)
    assert numbers(join) == expected(where, RELATIONS)
    assert join.metrics.rows_in == [len(each) for each in RELATIONS.values()]
    assert not instance_threads()


@pytest.mark.parametrize(
    ("tree", "threads"),
    [
        ("chain", 4),
        *(
            pytest.param(tree, threads, marks=pytest.mark.slow)
            for tree in TREES
            for threads in (2, 3, 4)
            if (tree, threads) != ("chain", 4)
        ),
    ],
)
def test_what_does_not_fit_is_spilled(tree: str, threads: int) -> None:
    on, where = TREES[tree]
    join = wm.local.join_many(RELATIONS, on, threads=threads, memory=threads * 2**20)
    assert numbers(join) == expected(where, RELATIONS)
    assert join.metrics.flush_count
    assert join.metrics.memory_peak <= threads * 2**20


def test_one_column_that_all_have_copies_no_row() -> None:
    join = wm.local.join_many(RELATIONS, "k", threads=4)
    assert numbers(join) == expected(TREES["star on one column"][1], RELATIONS)
    assert copies(join) == [1, 1, 1, 1]


@dataclass(frozen=True)
class Schedule:
    rows: int
    tree: str
    sizes: list[int]
    threads: int
    patience: float
    seed: int

    def check(self) -> None:
        tables = {name: relation(name, rows=self.rows, seed=self.seed) for name in NAMES}
        on, where = TREES[self.tree]
        readers = {name: arriving(table, self.sizes) for name, table in tables.items()}
        join = wm.local.join_many(
            readers, on, memory="16MB", threads=self.threads, wait_threshold=self.patience
        )
        assert numbers(join) == expected(where, tables)
        assert not instance_threads()


schedules = st.builds(
    Schedule,
    rows=st.integers(1, 60),
    tree=st.sampled_from(list(TREES)),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    threads=st.sampled_from([2, 3, 4]),
    patience=st.sampled_from([0.0, 0.025]),
    seed=st.integers(0, 3),
)


@settings(max_examples=10)
@given(schedules)
def test_any_schedule_gives_the_rows_of_the_oracle(schedule: Schedule) -> None:
    schedule.check()


@pytest.mark.slow
@settings(max_examples=200)
@given(schedules)
def test_any_of_many_schedules_gives_the_rows_of_the_oracle(schedule: Schedule) -> None:
    schedule.check()


# ---- dividing -----------------------------------------------------------------------------------


def resolved(on: Any, tables: dict[str, pa.Table]) -> JoinSchema:
    question = ManyQuestion.parse(list(tables), on, algorithm="auto", condition=None)
    return question.resolve(*(table.schema for table in tables.values()))


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_each_row_goes_to_as_many_instances_as_is_said(tree: str, threads: int) -> None:
    schema = resolved(TREES[tree][0], RELATIONS)
    divider = Divider(schema, threads)
    for input, (name, table) in enumerate(RELATIONS.items()):
        (batch,) = table.combine_chunks().to_batches()
        divided = divider.divide(input, batch)
        seen = Counter(number for part in divided for number in part[f"n{name}"].to_pylist())
        assert len(divided) == threads
        assert set(seen.values()) == {divider.copies[input]}
        assert len(seen) == len(batch)
        for part in divided:
            order = np.array(part[f"n{name}"])
            assert (np.diff(order) > 0).all()


def test_relations_without_a_column_in_common_are_refused(tmp_path: Path) -> None:
    on = [wm.within((f"{name}.t", "a.t"), "1 minute") for name in NAMES[1:]]
    with pytest.raises(InvalidArgument, match="threads=2 divides rows by the keys"):
        wm.local.join_many(RELATIONS, on, threads=2, spill_dir=tmp_path)
    assert not list(tmp_path.iterdir())
