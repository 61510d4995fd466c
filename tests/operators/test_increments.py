"""Joins that are saved after every step, writing only what is new each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.crossing import crossed
from tests.operators.inputs import COSTS, SCHEMA, batch, make, numbered
from watersmeet.errors import SpillCorrupted, StateError
from watersmeet.model import JoinType, Side
from watersmeet.operators.base import JoinOperator, Manifest, StateArea
from watersmeet.operators.family import ALGORITHMS, restore_operator
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.contract import check_schedules, forced_cases
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Pause, Resources, StateFolder, play

L, R = Side
FEW_ROWS = Tuning(
    partitions=2, fan_in=2, chunk_rows=2, flush_share=0.5, costs=COSTS, page_rows=1, memory_rows=6
)
MODES = list(forced_cases(JoinType.INNER))


class SavedJoin:
    """A join that is saved after every call. What `save` returns is the last of these."""

    def __init__(self, join: JoinOperator, folder: StateFolder) -> None:
        self.join = join
        self.metrics: Metrics = join.metrics
        self._folder = folder
        self._manifest = join.save(folder)

    @property
    def limit(self) -> int:
        return self.join.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        return self._saved(self.join.push(input, batch))

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        return self._saved(self.join.punctuate(input, promise))

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        return self._saved(self.join.idle(pause))

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        return self._saved(self.join.settle(pause))

    def tidy(self) -> Iterator[Matches]:
        return self._saved(self.join.tidy())

    def owed(self) -> list[int]:
        return self.join.owed()

    def end(self, input: int) -> Iterator[Matches]:
        return self._saved(self.join.end(input))

    def resize(self, limit: int) -> Iterator[Matches]:
        return self._saved(self.join.resize(limit))

    def lend(self, nbytes: int) -> Iterator[Matches]:
        return self._saved(self.join.lend(nbytes))

    def finish(self) -> Iterator[Matches]:
        return self.join.finish()

    def save(self, area: StateArea) -> Manifest:
        return self._manifest

    def load(self, area: StateArea, manifest: Manifest) -> None:
        raise AssertionError("a `SavedMember` restores it")

    def close(self) -> None:
        self.join.close()

    def _saved(self, found: Iterator[Matches]) -> Iterator[Matches]:
        yield from found
        self._manifest = self.join.save(self._folder)


@dataclass(frozen=True)
class SavedMember(PublishedJoin):
    """One algorithm, saved after every step of a schedule, in a folder of its own."""

    folder: StateFolder = field(kw_only=True)

    def make(self, schema: JoinSchema, resources: Resources) -> JoinOperator:
        return SavedJoin(super().make(schema, resources), self.folder)

    def restore(
        self, schema: JoinSchema, resources: Resources, *, area: StateArea, manifest: Manifest
    ) -> JoinOperator:
        join = super().restore(schema, resources, area=self.folder, manifest=manifest)
        return SavedJoin(join, self.folder)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


@pytest.mark.parametrize(
    ("name", "how"),
    crossed(
        ["rpj", "pmj", "hmj", "pr-join", "hash-ripple", "dbo"],
        [JoinType.INNER, JoinType.FULL, JoinType.ANTI],
    ),
)
def test_every_schedule_gives_the_join(name: str, how: JoinType, folder: StateFolder) -> None:
    member = SavedMember(name, FEW_ROWS, block_bytes=1, folder=folder)
    check_schedules(st.just(member), how, search=settings(max_examples=12))


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *crossed(["rpj", "pr-join"], MODES),
        *(
            pytest.param(name, mode, marks=pytest.mark.slow)
            for name in ALGORITHMS
            for mode in MODES
            if name not in ("rpj", "pr-join")
        ),
    ],
)
def test_every_forced_mode_gives_the_join(name: str, mode: str, folder: StateFolder) -> None:
    for how in (JoinType.FULL, JoinType.SEMI):
        member = SavedMember(name, FEW_ROWS, block_bytes=1, folder=folder)
        play(member, forced_cases(how)[mode])
    in_bytes = Tuning(partitions=3, costs=COSTS)
    play(SavedMember(name, in_bytes, folder=folder), forced_cases(JoinType.INNER)[mode])


def test_a_save_writes_the_rows_that_came_since_the_last(
    tmp_path: Path, folder: StateFolder
) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, costs=COSTS))
    numbered(join.push(L, batch(L, range(1000))))
    first = join.save(folder)
    numbered(join.push(L, batch(L, range(10), first=1000)))
    second = join.save(folder)
    assert [segment["rows"] for segment in second["rows"]["segments"][L]] == [1000, 10]
    new = set(second["files"]) - set(first["files"])
    assert 0 < sum(folder.put_bytes[name] for name in new) < 0.1 * sum(folder.put_bytes.values())
    before = len(folder.put_bytes)
    assert join.save(folder)["files"] == second["files"]
    assert len(folder.put_bytes) == before
    join.close()


def test_a_spilled_file_is_put_once(tmp_path: Path, folder: StateFolder) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, memory_rows=30, costs=COSTS))
    for start in range(0, 120, 40):
        numbered(join.push(L, batch(L, range(start, start + 40), first=start)))
        join.save(folder)
    spilled = join.save(folder)["rows"]["spilled"]
    inputs = {path.name for path in join.workspace.spill.path.iterdir()}
    assert len(spilled) == len(inputs) > 1
    join.close()


def test_segments_that_are_mostly_dead_are_written_anew(
    tmp_path: Path, folder: StateFolder
) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, memory_rows=20, costs=COSTS))
    most = 0
    for start in range(0, 400, 5):
        numbered(join.push(L, batch(L, range(start, start + 5), first=start)))
        manifest = join.save(folder)
        rows = sum(segment["rows"] for segment in manifest["rows"]["segments"][L])
        assert rows <= 2 * manifest["rows"]["resident"][L]
        most = max(most, len(manifest["rows"]["segments"][L]))
    assert most > 1
    join.close()


def test_many_small_segments_become_one(tmp_path: Path, folder: StateFolder) -> None:
    join = make("shj", tmp_path, Tuning(partitions=3, costs=COSTS))
    for start in range(150):
        numbered(join.push(L, batch(L, [start], first=start)))
        manifest = join.save(folder)
        assert len(manifest["rows"]["segments"][L]) <= 64
    assert sum(segment["rows"] for segment in manifest["rows"]["segments"][L]) == 150
    join.close()


def test_a_damaged_segment_is_noticed(tmp_path: Path, folder: StateFolder) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, costs=COSTS))
    numbered(join.push(L, batch(L, range(100))))
    numbered(join.idle(Pause(1)))
    manifest = json.loads(json.dumps(join.save(folder)))
    join.close()
    content = bytearray((folder.path / manifest["files"][0]).read_bytes())
    content[len(content) // 2] ^= 1
    (folder.path / manifest["files"][0]).write_bytes(content)
    with pytest.raises(SpillCorrupted):
        restored(folder, manifest, tmp_path)
    with pytest.raises(StateError, match="format 0"):
        restored(folder, manifest | {"format": 0}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def restored(folder: StateFolder, manifest: Manifest, directory: Path) -> JoinOperator:
    return restore_operator(
        "rpj",
        SCHEMA,
        area=folder,
        manifest=manifest,
        memory=MemoryAccount(2**20),
        spill=SpillArea(directory),
        clock=lambda: 0.0,
        tuning=Tuning(partitions=3, costs=COSTS),
    )
