"""What happens to a join with a master table as a list of steps, and a player that checks it.

Which version a stream row has to meet follows from the steps alone: the newest one when it arrives,
or the one that replaced that before anybody had met it. With a deadline, a row that has no partner
there meets the next one, too, if that comes in time.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa

from watersmeet.model import JoinType, Side
from watersmeet.operators.family import make_enricher, restore_enricher
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.master import laying
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea
from watersmeet.testing.oracle import assert_same, counted, expected_rows, pairs_by_loop
from watersmeet.testing.schedule import REHASHES, Clock, Pause, StateFolder
from watersmeet.testing.schedule import Case as Columns

Keys = tuple[int | None, ...]

VERSION = "met"


@dataclass(frozen=True)
class Arrive:
    """Stream rows of these keys arrive. A key of None is null."""

    keys: Keys


@dataclass(frozen=True)
class Scan:
    """The stream is silent until the join has asked `pause` this many times."""

    polls: int


@dataclass(frozen=True)
class TakeOver:
    """A new version of the master table, with these keys."""

    keys: Keys


@dataclass(frozen=True)
class Resize:
    limit: int


@dataclass(frozen=True)
class Lend:
    nbytes: int


@dataclass(frozen=True)
class Save:
    restores: bool = True


@dataclass(frozen=True)
class Tidy:
    pass


@dataclass(frozen=True)
class Wait:
    """All that can be joined is, and then so many seconds pass."""

    seconds: int


Step = Arrive | Scan | TakeOver | Resize | Lend | Save | Tidy | Wait

ENOUGH = 10_000


HOWS = (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI)
# Every gap between blocks is read over; none is.
NEAR = Costs(random=1.0, sequential=1e-6)
FAR = Costs(random=1e3, sequential=1e3)


@dataclass(frozen=True)
class Enrichment:
    """A schedule with the circumstances it is played in."""

    steps: tuple[Step, ...]
    master: Keys = ()
    how: JoinType = JoinType.INNER
    algorithm: str = "auto"
    memory: int = 2**20
    portion_bytes: int = 2000
    block_bytes: int = 300
    chunk_rows: int = 100
    costs: Costs = NEAR
    key: str = "int64"
    codes: str = "true hashes"
    uneven: bool = False
    deadline: int | None = None

    @property
    def columns(self) -> Columns:
        return Columns((), self.how, key=self.key, codes=self.codes, uneven=self.uneven)

    def schema(self) -> JoinSchema:
        left, right = (self.columns.batch(side, (), 0).schema for side in Side)
        rehash = REHASHES[self.codes]
        return JoinSchema.resolve(left, right, "k", self.how, rehash=rehash, version_column=VERSION)

    def tuning(self) -> Tuning:
        return Tuning(
            chunk_rows=self.chunk_rows, portion_bytes=self.portion_bytes, costs=self.costs
        )


class Arrived(NamedTuple):
    """Rows that arrived together, with the newest version and the time."""

    newest: int
    time: int
    keys: Keys
    batch: pa.RecordBatch


@dataclass
class Player:
    """Plays one case, and checks memory at every step and all results at the end."""

    case: Enrichment
    directory: Path
    clock: Callable[[], float] = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self._schema = self.case.schema()
        self._versions: list[pa.Table] = []
        self._keys: list[Keys] = []
        """Those of each version."""
        self._came: list[int] = []
        """When each version came."""
        self._now = 0
        self._replaced: dict[int, int] = {}
        """Versions that nobody has met, and those that came after them."""
        self._stream: list[Arrived] = []
        self._output: list[pa.RecordBatch] = []
        self._stages: Counter[str] = Counter()
        self._area = StateFolder(self.directory / "state")
        self.memory, self._spill = self._new_resources(self.case.memory)
        self.join = make_enricher(
            self.case.algorithm, self._schema, master=self._lay_down(self.case.master),
            memory=self.memory, spill=self._spill, clock=self.clock, tuning=self.case.tuning(),
            deadline=self.case.deadline, wall=lambda: self._now,
        )  # fmt: skip

    def play(self) -> SemiStreamJoin:
        self.do(*self.case.steps)
        return self.finish()

    def do(self, *steps: Step) -> None:
        for step in steps:
            self._do(step)
            self._check_memory()
            check_cache(self.join)

    def finish(self) -> SemiStreamJoin:
        for side in Side:
            self._drain(self.join.end(side))
        self._drain(self.join.finish())
        assert not any(self.join.owed()), "finished, and still owed"
        self._check_result()
        assert self.join.metrics.rows_in[0] == sum(len(each.batch) for each in self._stream)
        assert {s: n for s, n in self.join.metrics.results.items() if n} == dict(self._stages)
        json.dumps(self.join.metrics.as_dict())
        left_over = [path.name for path in self._spill.path.iterdir()]
        assert not left_over, f"finished, and still on disk: {left_over}"
        self._close()
        return self.join

    def _do(self, step: Step) -> None:
        join = self.join
        match step:
            case Arrive(keys):
                first = sum(len(each.batch) for each in self._stream)
                batch = self.case.columns.batch(Side.LEFT, keys, first)
                self._stream.append(Arrived(len(self._versions) - 1, self._now, keys, batch))
                self._drain(join.push(Side.LEFT, batch))
            case Scan(polls):
                pause = Pause(polls)
                self._drain(join.settle(pause) if polls == ENOUGH else join.idle(pause))
                if not pause.is_over:
                    assert not any(join.owed()), "settled, and still owed"
            case TakeOver(keys):
                if len(join.versions) > 1:
                    self._replaced[len(self._versions) - 1] = len(self._versions)
                self._drain(join.take_over(self._lay_down(keys)))
            case Resize(limit):
                self._drain(join.resize(max(limit, 4096)))
                # Portions change in size with memory.
                portion = self.case.portion_bytes * (1 if limit < 30_000 else 2)
                workspace = join.workspace
                workspace.tuning = replace(workspace.tuning, portion_bytes=portion)
            case Lend(nbytes):
                self._drain(join.lend(nbytes))
            case Save(restores):
                manifest = join.save(self._area)
                self._area.keep(manifest["files"])
                if restores:
                    self._restore(json.loads(json.dumps(manifest)))
            case Tidy():
                self._drain(join.tidy())
            case Wait(seconds):
                self._drain(join.settle())
                self._now += seconds
                self._drain(join.idle(Pause(0)))

    def _restore(self, manifest: dict[str, object]) -> None:
        # The join that was saved goes on for a while: the restored one must not notice.
        for _ in self.join.push(Side.LEFT, self.case.columns.batch(Side.LEFT, (7, 1), 10**6)):
            pass
        for _ in self.join.idle(Pause(2)):
            pass
        versions = manifest["versions"]
        assert isinstance(versions, list)
        self._close()
        self.memory, self._spill = self._new_resources(self.memory.limit)
        self.join = restore_enricher(
            self.case.algorithm, self._schema, masters=[self._open(v) for v in versions],
            area=self._area, manifest=manifest, memory=self.memory, spill=self._spill,
            clock=self.clock, tuning=self.case.tuning(),
            deadline=self.case.deadline, wall=lambda: self._now,
        )  # fmt: skip

    def _new_resources(self, memory: int) -> tuple[MemoryAccount, SpillArea]:
        return MemoryAccount(memory), SpillArea(self.directory)

    # ---- the master table -----------------------------------------------------------------------

    def _lay_down(self, keys: Keys) -> Master:
        number = len(self._versions)
        batch = self.case.columns.batch(Side.RIGHT, keys, 1000 * number)
        self._versions.append(pa.Table.from_batches([batch]))
        self._keys.append(keys)
        self._came.append(self._now)
        lay_down(
            self._schema, [batch], self.directory / f"v{number}",
            version=f"v{number}", block_bytes=self.case.block_bytes,
        )  # fmt: skip
        return self._open(f"v{number}")

    def _open(self, version: str) -> Master:
        return Master.open(self.directory / version)

    # ---- checks ---------------------------------------------------------------------------------

    def _drain(self, found: Iterator[Matches]) -> None:
        for matches in found:
            count = len(matches)
            assert 0 < count <= self.case.chunk_rows, f"{count} rows at once"
            batch = self._schema.materialise(matches)
            assert batch.schema.equals(self._schema.output)
            batch.validate(full=True)
            self._output.append(batch)
            self._stages[matches.stage] += count

    def _check_memory(self) -> None:
        if self.memory.limit >= 8192 and not self.case.uneven:
            # So small a memory has no room for so many blocks, nor for such a portion.
            places = self.join.workspace.memory.reserved
            assert self.memory.used <= self.memory.limit + places, self.memory.by_purpose()
            most = max(self.memory.limit, self.case.memory) + places + self.case.portion_bytes
            assert self.memory.peak <= most, self.memory.by_purpose()

    def _check_result(self) -> None:
        left, right = self._schema.inputs
        plain = JoinSchema.resolve(left, right, "k", self.case.how)
        expected: Counter[tuple[object, ...]] = Counter()
        met: list[list[pa.RecordBatch]] = [[] for _ in self._versions]
        for each in self._stream:
            for row, key in enumerate(each.keys):
                met[self._met(each, key)].append(each.batch.slice(row, 1))
        columns = self.case.columns.batch(Side.LEFT, (), 0).schema
        for version, batches in enumerate(met):
            stream = pa.Table.from_batches(batches, columns)
            pair = (stream, self._versions[version])
            for values, count in expected_rows(plain, pair, pairs_by_loop(plain, pair)).items():
                expected[*values, f"v{version}"] += count
        assert_same(counted(self._output), expected)

    def _met(self, arrived: Arrived, key: int | None) -> int:
        """The version that decides about a row."""
        if key is None:
            return arrived.newest  # It meets nothing, and is reported at once.
        version = self._read_for(arrived.newest)
        while self.case.deadline is not None and key not in self._keys[version]:
            following = self._read_for(version + 1)
            if following >= len(self._versions):
                break
            if self._came[following] >= arrived.time + self.case.deadline:
                break
            version = following
        return version

    def _read_for(self, version: int) -> int:
        """This version, or the one that came instead of it."""
        while version in self._replaced:
            version = self._replaced[version]
        return version

    def _close(self) -> None:
        self.join.close()
        self.join.close()
        assert not self._spill.path.exists(), "closed, and its directory is still there"
        assert not self.memory.used, self.memory.by_purpose()


def check_cache(join: SemiStreamJoin) -> None:
    """No value is cached with some of its rows missing: every entry has all master rows of its
    code, and a negative entry's code is in no block."""
    cache, master = join.workspace.memory.cache, join.workspace.master
    if not len(cache):
        return
    assert len(join.versions) == 1, "cached, and another version is the newest"
    codes, rows = np.empty(0, np.uint64), []
    if len(master):
        read = master.read(0, len(master))
        codes, rows = read.codes, read.rows.to_pylist()
    cached = cache.rows.batch(np.arange(len(cache.rows))).to_pylist()
    assert len(np.unique(cache.codes)) == len(cache), "two entries of one code"
    assert cache.has(cache.codes.copy()).all(), "an entry that is not found"
    start = 0
    for code, count in zip(cache.codes, cache.counts, strict=True):
        mine = [repr(rows[n]) for n in np.flatnonzero(codes == code)]
        assert sorted(map(repr, cached[start : start + count])) == sorted(mine), "rows are missing"
        start += int(count)
    assert start == len(cached)
    assert cache.negative == np.count_nonzero(cache.counts == 0)


def lay_down(
    schema: JoinSchema, batches: list[pa.RecordBatch], path: Path, *, version: str, block_bytes: int
) -> None:
    """Lay rows down in blocks of about so many bytes, which may be smaller than sensible."""
    scratch = SpillArea(path.parent)
    with mock.patch.object(laying, "_FEWEST_BYTES", block_bytes):
        laying.lay_down(
            batches, laying.encoder(schema), schema=schema.stored(Side.RIGHT), target=path,
            scratch=scratch, memory=48 * block_bytes, version=version,
        )  # fmt: skip
    scratch.close()


def play(case: Enrichment) -> SemiStreamJoin:
    """Play a case in a directory of its own; the join, closed, for its metrics."""
    with tempfile.TemporaryDirectory(prefix="watersmeet-case-") as directory:
        return Player(case, Path(directory)).play()
