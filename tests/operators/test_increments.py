"""Joins that are saved after every step, writing only what is new each time."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.operators.inputs import COSTS, SCHEMA, batch, make, numbered
from watersmeet.errors import SpillCorrupted, StateError
from watersmeet.model import JoinType, Side
from watersmeet.operators.base import JoinOperator, Manifest
from watersmeet.operators.family import PROGRESSIVE, find_algorithm, make_progressive
from watersmeet.operators.increments import Increments
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.contract import check_schedules, forced_cases
from watersmeet.testing.schedule import Pause, Resources, play

L, R = Side
FEW_ROWS = Tuning(
    partitions=2, fan_in=2, chunk_rows=2, flush_share=0.5, costs=COSTS, page_rows=1, memory_rows=6
)
MODES = list(forced_cases(JoinType.INNER))


class Folder:
    """A state area that counts what is put into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.put_bytes: Counter[str] = Counter()

    def put(self, path: Path) -> str:
        name = f"{len(self.put_bytes)}.arrow"
        shutil.copyfile(path, self.path / name)
        self.put_bytes[name] = path.stat().st_size
        return name

    def get(self, name: str, path: Path) -> None:
        shutil.copyfile(self.path / name, path)


class SavedJoin:
    """A join that is saved after every call. What `save` returns is the last of these."""

    def __init__(self, increments: Increments, folder: Folder) -> None:
        self.increments = increments
        self.metrics: Metrics = increments.join.metrics
        self._folder = folder
        self._manifest = increments.save(folder)

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[Matches]:
        return self._saved(self.increments.join.push(side, batch))

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        return self._saved(self.increments.join.idle(pause))

    def end(self, side: Side) -> Iterator[Matches]:
        return self._saved(self.increments.join.end(side))

    def resize(self, limit: int) -> Iterator[Matches]:
        return self._saved(self.increments.join.resize(limit))

    def finish(self) -> Iterator[Matches]:
        return self.increments.join.finish()

    def save(self, area: SpillArea) -> Manifest:
        return self._manifest

    @classmethod
    def restore(cls, area: SpillArea, manifest: Manifest, **settings: Any) -> Self:
        folder = settings.pop("folder")
        return cls(Increments.restore(folder, manifest, **settings), folder)

    def close(self) -> None:
        self.increments.join.close()

    def _saved(self, found: Iterator[Matches]) -> Iterator[Matches]:
        yield from found
        self._manifest = self.increments.save(self._folder)


@dataclass(frozen=True)
class SavedMember:
    """One algorithm, saved after every step of a schedule."""

    name: str
    tuning: Tuning = FEW_ROWS
    block_bytes: int | None = 1
    folder: Folder = field(kw_only=True)

    @property
    def chunk_rows(self) -> int:
        return self.tuning.chunk_rows

    @property
    def least_memory(self) -> int:
        return 0 if find_algorithm(self.name).spills else 64 * 2**20

    @property
    def _tuning(self) -> Tuning:
        return replace(self.tuning, memory_rows=None) if self.least_memory else self.tuning

    def make(self, schema: JoinSchema, resources: Resources) -> JoinOperator:
        join = make_progressive(
            self.name,
            schema,
            memory=resources.memory,
            spill=resources.spill,
            clock=resources.clock,
            tuning=self._tuning,
        )
        return self._with_small_blocks(SavedJoin(Increments(join), self.folder))

    def restore(
        self, schema: JoinSchema, resources: Resources, *, area: SpillArea, manifest: Manifest
    ) -> JoinOperator:
        restored = SavedJoin.restore(
            area,
            manifest,
            folder=self.folder,
            schema=schema,
            algorithm=find_algorithm(self.name),
            memory=resources.memory,
            spill=resources.spill,
            clock=resources.clock,
            tuning=self._tuning,
        )
        return self._with_small_blocks(restored)

    def resize(self, operator: JoinOperator, limit: int) -> Iterator[Matches]:
        assert isinstance(operator, SavedJoin)
        return operator.resize(limit)

    def _with_small_blocks(self, saved: SavedJoin) -> SavedJoin:
        if self.block_bytes is not None:
            saved.increments.join.parts.block_bytes = self.block_bytes
        return saved


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "state").mkdir()
    return Folder(tmp_path / "state")


