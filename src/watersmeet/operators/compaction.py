"""Merges runs into fewer and larger ones, for joins that go on for ever and are seldom idle.

Every flush writes new runs, and reactive tasks merge runs only while the inputs are silent. Here
the runs of one side are merged with each other: nothing is joined, rows keep their stamps, and only
neighbours are merged, so that the lists of who has met whom stay right. As in a log-structured
merge tree (O'Neil et al., Acta Informatica 1996), runs of one generation are merged into one of the
next: a row is written once more for each generation, and the number of generations grows with the
logarithm of the number of flushes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from watersmeet.operators.saved import Runs
from watersmeet.operators.workspace import Workspace
from watersmeet.store.runs import Piece, RunWriter, SpilledRun, arrived, spans_of
from watersmeet.store.spill import IoKind

_RUNS_OF_A_GENERATION = 8
# As many runs as a dd-task reads at once, of both sides together.
_MERGED_AT_ONCE = 16

Merged = Callable[..., Iterator[Piece]]
"""How rows of several runs become one run: `merged_by_code` (store/merging.py), or `end_to_end` as
they arrived."""


def compact(
    workspace: Workspace, partitions: Sequence[Runs], merged: Merged, *, busy: int | None = None
) -> set[int]:
    """Merge generations that have too many runs; returns the partitions whose runs have changed.

    `busy` is a partition whose runs must stay as they are, because a task is working on them.
    """
    changed = set[int]()
    for input in range(len(workspace.memory.tables)):
        while (generation := _full(partitions, input, busy)) is not None:
            changed |= _merge(workspace, partitions, merged, input, generation, busy)
    return changed


def _full(partitions: Sequence[Runs], input: int, busy: int | None) -> int | None:
    """The youngest generation that has too many runs in some partition."""
    full = []
    for p, partition in enumerate(partitions):
        runs = partition[input]
        if p != busy and len(runs) >= _RUNS_OF_A_GENERATION:
            numbers = np.array([run.generation for run in runs])
            for generation in np.unique(numbers).tolist():
                newest = numbers[len(numbers) - _newest(runs, generation) :]
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


def _merge(
    workspace: Workspace,
    partitions: Sequence[Runs],
    merged: Merged,
    input: int,
    generation: int,
    busy: int | None,
) -> set[int]:
    """In every partition, merge all runs of this generation and of younger ones. All partitions at
    once, because a flush writes the runs of many partitions into one file, which can be removed
    only when all of them have been merged."""
    rows = workspace.memory.block_rows(input, workspace.block_bytes)
    schema = workspace.memory.tables[input].schema
    writer = RunWriter(workspace.spill, schema, IoKind.MERGE_WRITE, block_rows=rows)
    gone: list[SpilledRun] = []
    changed = set[int]()
    for p, partition in enumerate(partitions):
        runs = partition[input]
        count = _newest(runs, generation)
        if p == busy or not count:
            continue
        together = []
        for start in range(len(runs) - count, len(runs), _MERGED_AT_ONCE):
            some = runs[start : start + _MERGED_AT_ONCE]
            for piece in merged(some, ahead=rows):
                writer.append(piece)
            departed = (min(run.departed[0] for run in some), max(run.departed[1] for run in some))
            together.append(writer.cut(departed, arrived=arrived(some), generation=generation + 1))
            together[-1].spans = spans_of(some)
        gone += runs[len(runs) - count :]
        runs[len(runs) - count :] = together
        changed.add(p)
    writer.close()
    for run in gone:
        run.remove()
    return changed


def end_to_end(runs: Sequence[SpilledRun], *, ahead: int) -> Iterator[Piece]:
    """The rows of all runs one after the other, in pieces of at least `ahead` rows."""
    waiting: list[Piece] = []
    for run in runs:
        read = run.open(IoKind.MERGE_READ)
        for number in range(run.block_count):
            waiting.append(read(number))
            if sum(map(len, waiting)) >= ahead:
                yield Piece.concat(waiting, run.schema)
                waiting = []
    if waiting:
        yield Piece.concat(waiting, runs[0].schema)
