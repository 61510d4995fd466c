"""New versions of a master table, rows that wait for them, and saved states."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.contract.enriching import Enrichment, lay_down
from watersmeet.errors import InvalidArgument, MemoryTooSmall, SchemaError, StateError
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import make_enricher, restore_enricher
from watersmeet.operators.question import Question
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.rows.address import Matches
from watersmeet.rows.bands import Band
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import StateFolder

STREAM = pa.schema({"k": pa.int64(), "n": pa.int64()})
MASTER = pa.schema({"k": pa.int64(), "name": pa.string()})
DEADLINE = 100.0

Rows = Counter[tuple[object, ...]]


class Running:
    """A join in a directory, with a clock that a test moves on."""

    def __init__(
        self, directory: Path, how: str = "inner", *, deadline: float | None = None,
        algorithm: str = "auto", memory: int = 2**20,
    ) -> None:  # fmt: skip
        self.directory, self.algorithm, self.deadline = directory, algorithm, deadline
        self.schema = JoinSchema.resolve(STREAM, MASTER, "k", how, version_column="version")
        self.now = 1000.0
        self.area = StateFolder(directory / "state")
        self.account = MemoryAccount(memory)
        self.join = make_enricher(
            algorithm, self.schema, master=self.master("v0", 1, 2, 3), memory=self.account,
            spill=SpillArea(directory), clock=lambda: 0.0, deadline=deadline, wall=lambda: self.now,
        )  # fmt: skip
        self.results: Rows = Counter()

    def master(self, version: str, *keys: int) -> Master:
        names = [f"{key} of {version}" for key in keys]
        batch = pa.record_batch([pa.array(keys, pa.int64()), names], schema=MASTER)
        path = self.directory / version
        lay_down(self.schema, [batch], path, version=version, block_bytes=1)
        return Master.open(path)

    def push(self, *keys: int | None) -> None:
        numbers = range(len(keys))
        batch = pa.record_batch([pa.array(keys, pa.int64()), numbers], schema=STREAM)
        self.take(self.join.push(Side.LEFT, batch))

    def take(self, found: Iterator[Matches]) -> None:
        for matches in found:
            for row in self.schema.materialise(matches).drop_columns(["n"]).to_pylist():
                self.results[tuple(row.values())] += 1

    def settle(self) -> None:
        self.take(self.join.settle())

    def take_over(self, version: str, *keys: int) -> None:
        self.take(self.join.take_over(self.master(version, *keys)))

    def drained(self) -> Rows:
        """The results since the last call."""
        results, self.results = self.results, Counter()
        return results

    def restore(self) -> None:
        manifest = json.loads(json.dumps(self.join.save(self.area)))
        self.join.close()
        self.account = MemoryAccount(2**20)
        masters = [Master.open(self.directory / name) for name in manifest["versions"]]
        self.join = restore_enricher(
            self.algorithm, self.schema, masters=masters, area=self.area, manifest=manifest,
            memory=self.account, spill=SpillArea(self.directory), clock=lambda: 0.0,
            deadline=self.deadline, wall=lambda: self.now,
        )  # fmt: skip


ALGORITHMS = ["auto", "ssbj"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_that_wait_meet_the_old_version_and_later_ones_the_new(
    tmp_path: Path, algorithm: str
) -> None:
    run = Running(tmp_path, "left", algorithm=algorithm)
    run.push(1, 9)
    run.take_over("v1", 1, 9)
    assert run.join.versions == ["v0", "v1"]
    run.push(1, None)
    run.settle()
    assert run.join.versions == ["v1"]
    assert run.drained() == Counter(
        {
            (1, "1 of v0", "v0"): 1,
            (9, None, "v0"): 1,
            (1, "1 of v1", "v1"): 1,
            (None, None, "v1"): 1,
        }
    )


def test_a_version_that_nobody_waits_for_is_taken_over_at_once(tmp_path: Path) -> None:
    run = Running(tmp_path)
    run.push(1, 1, 2)
    run.settle()
    assert run.join.metrics.cache_entries == 2
    run.take_over("v1", 2)
    assert run.join.versions == ["v1"]
    assert run.join.metrics.cache_entries == 0
    run.drained()
    run.push(1, 2)
    run.settle()
    assert run.drained() == Counter({(2, "2 of v1", "v1"): 1})


def test_a_version_that_is_replaced_before_anybody_met_it_is_never_read(tmp_path: Path) -> None:
    run = Running(tmp_path, "semi")
    run.push(1)
    run.take_over("v1", 1)
    run.push(1)
    run.take_over("v2", 1)
    run.push(1)
    assert run.join.versions == ["v0", "v2"]
    run.settle()
    assert run.drained() == Counter({(1, "v0"): 1, (1, "v2"): 2})


def test_a_version_with_other_columns_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    run = Running(tmp_path)
    other = JoinSchema.resolve(STREAM, pa.schema({"k": pa.int64(), "size": pa.int64()}), "k")
    lay_down(other, [], tmp_path / "other", version="v1", block_bytes=1)
    run.push(1)
    with pytest.raises(SchemaError, match=r"Version 'v1' .* size: int64, not k: int64, name: st"):
        run.take(run.join.take_over(Master.open(tmp_path / "other")))
    run.push(2)
    run.settle()
    assert run.drained() == Counter({(1, "1 of v0", "v0"): 1, (2, "2 of v0", "v0"): 1})


# ---- a deadline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_row_without_a_partner_meets_each_later_version_until_its_deadline(
    tmp_path: Path, how: str, algorithm: str
) -> None:
    run = Running(tmp_path, how, deadline=DEADLINE, algorithm=algorithm)
    run.push(1, 8, 9)
    run.settle()
    at_once: Rows = Counter() if how == "anti" else Counter({_row(how, 1, "v0"): 1})
    assert run.drained() == at_once
    assert run.join.metrics.patient_rows == 2
    run.now += 50
    run.take_over("v1", 8)
    run.push(9)
    run.settle()
    assert run.drained() == (Counter() if how == "anti" else Counter({_row(how, 8, "v1"): 1}))
    run.now += 60
    run.settle()
    # The first row of key 9 has waited for 110 seconds, the second for 60.
    late: dict[str, list[tuple[object, ...]]] = {"left": [(9, None, "v1")], "anti": [(9, "v1")]}
    assert run.drained() == Counter(late.get(how, []))
    run.take_over("v2", 9)
    run.settle()
    assert run.drained() == (Counter() if how == "anti" else Counter({_row(how, 9, "v2"): 1}))
    assert run.join.metrics.patient_rows == 0


def _row(how: str, key: int, version: str) -> tuple[object, ...]:
    return (key, version) if how == "semi" else (key, f"{key} of {version}", version)


def test_rows_that_wait_for_a_version_are_saved_with_their_time(tmp_path: Path) -> None:
    run = Running(tmp_path, "left", deadline=DEADLINE)
    run.push(7, 8)
    run.settle()
    run.now += 40
    run.push(7)
    run.restore()
    run.settle()
    assert run.join.metrics.patient_rows == 3
    run.now += 70
    run.restore()
    run.settle()
    assert run.drained() == Counter({(7, None, "v0"): 1, (8, None, "v0"): 1})
    run.take_over("v1", 7)
    run.restore()
    run.settle()
    assert run.drained() == Counter({(7, "7 of v1", "v1"): 1})


def test_at_the_end_rows_wait_no_more(tmp_path: Path) -> None:
    run = Running(tmp_path, "anti", deadline=DEADLINE)
    run.push(7, 1)
    run.take(run.join.finish())
    assert run.drained() == Counter({(7, "v0"): 1})
    assert not list(run.join.workspace.spill.path.iterdir())


def test_many_rows_that_wait_for_a_version_are_on_disk(tmp_path: Path) -> None:
    run = Running(tmp_path, "left", deadline=DEADLINE, memory=256 * 2**10)
    for start in range(10, 10_010, 1000):
        run.push(*range(start, start + 1000))
        run.now += 1
        run.settle()
        assert run.account.used <= run.account.limit
    assert run.join.metrics.patient_rows == 10_000
    assert run.account.peak <= run.account.limit
    run.take_over("v1", *range(10, 1010))
    run.settle()
    assert run.drained() == Counter({(n, f"{n} of v1", "v1"): 1 for n in range(10, 1010)})
    run.take(run.join.finish())
    assert run.drained() == Counter({(n, None, "v1"): 1 for n in range(1010, 10_010)})


# ---- what is refused ----------------------------------------------------------------------------


def test_a_state_is_refused_with_another_master(tmp_path: Path) -> None:
    run = Running(tmp_path)
    run.push(1)
    manifest = run.join.save(run.area)
    spill = SpillArea(tmp_path)
    with pytest.raises(StateError, match="wait for version 'v0' of the master table, not for ver"):
        restore_enricher(
            "auto", run.schema, masters=[run.master("v1", 1)], area=run.area, manifest=manifest,
            memory=MemoryAccount(2**20), spill=spill,
        )  # fmt: skip
    assert not spill.path.exists()


def test_a_state_with_a_deadline_is_refused_without_one(tmp_path: Path) -> None:
    run = Running(tmp_path, deadline=DEADLINE)
    manifest = run.join.save(run.area)
    with pytest.raises(StateError, match="waits='until a deadline'"):
        restore_enricher(
            "auto", run.schema, masters=[run.master("v0", 1)], area=run.area, manifest=manifest,
            memory=MemoryAccount(2**20), spill=SpillArea(tmp_path),
        )  # fmt: skip


def test_rows_are_pushed_to_the_stream_only(tmp_path: Path) -> None:
    run = Running(tmp_path)
    with pytest.raises(InvalidArgument, match="take_over"):
        run.join.push(Side.RIGHT, pa.record_batch([[1], ["x"]], schema=MASTER))


@pytest.mark.parametrize("how", [JoinType.RIGHT, JoinType.FULL])
def test_joins_that_report_master_rows_are_refused(tmp_path: Path, how: JoinType) -> None:
    with pytest.raises(InvalidArgument, match="Use inner, left, semi or anti"):
        Running(tmp_path, how)


def test_bands_are_refused_by_name(tmp_path: Path) -> None:
    run = Running(tmp_path)
    near = JoinSchema.resolve(STREAM, MASTER, ["k", Band("n", "k", high=3)])
    with pytest.raises(InvalidArgument, match=r"on equal keys, not on .*n"):
        make_enricher(
            "auto", near, master=run.master("v9", 1), memory=run.account, spill=SpillArea(tmp_path)
        )


def test_an_unknown_algorithm_is_refused_with_a_list(tmp_path: Path) -> None:
    run = Running(tmp_path)
    with pytest.raises(InvalidArgument, match="Use auto, or one of skipping, ssbj, cmeshjoin, mes"):
        make_enricher(
            "rpj",
            run.schema,
            master=run.master("v9"),
            memory=run.account,
            spill=SpillArea(tmp_path),
        )


def test_a_join_of_two_inputs_refuses_these_algorithms() -> None:
    with pytest.raises(InvalidArgument, match="Call enrich"):
        Question.parse("k", "inner", algorithm="ssbj", condition=None, suffixes=("", "_r"))


def test_memory_that_cannot_hold_a_block_is_refused_with_the_least_that_can(
    tmp_path: Path,
) -> None:
    case = Enrichment(())
    schema = case.schema()
    batch = case.columns.batch(Side.RIGHT, tuple(range(5000)), 0)
    lay_down(schema, [batch], tmp_path / "v0", version="v0", block_bytes=100_000)

    def made(memory: int) -> SemiStreamJoin:
        master = Master.open(tmp_path / "v0")
        return make_enricher(
            "auto", schema, master=master, memory=MemoryAccount(memory), spill=SpillArea(tmp_path)
        )

    with pytest.raises(MemoryTooSmall, match="at least") as refused:
        made(2**20)
    least = int(str(refused.value).split("at least ")[1].split(" ")[0].replace(",", ""))
    made(least).close()
    with pytest.raises(MemoryTooSmall):
        made(least - 1000)


def test_a_version_column_needs_a_name_of_its_own() -> None:
    with pytest.raises(SchemaError, match="version_column='name'"):
        JoinSchema.resolve(STREAM, MASTER, "k", version_column="name")