@pytest.mark.parametrize("how", [JoinType.INNER, JoinType.FULL, JoinType.ANTI])
@pytest.mark.parametrize("name", ["rpj", "pmj", "hmj"])
def test_every_schedule_gives_the_join(name: str, how: JoinType, folder: Folder) -> None:
    member = SavedMember(name, folder=folder)
    check_schedules(st.just(member), how, search=settings(max_examples=12))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRESSIVE)
def test_every_forced_mode_gives_the_join(name: str, mode: str, folder: Folder) -> None:
    for how in (JoinType.FULL, JoinType.SEMI):
        play(SavedMember(name, folder=folder), forced_cases(how)[mode])
    in_bytes = Tuning(partitions=3, costs=COSTS)
    play(
        SavedMember(name, in_bytes, block_bytes=None, folder=folder),
        forced_cases(JoinType.INNER)[mode],
    )


def test_a_save_writes_the_rows_that_came_since_the_last(tmp_path: Path, folder: Folder) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, costs=COSTS))
    increments = Increments(join)
    numbered(join.push(L, batch(L, range(1000))))
    first = increments.save(folder)
    numbered(join.push(L, batch(L, range(10), first=1000)))
    second = increments.save(folder)
    assert [segment["rows"] for segment in second["segments"][L]] == [1000, 10]
    new = set(second["files"]) - set(first["files"])
    assert 0 < sum(folder.put_bytes[name] for name in new) < 0.1 * folder.put_bytes.total()
    before = len(folder.put_bytes)
    assert increments.save(folder)["files"] == second["files"]
    assert len(folder.put_bytes) == before
    join.close()


def test_a_spilled_file_is_put_once(tmp_path: Path, folder: Folder) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, memory_rows=30, costs=COSTS))
    increments = Increments(join)
    for start in range(0, 120, 40):
        numbered(join.push(L, batch(L, range(start, start + 40), first=start)))
        increments.save(folder)
    spilled = increments.save(folder)["partitions"]["names"]
    inputs = {path.name for path in join.parts.spill.path.iterdir()}
    assert len(spilled) == len(inputs) > 1
    join.close()


def test_segments_that_are_mostly_dead_are_written_anew(tmp_path: Path, folder: Folder) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, memory_rows=20, costs=COSTS))
    increments = Increments(join)
    most = 0
    for start in range(0, 400, 5):
        numbered(join.push(L, batch(L, range(start, start + 5), first=start)))
        manifest = increments.save(folder)
        rows = sum(segment["rows"] for segment in manifest["segments"][L])
        assert rows <= 2 * manifest["resident"][L]["rows"]
        most = max(most, len(manifest["segments"][L]))
    assert most > 1
    join.close()


def test_many_small_segments_become_one(tmp_path: Path, folder: Folder) -> None:
    join = make("shj", tmp_path, Tuning(partitions=3, costs=COSTS))
    increments = Increments(join)
    for start in range(150):
        numbered(join.push(L, batch(L, [start], first=start)))
        manifest = increments.save(folder)
        assert len(manifest["segments"][L]) <= 64
    assert sum(segment["rows"] for segment in manifest["segments"][L]) == 150
    join.close()


def test_a_damaged_segment_is_noticed(tmp_path: Path, folder: Folder) -> None:
    join = make("rpj", tmp_path, Tuning(partitions=3, costs=COSTS))
    increments = Increments(join)
    numbered(join.push(L, batch(L, range(100))))
    numbered(join.idle(Pause(1)))
    manifest = json.loads(json.dumps(increments.save(folder)))
    join.close()
    content = bytearray((folder.path / manifest["files"][0]).read_bytes())
    content[len(content) // 2] ^= 1
    (folder.path / manifest["files"][0]).write_bytes(content)
    with pytest.raises(SpillCorrupted):
        restored(folder, manifest, tmp_path)
    with pytest.raises(StateError, match="format 0"):
        restored(folder, manifest | {"format": 0}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def restored(folder: Folder, manifest: Manifest, directory: Path) -> Increments:
    return Increments.restore(
        folder,
        manifest,
        schema=SCHEMA,
        algorithm=PROGRESSIVE["rpj"],
        memory=MemoryAccount(2**20),
        spill=SpillArea(directory),
        clock=lambda: 0.0,
        tuning=Tuning(partitions=3, costs=COSTS),
    )
