"""What happens to a join as a list of steps, and a player that checks the operator at each."""

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

from watersmeet.model import JoinType
from watersmeet.operators.base import JoinOperator, Manifest, StateArea
from watersmeet.rows.address import Matches
from watersmeet.rows.bands import Band
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.keys import Hashes, Rehash
from watersmeet.rows.on import Asked, Equal
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.oracle import (
    assert_same,
    counted,
    expected_rows,
    matches_by_loop,
    pairs_by_loop,
    rows_of,
)


@dataclass(frozen=True)
class Push:
    """Rows of these keys arrive at an input. A key of None is null."""

    side: int
    keys: tuple[int | None, ...]


@dataclass(frozen=True)
class Punctuate:
    """A promise that no more rows of these keys come from an input. The player keeps it: it leaves
    such rows out of later pushes. In joins with several predicates it promises nothing, since other
    rows may have the same code under one of them."""

    side: int
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Stall:
    """The inputs are silent until the operator has asked `pause` this many times."""

    polls: int


@dataclass(frozen=True)
class Resize:
    """Another memory limit, in bytes."""

    limit: int


@dataclass(frozen=True)
class Save:
    """Save the join, and go on with one that is restored from it.

    Without `restores` the saved join goes on, and the next save adds to this one.
    """

    restores: bool = True


@dataclass(frozen=True)
class Settle:
    """`settle` is called, until the operator has asked `pause` this many times."""

    polls: int


@dataclass(frozen=True)
class Tidy:
    """`tidy` is called, as it is from time to time in joins of streams."""


@dataclass(frozen=True)
class End:
    side: int


Step = Push | Punctuate | Stall | Settle | Tidy | Resize | Save | End


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


PREDICATES: dict[str, list[Asked]] = {
    "equal": [Equal.of("k")],
    "band": [Band("t", "t", low=-1, high=2)],
    "open band": [Band("t", "t", low=0, low_open=True)],
    "equal and band": [Equal.of("k"), Band("t", "t", low=-3, high=3)],
    "between": [Overlap(("t", "t"), ("t", "u"), left_open=True)],
    "overlaps": [Overlap(("t", "u"), ("t", "u"))],
    "equal and overlaps": [Equal.of("k"), Overlap(("t", "u"), ("t", "u"))],
    "chain": [Equal.of("k", (0, 1)), Band("t", "t", low=-1, high=1, ends=(1, 2))],
    "star": [Equal.of("k", (0, 1)), Equal.of("k", (0, 2)), Band("t", "t", high=0, ends=(0, 3))],
    "snowflake": [
        Equal.of("k", (0, 1)),
        Band("t", "t", low=-1, high=1, ends=(1, 2)),
        Equal.of("k", (1, 3)),
        Band("t", "t", low=0, high=2, ends=(1, 3)),
    ],
    "chain of bands": [
        Band("t", "t", low=-1, high=1, ends=(0, 1)),
        Band("t", "t", low=0, high=2, ends=(1, 2)),
    ],
    "one attribute": [Equal.of("k", (0, 1)), Equal.of("k", (1, 2))],
}
"""Lists of predicates by name."""


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
    predicates: str = "equal"

    @property
    def inputs(self) -> int:
        return inputs_of(self.predicates)

    def schema(self) -> JoinSchema:
        schemas = [self.batch(n, (), 0).schema for n in range(self.inputs)]
        asked, rehash = PREDICATES[self.predicates], REHASHES[self.codes]
        if self.inputs > 2:
            return JoinSchema.resolve_many(schemas, asked, rehash=rehash)
        near = [each for each in asked if not isinstance(each, Equal)]
        keys = ["k"] if len(near) < len(asked) else []
        left, right = schemas
        return JoinSchema.resolve(left, right, [*keys, *near], self.how, rehash=rehash)

    def batch(self, input: int, keys: tuple[int | None, ...], first: int) -> pa.RecordBatch:
        """Rows with these keys; `first` numbers them."""
        name = "abcdefgh"[input]
        numbers = range(first, first + len(keys))
        long = 199 if self.uneven else 7
        texts = [None if n % 5 == 4 else "x" * (n * n % long) for n in numbers]
        columns = {"k": pa.array(keys, pa.int64())}
        if self.predicates != "equal":
            # Keys repeat more often than values, and either may be null beside the other that is
            # not: otherwise both predicates would hold for the same rows.
            values = [None if n % 7 == 6 else key for n, key in zip(numbers, keys, strict=True)]
            columns["t"] = pa.array(values, pa.int64())
            if any(isinstance(each, Overlap) for each in PREDICATES[self.predicates]):
                columns["u"] = pa.array([*map(_end, numbers, values)], pa.int64())
            remainders = [
                None if key is None or n % 5 == 3 else key % 3
                for n, key in zip(numbers, keys, strict=True)
            ]
            columns["k"] = pa.array(remainders, pa.int64())
        columns["k"] = columns["k"].cast(self.key)
        columns[name] = pa.array(numbers, pa.int64())
        columns[f"{name}_text"] = pa.array(texts, pa.string())
        return pa.record_batch(columns)


