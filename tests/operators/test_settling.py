"""Joins without an end: at any moment all that is owed can be had, and what is kept stays small."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.operators.inputs import BLOCK_BYTES, COSTS, SCHEMA, batch, numbered
from watersmeet.model import Side
from watersmeet.operators import compaction
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.family import ALGORITHMS, make_operator, restore_operator
from watersmeet.operators.progressive import debt
from watersmeet.operators.progressive import join as progressive
from watersmeet.operators.progressive.history import History
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.rectangle import join as rectangle
from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.rectangle.workspace import RectangleWorkspace
from watersmeet.operators.regions.join import RegionJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import Pause, StateFolder

L, R = Side
# These differ from another algorithm in what they decide alone.
VARIANTS = (
    "hmj-all", "hmj-smallest", "hmj-largest", "rpj-md", "rpj-dd", "ripple", "sms", "dbo",
    "diner-plain", "pmj-sorted",
)  # fmt: skip
SPILLING = [name for name, algorithm in ALGORITHMS.items() if algorithm.spills]
TUNING = Tuning(
    partitions=3, fan_in=2, chunk_rows=7, costs=COSTS, page_rows=2, memory_rows=24, flush_share=0.3
)
Pairs = Counter[tuple[int, int]]


class Endless:
    """A join that is fed, interrupted, tidied, saved and restored at random."""

    def __init__(self, name: str, directory: Path, chance: random.Random) -> None:
        self.directory = directory
        self.folder = StateFolder(directory / "state")
        self.chance = chance
        self.name = name
        self.join = self._with_small_blocks(
            make_operator(name, SCHEMA, **self._resources(), tuning=TUNING)
        )
        self.keys: tuple[list[int], list[int]] = ([], [])
        self.found: Pairs = Counter()

    def _resources(self) -> dict[str, Any]:
        spill = SpillArea(self.directory)
        return {"memory": MemoryAccount(2**20), "spill": spill, "clock": lambda: 0.0}

    @staticmethod
    def _with_small_blocks(join: JoinOperator) -> JoinOperator:
        assert isinstance(join, ProgressiveJoin | RectangleJoin | RegionJoin)
        join.workspace.block_bytes = BLOCK_BYTES
        return join

    def step(self) -> None:
        what = self.chance.choice(["push"] * 6 + ["idle", "settle", "tidy", "tidy", "save"])
        if what == "push":
            side = self.chance.choice([L, L, R])
            keys = [self.chance.randrange(12) for _ in range(self.chance.randrange(1, 20))]
            first = len(self.keys[side])
            self.keys[side].extend(keys)
            self.found += numbered(self.join.push(side, batch(side, keys, first)))
        elif what == "idle":
            self.found += numbered(self.join.idle(Pause(self.chance.randrange(6))))
        elif what == "settle":
            self.found += numbered(self.join.settle(Pause(self.chance.randrange(6))))
        elif what == "tidy":
            self.found += numbered(self.join.tidy())
        else:
            self.save()

    def save(self) -> None:
        manifest = json.loads(json.dumps(self.join.save(self.folder)))
        self.folder.keep(manifest["files"])
        self.join.close()
        restored = restore_operator(
            self.name,
            SCHEMA,
            area=self.folder,
            manifest=manifest,
            **self._resources(),
            tuning=TUNING,
        )
        self.join = self._with_small_blocks(restored)

    def settle(self) -> None:
        """All that is there comes out, and nothing twice."""
        self.found += numbered(self.join.settle())
        left, right = self.keys
        rights: dict[int, list[int]] = {}
        for number, key in enumerate(right):
            rights.setdefault(key, []).append(number)
        every = ((n, m) for n, key in enumerate(left) for m in rights.get(key, ()))
        assert self.found == Counter(every)
        assert self.join.owed() == [0, 0]


@pytest.fixture
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short schedule comes to everything that many flushes lead to."""
    monkeypatch.setattr(compaction, "_RUNS_OF_A_GENERATION", 2)
    monkeypatch.setattr(compaction, "_MERGED_AT_ONCE", 3)
    monkeypatch.setattr(progressive, "_LONG_HISTORY", 3)
    monkeypatch.setattr(progressive, "_MOST_RUNS", 4)
    monkeypatch.setattr(rectangle, "_MOST_STRIPS", 3)


