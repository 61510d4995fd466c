"""A run of a join as a list of steps, and a player that checks the operator at every one."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model import JoinType, Side
from watersmeet.operators.base import JoinOperator, Manifest, StateArea
from watersmeet.rows.address import Matches, Stage
from watersmeet.rows.keys import Hashes, Rehash
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.oracle import assert_same, counted, expected_rows, pairs_by_loop


@dataclass(frozen=True)
class Push:
    """Rows of these keys arrive. A key of None is null."""

    side: Side
    keys: tuple[int | None, ...]


@dataclass(frozen=True)
class Stall:
    """The inputs are silent until `pause` has been asked so many times."""

    polls: int


@dataclass(frozen=True)
class Resize:
    """Another memory limit, in bytes."""

    limit: int


@dataclass(frozen=True)
class Save:
    """Save, go on with a join restored from it. What the saved join does later has no effect.

    Without `restores` the saved join goes on, and a later save adds to this one.
    """

    restores: bool = True


@dataclass(frozen=True)
class Settle:
    """All that follows from the rows so far is asked for, until `pause` was asked so often."""

    polls: int


@dataclass(frozen=True)
class Tidy:
    """What has become many is merged, as joins without an end do."""


@dataclass(frozen=True)
class End:
    side: Side


Step = Push | Stall | Settle | Tidy | Resize | Save | End


def _hash_of(number: int) -> Rehash:
    return lambda codes: np.full_like(codes, number)


def _crowd(codes: Hashes) -> Hashes:
    return (codes % np.uint64(3)) << np.uint64(62)


REHASHES: dict[str, Rehash | None] = {
    "true hashes": None,
    "every hash 0": _hash_of(0),
    "every hash at its largest": _hash_of(2**64 - 1),
    "three hashes": _crowd,
}


@dataclass(frozen=True)
class Case:
    """A schedule with the circumstances it is played in."""

    steps: tuple[Step, ...]
    how: JoinType = JoinType.INNER
    memory: int = 64 * 2**20
    key: str = "int64"
    codes: str = "true hashes"
    uneven: bool = False
    """Whether some rows are much longer than others."""

    def schema(self) -> JoinSchema:
        left, right = (self.batch(side, (), 0).schema for side in Side)
        return JoinSchema.resolve(left, right, "k", self.how, rehash=REHASHES[self.codes])

    def batch(self, side: Side, keys: tuple[int | None, ...], first: int) -> pa.RecordBatch:
        """Rows with these keys; `first` numbers them."""
        name = "ab"[side]
        numbers = range(first, first + len(keys))
        long = 199 if self.uneven else 7
        texts = [None if n % 5 == 4 else "x" * (n * n % long) for n in numbers]
        columns = {
            "k": pa.array(keys, pa.int64()).cast(self.key),
            name: pa.array(numbers, pa.int64()),
            f"{name}_text": pa.array(texts, pa.string()),
        }
        return pa.record_batch(columns)


@dataclass
class Clock:
    """Seconds that pass only when asked for."""

    now: float = 0.0

    def __call__(self) -> float:
        self.now += 0.3
        return self.now


@dataclass(frozen=True)
class Resources:
    """What a join gets from whoever runs it."""

    memory: MemoryAccount
    spill: SpillArea
    clock: Callable[[], float] = field(default_factory=Clock)


class StateFolder:
    """A state area in a directory of its own, which is there from the first file on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.put_bytes: dict[str, int] = {}
        """The sizes of all files that were ever put here."""

    def put(self, path: Path) -> str:
        name = f"{len(self.put_bytes)}.arrow"
        self.path.mkdir(exist_ok=True)
        shutil.copyfile(path, self.path / name)
        self.put_bytes[name] = path.stat().st_size
        return name

    def get(self, name: str, path: Path) -> None:
        assert (self.path / name).exists(), f"{name} was not among the files of the manifest"
        shutil.copyfile(self.path / name, path)

    def keep(self, names: list[str]) -> None:
        """Remove all files but these, as who keeps one version does."""
        for path in self.path.iterdir() if self.path.exists() else ():
            if path.name not in names:
                path.unlink()

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Maker(Protocol):
    """How to make the operator that is checked."""

    @property
    def chunk_rows(self) -> int:
        """The most rows it may yield at once."""
        ...

    @property
    def least_memory(self) -> int:
        """Bytes below which it may refuse to go on; 0 if it works within any memory."""
        ...

    def make(self, schema: JoinSchema, resources: Resources) -> JoinOperator: ...

    def restore(
        self, schema: JoinSchema, resources: Resources, *, area: StateArea, manifest: Manifest
    ) -> JoinOperator: ...