def _end(number: int, start: int | None) -> int | None:
    """Where an interval ends: some are points, some end before they start, some have no end."""
    length = (0, 1, 2, 5, -2, 3, 17, None, 4, 8)[number % 10]
    return None if start is None or length is None else start + length


def inputs_of(predicates: str) -> int:
    """How many inputs these predicates are between."""
    return 1 + max(end for each in PREDICATES[predicates] for end in each.ends)


@dataclass
class Clock:
    """A clock that moves on by 0.3 seconds each time it is asked."""

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
    """A state area in a directory of its own, which is made when the first file is put there."""

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
        """Remove all files but these, as a runtime does that needs one saved version only."""
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
    """Plays one case, and checks memory and results at every step."""

    def __init__(self, maker: Maker, case: Case, directory: Path) -> None:
        self._maker = maker
        self._case = case
        self._directory = directory
        self._schema = case.schema()
        self._inputs: list[list[pa.RecordBatch]] = [[] for _ in range(case.inputs)]
        self._output: list[pa.RecordBatch] = []
        self._stages: Counter[str] = Counter()
        self._ended = False
        self._promised: list[set[int | None]] = [set() for _ in range(case.inputs)]
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
                keys = tuple(key for key in keys if key not in self._promised[side])
                first = sum(map(len, self._inputs[side]))
                batch = self._case.batch(side, keys, first)
                self._inputs[side].append(batch)
                self._drain(self.operator.push(side, batch))
            case Punctuate(side, keys) if self._case.predicates == "equal":
                self._promised[side].update(keys)
                codes = self._schema.encode(side, self._case.batch(side, keys, 0)).codes
                self._drain(self.operator.punctuate(side, Promise.of_codes(0, codes)))
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
        """Push rows to the join that was saved: the one that is restored must not notice."""
        if not self._ended:
            for input in range(self._case.inputs):
                for _ in self.operator.push(input, self._case.batch(input, (7, 1), 10**6)):
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
        # A smaller limit has no space for a row, and one row is always taken in.
        if account.limit >= 4096:
            assert account.used <= account.limit, account.by_purpose()
            assert account.peak <= max(account.limit, self._case.memory), account.by_purpose()

    def _check_settled(self) -> None:
        assert not any(self.operator.owed()), "settled, and still owed"
        if self._case.how is JoinType.INNER:
            self._check_result()

    def _check_result(self) -> None:
        tables = [
            pa.Table.from_batches(batches, self._case.batch(input, (), 0).schema)
            for input, batches in enumerate(self._inputs)
        ]
        if self._case.predicates == "equal":
            pair = (tables[0], tables[1])
            rows = expected_rows(self._schema, pair, pairs_by_loop(self._schema, pair))
        else:
            matched = matches_by_loop(tables, PREDICATES[self._case.predicates])
            rows = rows_of(self._schema, tables, matched)
        assert_same(counted(self._output), rows)

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
    """Returns True when it has been asked `polls` times, and may not be asked again after that."""

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
