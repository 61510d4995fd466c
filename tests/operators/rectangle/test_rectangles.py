"""What is reported is at any time what the completed rectangles hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.operators.rectangle.running import Watched
from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.rectangle.algorithm import RECTANGLE
from watersmeet.operators.rectangle.progress import Rectangles
from watersmeet.operators.tuning import Invocation, Tuning
from watersmeet.rows.address import Matches

TUNING = Tuning(partitions=4, memory_rows=120, remaps=False)
RNG = np.random.default_rng(7)
KEYS = (RNG.integers(0, 60, 900), RNG.integers(0, 60, 700))

Pairs = set[tuple[int, int]]


def pairs_of(watched: Watched, matches: Matches) -> Pairs:
    left, right = watched.join.numbers(matches)
    rows = watched.schema.materialise(matches)
    assert rows.column("left").to_pylist() == left.tolist()
    assert rows.column("right").to_pylist() == right.tolist()
    return set(zip(left.tolist(), right.tolist(), strict=True))


def inside(rectangles: Rectangles, partition: dict[int, int]) -> Pairs:
    """All pairs that completed rectangles hold, by looking at every pair."""
    left = np.arange(len(KEYS[0]))[:, None]
    right = np.arange(len(KEYS[1]))[None, :]
    p = np.array([partition[key] for key in KEYS[0].tolist()])[:, None]
    p %= rectangles.seen.shape[1]  # Ripple has one
    held = (left < rectangles.seen[0][p]) & (right < rectangles.seen[1][p])
    start = 0
    for stop, low, high in rectangles.strips:
        held |= (left >= start) & (left < stop) & (right >= low) & (right < high)
        start = stop
    held &= KEYS[0][:, None] == KEYS[1][None, :]
    return set(zip(*(axis.tolist() for axis in np.nonzero(held)), strict=True))


def partition_of_keys(directory: Path) -> dict[int, int]:
    """By asking a join for the partitions of its results."""
    watched = Watched("pr-join", directory, TUNING)
    found: dict[int, int] = {}
    every = (np.arange(60), np.arange(60))
    for matches in (m for push in watched.pushes(every, each=60) for m in push):
        keys = watched.schema.materialise(matches).column("key").to_pylist()
        found.update(zip(keys, watched.join.partitions(matches).tolist(), strict=True))
    watched.join.close()
    return found


@pytest.mark.parametrize("name", RECTANGLE)
def test_results_are_those_of_completed_rectangles(name: str, tmp_path: Path) -> None:
    watched = Watched(name, tmp_path, replace(TUNING, invocation=Invocation(gamma=0.3)))
    partition = partition_of_keys(tmp_path)
    assert len(set(partition.values())) == 4
    reported, completed, checks = Pairs(), 0, 0

    def check() -> None:
        nonlocal completed, checks
        rectangles = watched.join.rectangles
        if rectangles.completed > completed or not checks:
            assert reported == inside(rectangles, partition)
            completed, checks = rectangles.completed, checks + 1

    for push in watched.pushes(KEYS, each=30):
        for matches in push:
            found = pairs_of(watched, matches)
            assert not found & reported
            reported |= found
        check()
    for matches in watched.finish():
        reported |= pairs_of(watched, matches)
    rectangles = watched.join.rectangles
    assert rectangles.completed > completed
    assert checks > (0 if name == "grace" else 5)
    assert (rectangles.joined == rectangles.arrived).all()
    assert rectangles.arrived.sum(axis=1).tolist() == [900, 700]
    assert (rectangles.seen.T == [900, 700]).all()
    assert reported == inside(rectangles, partition)
    watched.join.close()


def test_a_rectangle_is_complete_before_results_of_the_next_one_come(tmp_path: Path) -> None:
    """So whoever counts can change an estimate between two results, not only between pushes."""
    watched = Watched("pr-join", tmp_path, replace(TUNING, chunk_rows=20))
    partition = partition_of_keys(tmp_path)
    reported, completed, steps = Pairs(), 0, 0
    for side, start in ((s, n) for n in range(0, 600, 300) for s in Side):
        keys = KEYS[side][start : start + 300]
        rows = pa.record_batch(
            {"key": keys, side.name.lower(): np.arange(start, start + len(keys))}
        )
        for matches in watched.join.push(side, rows):
            now = watched.join.rectangles
            if now.completed > completed:
                assert reported == inside(now, partition)
                completed, steps = now.completed, steps + 1
            reported |= pairs_of(watched, matches)
    assert steps > 5
    watched.join.close()


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_numbers_count_rows_without_a_key_too(how: str, tmp_path: Path) -> None:
    watched = Watched("pr-join", tmp_path, replace(TUNING, memory_rows=20), how=how)
    sides = [[n % 7 if n % 3 else None for n in range(size)] for size in (80, 60)]
    sides[0][40] = 99
    seen = 0
    keys = tuple(np.array(side, object) for side in sides)
    pushes = watched.pushes(keys, each=9)  # type: ignore[arg-type]
    for matches in chain(chain.from_iterable(pushes), watched.finish()):
        rows = watched.schema.materialise(matches)
        for name, numbers in zip(("left", "right"), watched.join.numbers(matches), strict=True):
            if name in rows.schema.names and len(numbers):
                assert rows.column(name).to_pylist() == numbers.tolist()
                seen += len(numbers)
        if matches.left is not None and matches.right is not None:
            assert len(watched.join.partitions(matches)) == len(matches)
    assert seen
    assert watched.join.metrics.rows_spilled
    watched.join.close()


@pytest.mark.parametrize(
    ("tuning", "words"),
    [
        (Tuning(invocation=Invocation(gamma=0)), "gamma=0"),
        (Tuning(invocation=Invocation(not_before=0.1)), "expected_rows"),
    ],
)
def test_an_invocation_that_cannot_be_is_refused(
    tuning: Tuning, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Watched("pr-join", tmp_path, tuning)