class Player:
    """Plays one case, checking what can be checked at every step."""

    def __init__(self, maker: Maker, case: Case, directory: Path) -> None:
        self._maker = maker
        self._case = case
        self._directory = directory
        self._schema = case.schema()
        self._inputs: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._output: list[pa.RecordBatch] = []
        self._stages: Counter[Stage] = Counter()
        self._ended = False
        self._area = StateFolder(directory / "state")
        self._resources = self._new_resources(case.memory)
        self.operator = maker.make(self._schema, self._resources)

    def play(self) -> None:
        for step in self._case.steps:
            self._do(step)
            self._check_memory()
        self._drain(self.operator.finish())
        self._check_result()
        self._check_metrics()
        left_over = [path.name for path in self._resources.spill.path.iterdir()]
        assert not left_over, f"finished, and still on disk: {left_over}"
        self._close()
        self._area.close()

    def _do(self, step: Step) -> None:
        match step:
            case Push(side, keys):
                first = sum(map(len, self._inputs[side]))
                batch = self._case.batch(side, keys, first)
                self._inputs[side].append(batch)
                self._drain(self.operator.push(side, batch))
            case Stall(polls):
                self._drain(self.operator.idle(Pause(polls)))
            case Resize(limit):
                limit = max(limit, self._maker.least_memory)
                self._drain(self.operator.resize(limit))
            case Save(restores):
                manifest = self.operator.save(self._area)
                self._area.keep(manifest["files"])
                if restores:
                    self._restore(manifest)
            case Settle(polls):
                pause = Pause(polls)
                self._drain(self.operator.settle(pause))
                if not pause.is_over:
                    self._check_settled()
            case Tidy():
                self._drain(self.operator.tidy())
            case End(side):
                self._ended = True
                self._drain(self.operator.end(side))

    def _restore(self, manifest: Manifest) -> None:
        self._lead_astray()
        self._close()
        self._resources = self._new_resources(self._resources.memory.limit)
        self.operator = self._maker.restore(
            self._schema,
            self._resources,
            area=self._area,
            manifest=json.loads(json.dumps(manifest)),
        )

    def _lead_astray(self) -> None:
        """Go on with a join that was saved. Nobody takes its rows any more."""
        if not self._ended:
            for side in Side:
                for _ in self.operator.push(side, self._case.batch(side, (7, 1), 10**6)):
                    pass
        for _ in self.operator.idle(Pause(3)):
            pass

    def _new_resources(self, memory: int) -> Resources:
        account = MemoryAccount(max(memory, self._maker.least_memory))
        return Resources(account, SpillArea(self._directory))

    def _drain(self, found: Iterator[Matches]) -> None:
        for matches in found:
            count = len(matches)
            assert 0 < count <= self._maker.chunk_rows, f"{count} rows at once"
            batch = self._schema.materialise(matches)
            assert batch.schema.equals(self._schema.output)
            assert batch.num_rows == count
            batch.validate(full=True)
            self._output.append(batch)
            self._stages[matches.stage] += count

    def _check_memory(self) -> None:
        account = self._resources.memory
        # Less than this holds no row, and one row is always taken in.
        if account.limit >= 4096:
            assert account.used <= account.limit, account.by_purpose()
            assert account.peak <= max(account.limit, self._case.memory), account.by_purpose()

    def _check_settled(self) -> None:
        assert not any(self.operator.owed()), "settled, and still owed"
        if self._case.how is JoinType.INNER:
            self._check_result()

    def _check_result(self) -> None:
        left, right = (
            pa.Table.from_batches(batches, self._case.batch(side, (), 0).schema)
            for side, batches in zip(Side, self._inputs, strict=True)
        )
        pairs = pairs_by_loop(self._schema, (left, right))
        assert_same(counted(self._output), expected_rows(self._schema, (left, right), pairs))

    def _check_metrics(self) -> None:
        metrics = self.operator.metrics
        assert list(metrics.rows_in) == [sum(map(len, batches)) for batches in self._inputs]
        assert {s: n for s, n in metrics.results.items() if n} == dict(self._stages)
        json.dumps(metrics.as_dict())

    def _close(self) -> None:
        self.operator.close()
        self.operator.close()
        assert not self._resources.spill.path.exists(), "closed, and its directory is still there"
        assert not self._resources.memory.used, self._resources.memory.by_purpose()


class Pause:
    """Turns true when it has been asked `polls` times, and may not be asked again after that."""

    def __init__(self, polls: int) -> None:
        self._left = polls

    def __call__(self) -> bool:
        assert self._left >= 0, "asked again after it said to stop"
        self._left -= 1
        return self.is_over

    @property
    def is_over(self) -> bool:
        return self._left < 0


def play(maker: Maker, case: Case) -> None:
    """Play a case in a directory of its own, and see that nothing is left in it."""
    with tempfile.TemporaryDirectory(prefix="watersmeet-case-") as directory:
        Player(maker, case, Path(directory)).play()
        left_over = list(Path(directory).iterdir())
        assert not left_over, f"left behind: {left_over}"
