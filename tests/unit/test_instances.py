"""Waves through routed storage and rebuilt operators give the join, whatever is kept or lost."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import StateError
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import ALGORITHMS
from watersmeet.operators.question import Question
from watersmeet.spark import cache
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.tables.instances import Arrivals, JoinTask, arrivals, join_wave
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.scanning import routed
from watersmeet.store.exchange import ExchangeDir, Sections
from watersmeet.testing.oracle import assert_same, counted, expected_rows, pairs_by_loop

# Three hundred of these fill the smallest memory, so that operators flush between waves.
WIDE = "x" * 4_000
SCHEMAS = [pa.schema({"k": pa.int64(), name: pa.string()}) for name in ("left", "right")]

Keys = list[int | None]


def table(side: Side, keys: Keys, text: str) -> pa.Table:
    notes = [f"{text} {number}" for number in range(len(keys))]
    return pa.table({"k": pa.array(keys, pa.int64()), side.name.lower(): notes})


def plan(folder: Path, *, algorithm: str, how: str, instances: int) -> Plan:
    return Plan(
        query="q",
        question=Question.parse("k", how, algorithm=algorithm, condition=None, suffixes=("", "_")),
        schemas=(SCHEMAS[0], SCHEMAS[1]),
        memory=2**20,
        instances=instances,
        asked_instances=instances,
        keeps_operators=True,
        slots=TaskSlots(instances, instances),
        storage=ExchangeDir(folder.as_uri()),
        spill_dir=str(folder),
    )


def scanned(plan: Plan, tables: tuple[pa.Table, pa.Table], cuts: list[float]) -> list[list[Any]]:
    """The files of each wave, both sides cut at the same shares."""
    waves = []
    for start, stop in pairwise([0.0, *cuts, 1.0]):
        files = []
        for side in Side:
            rows = tables[side].num_rows
            part = tables[side].slice(int(rows * start), int(rows * stop) - int(rows * start))
            blocks = iter(part.combine_chunks().to_batches(max_chunksize=64))
            files.append([plan.storage.write_sections(side.name, routed(blocks, side, plan))])
        waves.append(files)
    return waves


def arrived(
    instance: int, files: list[list[Sections]], plan: Plan, *, rows_out: int | None = None
) -> Arrivals:
    """What a wave brings to one instance."""
    return replace(arrivals(files, instances=plan.instances)[instance], rows_out=rows_out)


def joined(plan: Plan, waves: list[list[list[Sections]]], lost: list[bool]) -> list[pa.RecordBatch]:
    """All waves in all instances; where an operator is lost, it has to be built again."""
    found: list[pa.RecordBatch] = []
    rows_out: list[list[int]] = []
    for number, _ in enumerate(waves):
        records = []
        for instance in range(plan.instances):
            known = [*(rows[instance] for rows in rows_out), None]
            seen = tuple(
                arrived(instance, files, plan, rows_out=rows)
                for files, rows in zip(waves[: number + 1], known, strict=True)
            )
            if lost[(number + instance) % len(lost)]:
                cache.take(("nobody", 0, 0))
            (record,) = join_wave([JoinTask(instance, seen, last=number + 1 == len(waves))], plan)
            records.append(record)
            for name in record["files"]:
                path = Path(plan.storage.uri.removeprefix("file://")) / name
                found += pq.read_table(path).cast(plan.join.output).to_batches()
        rows_out.append([record["rows_out"] for record in records])
    return found


@settings(max_examples=40)
@given(
    keys=st.tuples(*[st.lists(st.none() | st.integers(0, 60), max_size=500)] * 2),
    cuts=st.lists(st.floats(0, 1), max_size=4).map(sorted),
    algorithm=st.sampled_from(sorted(set(ALGORITHMS) - {"shj"})),
    how=st.sampled_from([str(how) for how in JoinType]),
    instances=st.integers(1, 3),
    lost=st.lists(st.booleans(), min_size=1, max_size=6),
    text=st.sampled_from(["x", WIDE]),
)
def test_every_schedule_gives_the_join(
    keys: tuple[Keys, Keys],
    cuts: list[float],
    algorithm: str,
    how: str,
    instances: int,
    lost: list[bool],
    text: str,
) -> None:
    tables = (table(Side.LEFT, keys[0], text), table(Side.RIGHT, keys[1], text))
    with tempfile.TemporaryDirectory() as folder:
        asked = plan(Path(folder), algorithm=algorithm, how=how, instances=instances)
        found = joined(asked, scanned(asked, tables, cuts), lost)
    expected = expected_rows(asked.join, tables, pairs_by_loop(asked.join, tables))
    assert_same(counted(found), expected)


def test_an_operator_that_comes_out_otherwise_is_noticed(tmp_path: Path) -> None:
    """The files of a wave that has been delivered are not what they were."""
    tables = (table(Side.LEFT, [1] * 50, "x"), table(Side.RIGHT, [1] * 50, "x"))
    asked = plan(tmp_path, algorithm="rpj", how="inner", instances=1)
    first, second = scanned(asked, tables, [0.5])
    seen = (arrived(0, first, asked, rows_out=625 + 1), arrived(0, second, asked))
    with pytest.raises(StateError, match="626 rows in wave 1 and 625"):
        join_wave([JoinTask(0, seen, last=True)], asked)


def test_an_operator_that_missed_a_wave_is_not_used(tmp_path: Path) -> None:
    """A worker kept it after wave 1, wave 2 ran in another, and wave 3 comes back here."""
    tables = (table(Side.LEFT, [1] * 30, "x"), table(Side.RIGHT, [1] * 30, "x"))
    asked = plan(tmp_path, algorithm="rpj", how="inner", instances=1)
    waves = scanned(asked, tables, [1 / 3, 2 / 3])
    rows_out: list[int] = []
    stale: Any = None
    for number in range(1, 4):
        seen = tuple(
            arrived(0, files, asked, rows_out=rows_out[n] if n < len(rows_out) else None)
            for n, files in enumerate(waves[:number])
        )
        if number == 2:
            stale = cache.take(("q", 0, 1))
        if number == 3:
            cache.take(("nobody", 0, 0))
            cache.keep(("q", 0, 1), stale)
        (record,) = join_wave([JoinTask(0, seen, last=number == 3)], asked)
        rows_out.append(record["rows_out"])
    assert stale is not None
    assert sum(rows_out) == 30 * 30
