"""Marker rows in the result of a join of streams, through the host without Spark."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.test_planted_bugs import Bug
from tests.spark.streams.promised import Cluster, Row, Rows, close, make_plan, moment
from tests.spark.streams.test_host import Failure, fail_somewhere
from tests.spark.streams.test_promises_host import WATERMARKS, by_duckdb, is_due
from watersmeet.errors import InvalidArgument, StateError
from watersmeet.model import Side
from watersmeet.promises.kinds import PromiseOfValues, punctuated
from watersmeet.promises.passing import Passing
from watersmeet.spark.routing import HashRouter
from watersmeet.spark.streams.passed_on import PassedOn
from watersmeet.testing.oracle import assert_same

L, R = Side
KEYS = (punctuated("left", "a < 0", {"k": "equal"}), punctuated("right", "b < 0", {"k": "equal"}))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close()


class Routed(Cluster):
    """Rows go where Spark would send them."""

    @cached_property
    def _router(self) -> HashRouter:
        return HashRouter.of(self.plan.join, instances=self.plan.instances)

    def place(self, key: int | None) -> int:
        rows = pa.record_batch({"k": pa.array([key or 0], pa.int64())})
        return int(self._router.assign(L, rows)[0])


def cluster(
    path: Path, patch: pytest.MonkeyPatch, *promises: PromiseOfValues, **changes: Any
) -> Routed:
    settings = {"punctuations": "is_marker", "how": "inner"} | changes
    return Routed(make_plan(path, promises, **settings), patch)


def split(rows: Rows) -> tuple[Rows, Rows]:
    """Rows of the result, and marker rows, without the last column."""
    parts: tuple[Rows, Rows] = (Counter(), Counter())
    for row, count in rows.items():
        parts[bool(row[-1])][row[:-1]] += count
    return parts


def test_a_key_is_told_by_its_instance_and_a_time_when_all_have_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = cluster(tmp_path, monkeypatch, *WATERMARKS, *KEYS)
    keys = [next(k for k in range(100) if join.place(k) == each) for each in range(2)]
    first, second = keys
    rows, markers = split(join.run(join.rows(L, (first, 100, 1)), join.rows(R, (first, 101, 2))))
    assert sum(rows.values()) == 1
    assert not markers
    # As markers with a list of keys do, these go to all instances.
    kinds = [join.plan.wire.tags.marker(number) for number in range(2)]
    batch = [
        [join.wire_batch(place, kind, [(first, None, -1)])] for place in range(2) for kind in kinds
    ]
    rows, markers = split(join.run(*batch))
    assert not rows
    assert markers == {(first, None, None, None, None): 1}
    assert split(join.again(*batch)) == (rows, markers)
    # All have heard of times 100 and 101 by now, less ten seconds, and noted how far they are.
    markers = split(join.run(join.rows(L, (second, 130, 3)), join.rows(R, (second, 200, 4))))[1]
    told = {(row[1], row[3]) for row in markers}
    assert told == {(moment(90) - STEP, None), (None, moment(91) - STEP)}
    markers = Counter()
    while is_due(join):
        markers += split(join.run())[1]
    told = {(row[1], row[3]) for row in markers}
    # The left row of 130 has gone. The right one waits for times up to 205.
    assert told == {(moment(120) - STEP, None), (None, moment(190) - STEP)}


STEP = timedelta(microseconds=1)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 14))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_row_comes_after_its_marker_and_each_comes_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(seed, tmp_path, monkeypatch)


def play(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times pass, keys come and are over; attempts fail anywhere and are made again."""
    chance = random.Random(seed)
    how = chance.choice(["left", "full", "anti", "semi", "inner"])
    count = chance.choice([1, 2, 3])
    memory = chance.choice([2**15, 2**20])
    join = cluster(
        tmp_path, monkeypatch, *WATERMARKS, *KEYS, how=how, memory=memory, instances=count
    )
    sides: tuple[list[Row], list[Row]] = ([], [])
    found: Rows = Counter()
    told: Rows = Counter()
    over: tuple[set[int], set[int]] = (set(), set())
    for number in itertools.count():
        if number > 19 and not is_due(join):
            break
        assert number < 100
        arriving: list[pa.RecordBatch] = []
        for side in Side:
            for _ in range(chance.randrange(5) if number < 18 else 0):
                key = number // 2 + chance.randrange(4)
                if key not in over[side]:
                    row = (key, 4 * number - chance.randrange(11), len(sides[side]))
                    sides[side].append(row)
                    arriving += join.rows(side, row)
            if chance.random() < 0.5 or number == 18:
                for key in {chance.randrange(number // 2 + 2)} if number < 18 else range(20):
                    over[side].add(key)
                    arriving += join.marker(int(side), (key, None, -1))
        if number == 19:
            for side in Side:  # Times at which all rows before have been decided.
                sides[side].append((100 + int(side), 1000, -1))
                arriving += join.rows(side, sides[side][-1])
        join.batch += 1
        came: Rows = Counter()
        for instance in range(count):
            while chance.random() < 0.2:
                with contextlib.suppress(Failure), monkeypatch.context() as patched:
                    fail_somewhere(chance, patched)
                    join.attempt(instance, arriving)
            came += join.attempt(instance, chance.sample(arriving, len(arriving)))
        if chance.random() < 0.3:
            assert join.again(arriving) == came, "an attempt that comes late puts out the same"
        if chance.random() < 0.3:
            close()  # The next batch is restored from its version.
        rows, markers = split(came)
        for row in rows:
            said = [marker for marker in told if fits(marker, row)]
            assert not said, f"{row} came after {said}"
        found += rows
        told += markers
    assert set(told.values()) <= {1}, "each once"
    places = (2, 4) if join.plan.join.how.emits_pairs else (2,)
    numbers: Rows = Counter()
    for row, times in found.items():
        numbers[tuple(row[place] for place in places)] += times
    assert_same(numbers, by_duckdb(sides, how))
    due = over[L] & over[R] if how == "full" else over[L]
    assert {marker[0] for marker in told} >= due
    for place in (1, 3) if join.plan.join.how.emits_pairs else (1,):
        # The last rows wait; all times before them, less the delay, are past.
        assert max(marker[place] for marker in told if marker[place]) == moment(990) - STEP


def fits(marker: tuple[Any, ...], row: tuple[Any, ...]) -> bool:
    """Keys are equal; times are up to those of the marker."""
    if marker[0] is not None:
        return bool(row[0] == marker[0])
    pairs = [(row[place], marker[place]) for place in (1, 3) if place < len(row)]
    return all(mine is not None and mine <= last for mine, last in pairs if last is not None)


BUGS = {
    "a time is told when one instance has let go": Bug(
        "", (PassedOn, "_further"), "agreed = reduce(intersect, sets)", "agreed = sets[0]"
    ),
    "an instance tells keys of others": Bug(
        "", (PassedOn, "rows"), "markers = self._own(markers)", "pass"
    ),
    "what is held back is lost over a restart": Bug(
        "", (Passing, "load"), 'self._held = Promises.load(saved["held"])', "pass"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_these_tests_notice(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        play_all(tmp_path, monkeypatch)


def play_all(directory: Path, patch: pytest.MonkeyPatch) -> None:
    test_a_key_is_told_by_its_instance_and_a_time_when_all_have_let_go(directory, patch)
    close()
    for seed in range(14):
        play(seed, directory / str(seed), patch)


def test_what_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="name of a column of the result already"):
        _ = make_plan(tmp_path, WATERMARKS, punctuations="a").marked
    join = cluster(tmp_path, monkeypatch, *WATERMARKS)
    join.run(join.rows(L, (0, 100, 1)))
    close()
    other = Routed(make_plan(tmp_path, WATERMARKS, "inner"), monkeypatch)
    other.batch = 0
    with pytest.raises(StateError, match="punctuations"):
        other.run(other.rows(L, (0, 101, 1)))
