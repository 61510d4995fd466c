"""Joining runs with runs: one merging operation of progressive sort-merge join (RPJ 2.2, 5.2).

Runs of both sides are read together in order of code. Each step takes all rows up to a code that
every run has been read past, pairs them, and appends them to the merged run of their side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.met import presence_of
from watersmeet.operators.progressive.history import LAST_CODE, History
from watersmeet.rows.address import Index
from watersmeet.store.cursor import Cursor
from watersmeet.store.index import HashIndex, PairBuffer
from watersmeet.store.runs import Piece, Run, RunWriter, SpilledRun, arrived, spans_of
from watersmeet.store.spill import IoKind, SpillArea


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs that have not met before, as positions in two pieces."""

    left: Piece
    right: Piece
    left_index: Index
    right_index: Index


@dataclass(frozen=True, slots=True)
class Passed:
    """Rows that have now met every row of the other side's runs."""

    side: Side
    piece: Piece


class _Output:
    """The merged run of one side, written in whole blocks."""

    def __init__(self, writer: RunWriter, runs: Sequence[Run], schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema
        self._departed = (runs[0].departed[0], runs[-1].departed[1])
        self._arrived = arrived(runs)
        self._spans = spans_of(runs)
        self._generation = 1 + max(run.generation for run in runs)
        self._waiting: list[Piece] = []
        self._rows = 0

    def append(self, piece: Piece) -> None:
        self._waiting.append(piece)
        self._rows += len(piece)
        if self._rows >= self._writer.block_rows:
            self._write()

    def _write(self) -> None:
        self._writer.append(Piece.concat(self._waiting, self._schema))
        self._waiting, self._rows = [], 0

    def finish(self) -> SpilledRun:
        self._write()
        run = self._writer.cut(self._departed, arrived=self._arrived, generation=self._generation)
        self._writer.close()
        run.spans = self._spans
        return run

    def abandon(self) -> None:
        self._writer.abandon()


class Merging:
    """One merging operation over some runs of each side.

    Every pair with a code below `position` has been yielded; `substeps` counts the block pairs
    done of the single code at `position` when its rows are too many for one step. Input runs stay
    untouched until the operation is complete, so it can be dropped and begun again from these
    two numbers.
    """

    def __init__(
        self,
        runs: tuple[Sequence[Run], Sequence[Run]],
        schemas: tuple[pa.Schema, pa.Schema],
        *,
        history: History,
        pairs: PairBuffer,
        ahead: int,
        position: int = 0,
        substeps: int = 0,
        output: tuple[SpillArea, int] | None = None,
    ) -> None:
        """`ahead` rows of each run are loaded at a time, of longer runs more and of shorter ones
        fewer; `output` is where merged runs go, in blocks of so many rows."""
        self.runs = runs
        self.done = False
        self.position = position
        self.substeps = substeps
        self._schemas = schemas
        self._history = history
        self._pairs = pairs
        self._from = position
        self._read_up_to = 0
        rows = sum(run.rows for run in chain(*runs))
        # Codes are spread evenly over all runs, so those that have loaded the same fraction of
        # their rows have loaded codes up to about the same. A step goes no further than the run
        # that has loaded least: with as many rows of each it was the longest, and there were
        # several times as many steps.
        most = ahead * sum(map(len, runs))
        self._cursors = tuple(
            [Cursor(run, ahead=max(most * run.rows // max(rows, 1), 1)) for run in side]
            for side in runs
        )
        self._unopened = iter([c for c in chain(*self._cursors) if c.unopened])
        self._hot: Iterator[Iterator[Found | Passed]] | None = None
        # A side of one run is merged already and stays the run it is.
        self._outputs: list[_Output | None] = [None, None]
        for side in Side:
            if output is not None and len(runs[side]) > 1:
                area, rows = output
                kind = IoKind.MERGE_WRITE
                writer = RunWriter(area, schemas[side], kind, block_rows=rows)
                self._outputs[side] = _Output(writer, runs[side], schemas[side])

    @property
    def catching_up(self) -> bool:
        """Whether it was begun again and is not yet where it had been. Interrupted before that, it
        would have got nowhere, however often it is begun."""
        return self._read_up_to < self._from and not self.done

    def step(self) -> Iterator[Found | Passed]:
        """Do a bounded piece of the operation."""
        if self._hot is not None:
            substep = next(self._hot, None)
            if substep is None:
                self._hot = None
            else:
                yield from substep
            return
        unopened = next(self._unopened, None)
        if unopened is not None:
            unopened.load()  # one at a time, so that beginning can be interrupted too
            return
        for cursor in chain(*self._cursors):
            cursor.load()
        bounds = [
            bound for cursor in chain(*self._cursors) if (bound := cursor.bound()) is not None
        ]
        bound = min(bounds, default=None)
        taken = [
            list(chain.from_iterable(cursor.take_below(bound) for cursor in cursors))
            for cursors in self._cursors
        ]
        if any(taken):
            left, right = map(Piece.concat, taken, self._schemas)
            yield from self._pair(left, right)
            for side, piece in zip(Side, (left, right), strict=True):
                yield from self._pass(side, piece)
            self._read_up_to = LAST_CODE + 1 if bound is None else bound
            self._advance(LAST_CODE if bound is None else bound)
        if bound is None:
            self.done = True
        elif not any(taken):
            self._hot = self._one_code(bound)

    def finish(self) -> tuple[SpilledRun | None, SpilledRun | None]:
        """The merged runs; None for a side that was not written."""
        left, right = (output.finish() if output else None for output in self._outputs)
        return left, right

    def abandon(self) -> None:
        for output in self._outputs:
            if output:
                output.abandon()

    def _pass(self, side: Side, piece: Piece) -> Iterator[Passed]:
        if len(piece):
            yield Passed(side, piece)
            output = self._outputs[side]
            if output:
                output.append(piece.by_code())

    def _pair(self, left: Piece, right: Piece) -> Iterator[Found]:
        if self._from:
            left, right = (_from(piece, self._from) for piece in (left, right))
        if not len(left) or not len(right):
            return
        # Sorted lists could be merged instead. An index over one of them, small enough to stay in
        # the processor's cache, finds the same pairs in a third of the time it takes to sort both.
        index = HashIndex.over(left.codes)
        for mine, theirs in index.find(right.codes, self._pairs):
            kept = self._history.keep_new(presence_of(left), presence_of(right), (mine, theirs))
            if kept:
                yield Found(left, right, mine[:kept], theirs[:kept])

    def _one_code(self, code: int) -> Iterator[Iterator[Found | Passed]]:
        """Block by block nested loop for a code whose rows fill more than a step may hold."""
        self._read_up_to = code
        self._advance(code)
        if code == self.position:
            number = 0
            for left in self._equal(Side.LEFT, code):
                for right in self._equal(Side.RIGHT, code):
                    number += 1
                    if number > self.substeps:
                        self.substeps = number
                        yield self._pair(left, right)
        for side in Side:
            for cursor in self._cursors[side]:
                for piece in cursor.skip_equal(code):
                    yield self._pass(side, piece)
        self._read_up_to = code + 1
        self._advance(code + 1)

    def _advance(self, position: int) -> None:
        if position > self.position:
            self.position, self.substeps = position, 0

    def _equal(self, side: Side, code: int) -> Iterator[Piece]:
        for cursor in self._cursors[side]:
            yield from cursor.equal_to(code)


def _from(piece: Piece, code: int) -> Piece:
    if code > LAST_CODE:
        return piece.slice(0, 0)
    return piece.take(np.flatnonzero(piece.codes >= np.uint64(code)))