def run_endless(name: str, directory: Path, seed: int) -> None:
    endless = Endless(name, directory, random.Random(seed))
    try:
        for _ in range(3):
            for _ in range(40):
                endless.step()
            endless.settle()
    finally:
        endless.join.close()


@pytest.mark.usefixtures("small_numbers")
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=pytest.mark.slow if seed or name in VARIANTS else ())
        for name in SPILLING
        for seed in (0, 1)
    ],
)
def test_all_that_is_owed_can_be_had_at_any_moment(name: str, seed: int, tmp_path: Path) -> None:
    run_endless(name, tmp_path, seed)


def run_many(names: list[str], directory: Path) -> None:
    for seed in range(40):
        (directory / str(seed)).mkdir()
        run_endless(names[seed % len(names)], directory / str(seed), seed)


PROGRESSIVE = ["rpj", "xjoin", "rpj-md"]
SHARED = ["sms", "dbo", "hash-ripple", "grace"]
"""Rectangle joins whose partitions have one cover together."""
BUGS: dict[str, tuple[list[str], Any, str, Any]] = {
    "every scan is forgotten": (PROGRESSIVE, History, "_tells", lambda *_: False),
    "nothing is ever owed": (PROGRESSIVE, debt, "find_debt", lambda *_: None),
    "memory owes nothing to the disk": (PROGRESSIVE, debt.Debt, "md", lambda *_: False),
    "whoever left has been merged": (PROGRESSIVE, History, "_have_merged", lambda *_: True),
    "an interrupted scan counts as a whole one": (
        PROGRESSIVE, debt, "_cover_all", lambda ranges: bool(ranges),
    ),
    "a rectangle owes nothing": (SHARED, RectangleJoin, "owed", lambda *_: [0, 0]),
    "covers stay shared while partitions are completed": (
        SHARED, RectangleWorkspace, "divide_covers", lambda *_: None,
    ),
    "nothing is known to have met once all has": (
        SHARED, Cover, "complete", classmethod(lambda cls, _: cls()),
    ),
    "kept rows are not pinned": (["hash-ripple"], RectangleWorkspace, "pinned", lambda *_: [0, 0]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("small_numbers")
@pytest.mark.parametrize("bug", BUGS)
def test_mistakes_would_be_noticed(
    bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, place, name, wrong = BUGS[bug]
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError):
        run_many(names, tmp_path)


def grown(name: str, directory: Path, batches: int) -> Iterator[tuple[int, int, int]]:
    """Of each batch: bytes of the manifest, runs and files."""
    chance = random.Random(7)
    folder = StateFolder(directory / "state")
    join = make_operator(
        name,
        SCHEMA,
        memory=MemoryAccount(2**20),
        spill=SpillArea(directory),
        clock=lambda: 0.0,
        tuning=Tuning(partitions=8, memory_rows=200, costs=COSTS),
    )
    for number in range(batches):
        for side in Side:
            keys = [chance.randrange(10_000) for _ in range(40)]
            numbered(join.push(side, batch(side, keys, 40 * number)))
        numbered(join.tidy())
        saved = join.save(folder)
        folder.keep(saved["files"])
        yield (
            len(json.dumps(saved)),
            sum(len(side) for p in saved["rows"]["runs"] for side in p),
            len(saved["files"]),
        )
    join.close()


@pytest.mark.parametrize(
    ("name", "batches"),
    [
        ("rpj", 250),
        pytest.param("rpj", 1000, marks=pytest.mark.slow),
        pytest.param("xjoin", 1000, marks=pytest.mark.slow),
        pytest.param("pr-join", 250, marks=pytest.mark.slow),
        ("dbo", 250),
        pytest.param("ripple", 1000, marks=pytest.mark.slow),
    ],
)
def test_what_is_kept_does_not_grow_with_the_number_of_flushes(
    name: str, batches: int, tmp_path: Path
) -> None:
    sizes = list(grown(name, tmp_path, batches))
    early = [max(each) for each in zip(*sizes[50:120], strict=True)]
    late = [max(each) for each in zip(*sizes[-100:], strict=True)]
    for size, before in zip(late, early, strict=True):
        assert size <= 2 * before, (early, late)
    assert late[0] < 40_000
