"""Fewer and larger runs: for joins that go on for ever and are seldom idle.

Each flush leaves runs behind, and only idle time merges them. Here the runs of one side are merged
among themselves: nothing is joined, rows keep their stamps, and only neighbours come together, so
the history stays right (operators/history.py). Generations are merged as in a log-structured
merge tree (O'Neil et al., Acta Informatica 1996): a row is written again once for each, and their
number grows with the logarithm of the number of flushes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.merging import Cursor
from watersmeet.operators.parts import Parts
from watersmeet.store.runs import Piece, RunWriter, SpilledRun
from watersmeet.store.spill import IoKind

_RUNS_OF_A_GENERATION = 8
# As many as a dd-task reads at once, of both sides together.
_MERGED_AT_ONCE = 16


def compact(parts: Parts, *, busy: int | None) -> None:
    """Merge the runs of every generation that is full. `busy` is a partition whose runs must stay
    as they are, because a task is under way there."""
    for side in Side:
        while (generation := _full(parts, side, busy)) is not None:
            _merge(parts, side, generation, busy)


def _full(parts: Parts, side: Side, busy: int | None) -> int | None:
    """The youngest generation that has too many runs in some partition."""
    full = []
    for p, disk in enumerate(parts.disk.partitions):
        if p != busy and len(disk.runs[side]) >= _RUNS_OF_A_GENERATION:
            numbers = np.array([run.generation for run in disk.runs[side]])
            for generation in np.unique(numbers).tolist():
                newest = numbers[len(numbers) - _newest(disk.runs[side], generation) :]
                if np.count_nonzero(newest == generation) >= _RUNS_OF_A_GENERATION:
                    full.append(generation)
                    break
    return min(full, default=None)


def _newest(runs: Sequence[SpilledRun], generation: int) -> int:
    """How many runs at the end of the list are of this generation or younger."""
    for count, run in enumerate(reversed(runs)):
        if run.generation > generation:
            return count
    return len(runs)


def _merge(parts: Parts, side: Side, generation: int, busy: int | None) -> None:
    """Make one run of all that is young, in every partition at once: flushed files hold runs of
    many partitions, and go when the last of them does."""
    rows = parts.memory.block_rows(side, parts.block_bytes)
    schema = parts.memory.tables[side].schema
    writer = RunWriter(parts.spill, schema, IoKind.MERGE_WRITE, block_rows=rows)
    gone: list[SpilledRun] = []
    for p, disk in enumerate(parts.disk.partitions):
        runs = disk.runs[side]
        count = _newest(runs, generation)
        if p == busy or not count:
            continue
        merged = []
        for start in range(len(runs) - count, len(runs), _MERGED_AT_ONCE):
            some = runs[start : start + _MERGED_AT_ONCE]
            for piece in _in_order(some, ahead=rows):
                writer.append(piece)
            departed = (some[0].departed[0], some[-1].departed[1])
            latest = max(run.latest for run in some)
            merged.append(writer.cut(departed, latest=latest, generation=generation + 1))
        gone += runs[len(runs) - count :]
        runs[len(runs) - count :] = merged
        parts.disk.changed(p)
    writer.close()
    for run in gone:
        run.remove()


def _in_order(runs: Sequence[SpilledRun], *, ahead: int) -> Iterator[Piece]:
    """The rows of all runs in order of hash, `ahead` rows of each in memory at a time."""
    schema = runs[0].schema
    cursors = [Cursor(run, ahead=ahead) for run in runs]
    while True:
        for cursor in cursors:
            cursor.load()
        bound = min((b for c in cursors if (b := c.bound()) is not None), default=None)
        taken = [piece for cursor in cursors for piece in cursor.take_below(bound)]
        if taken:
            together = Piece.concat(taken, schema)
            yield together.take(np.argsort(together.hashes, kind="stable"))
        if bound is None:
            return
        if not taken:  # more rows of one hash than are loaded at a time
            for cursor in cursors:
                yield from cursor.skip_equal(bound)
