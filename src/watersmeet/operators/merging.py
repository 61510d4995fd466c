"""Joining runs with runs: one merging operation of progressive sort-merge join (RPJ 2.2, 5.2).

Runs of both sides are read together in order of hash. Each step takes all rows up to a hash that
every run has been read past, pairs them, and appends them to the merged run of their side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernels import matching
from watersmeet.model import Side
from watersmeet.operators.history import LAST_HASH, History
from watersmeet.rows.address import Index
from watersmeet.store.runs import Piece, Run, RunWriter, SpilledRun
from watersmeet.store.spill import IoKind, SpillArea
from watersmeet.store.table import PairBuffer


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


class _Cursor:
    """A place in a run. `piece` is the loaded rest of a block, None past the end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read = run.open(IoKind.MERGE_READ)
        self._number = 0
        self.piece: Piece | None = self._read(0) if run.block_count else None

    @property
    def more(self) -> bool:
        return self._number + 1 < self._run.block_count

    def refill(self) -> None:
        """Load on when what is left of a block is one hash, which may go on in the next block.

        Less than a block of it is an ordinary block boundary; more is a key so frequent that
        its rows are better not gathered in memory.
        """
        piece = self.piece
        if (
            piece is not None
            and self.more
            and len(piece) < self._run.block_rows(self._number)
            and piece.hashes[0] == piece.hashes[-1]
        ):
            self._number += 1
            following = self._read(self._number)
            self.piece = Piece.concat([piece, following], following.rows.schema)

    def take_below(self, bound: int | None) -> Piece | None:
        """Remove and return the loaded rows with a smaller hash, all of them without a bound."""
        piece = self.piece
        if piece is None:
            return None
        stop = len(piece) if bound is None else int(np.searchsorted(piece.hashes, np.uint64(bound)))
        if not stop:
            return None
        self._go_on(piece, stop)
        return piece.slice(0, stop)

    def equal_to(self, hash_: int) -> Iterator[Piece]:
        """All rows from here on with this hash, without moving. They may span many blocks."""
        piece, number = self.piece, self._number
        read: Callable[[int], Piece] | None = None
        while piece is not None:
            stop = int(np.searchsorted(piece.hashes, np.uint64(hash_), side="right"))
            if stop:
                yield piece.slice(0, stop)
            number += 1
            if stop < len(piece) or number >= self._run.block_count:
                return
            read = read or self._run.open(IoKind.MERGE_READ)
            piece = read(number)

    def skip_equal(self, hash_: int) -> Iterator[Piece]:
        """The same rows, moving past them."""
        while self.piece is not None:
            piece = self.piece
            stop = int(np.searchsorted(piece.hashes, np.uint64(hash_), side="right"))
            if stop:
                yield piece.slice(0, stop)
            self._go_on(piece, stop)
            if stop < len(piece):
                return

    def _go_on(self, piece: Piece, stop: int) -> None:
        if stop < len(piece):
            self.piece = piece.slice(stop, len(piece))
        elif self.more:
            self._number += 1
            self.piece = self._read(self._number)
        else:
            self.piece = None


class _Output:
    """The merged run of one side, written in whole blocks."""

    def __init__(self, area: SpillArea, schema: pa.Schema, *, block_rows: int) -> None:
        self._writer = RunWriter(area, schema, IoKind.MERGE_WRITE)
        self._schema = schema
        self._block_rows = block_rows
        self._waiting: list[Piece] = []
        self._rows = 0

    def append(self, piece: Piece) -> None:
        self._waiting.append(piece)
        self._rows += len(piece)
        if self._rows >= self._block_rows:
            self._write()

    def _write(self) -> None:
        piece = Piece.concat(self._waiting, self._schema)
        for start in range(0, len(piece), self._block_rows):
            self._writer.append(piece.slice(start, min(start + self._block_rows, len(piece))))
        self._waiting, self._rows = [], 0

    def finish(self) -> SpilledRun:
        self._write()
        return self._writer.finish()

    def abandon(self) -> None:
        self._writer.abandon()


class Merging:
    """One merging operation over some runs of each side.

    Every pair with a hash below `position` has been yielded; `substeps` counts the block pairs
    done of the single hash at `position` when its rows are too many for one step. Input runs stay
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
        position: int = 0,
        substeps: int = 0,
        output: tuple[SpillArea, int] | None = None,
    ) -> None:
        self.runs = runs
        self.done = False
        self.position = position
        self.substeps = 0
        self._schemas = schemas
        self._history = history
        self._pairs = pairs
        self._skip = substeps
        self._from = position
        self._cursors = tuple([_Cursor(run) for run in side] for side in runs)
        self._hot: Iterator[Iterator[Found | Passed]] | None = None
        # A side of one run is merged already and stays the run it is.
        self._outputs = [
            _Output(output[0], schema, block_rows=output[1]) if output and len(side) > 1 else None
            for side, schema in zip(runs, schemas, strict=True)
        ]

    def step(self) -> Iterator[Found | Passed]:
        """Do a bounded piece of the operation."""
        if self._hot is not None:
            substep = next(self._hot, None)
            if substep is None:
                self._hot = None
            else:
                yield from substep
            return
        every = [cursor for cursors in self._cursors for cursor in cursors if cursor.piece]
        for cursor in every:
            cursor.refill()
        # Rows of a run's loaded block may go on in the next one; below its last hash they do not.
        bound = min(
            (int(cursor.piece.hashes[-1]) for cursor in every if cursor.more and cursor.piece),
            default=None,
        )
        taken = [
            [piece for cursor in cursors if (piece := cursor.take_below(bound)) is not None]
            for cursors in self._cursors
        ]
        if any(taken):
            yield from self._join(*map(self._sorted, Side, taken))
            self.position = max(self.position, LAST_HASH if bound is None else bound)
        if bound is None:
            self.done = True
        elif not any(taken):
            self._hot = self._one_hash(bound)

    def finish(self) -> tuple[SpilledRun | None, SpilledRun | None]:
        """The merged runs; None for a side that was not written."""
        left, right = (output.finish() if output else None for output in self._outputs)
        return left, right

    def abandon(self) -> None:
        for output in self._outputs:
            if output:
                output.abandon()

    def _sorted(self, side: Side, pieces: list[Piece]) -> Piece:
        piece = Piece.concat(pieces, self._schemas[side])
        if len(pieces) > 1:
            piece = piece.take(np.argsort(piece.hashes, kind="stable"))
        return piece

    def _join(self, left: Piece, right: Piece) -> Iterator[Found | Passed]:
        yield from self._pair(left, right)
        for side, piece in zip(Side, (left, right), strict=True):
            yield from self._pass(side, piece)

    def _pass(self, side: Side, piece: Piece) -> Iterator[Passed]:
        if len(piece):
            yield Passed(side, piece)
            output = self._outputs[side]
            if output:
                output.append(piece)

    def _pair(self, left: Piece, right: Piece) -> Iterator[Found]:
        lowest = np.uint64(self._from)
        i = int(np.searchsorted(left.hashes, lowest)) if self._from else 0
        group = j = int(np.searchsorted(right.hashes, lowest)) if self._from else 0
        pairs = self._pairs
        while i < len(left) and len(right):
            found, i, group, j = matching.merge(
                left.hashes, left.ats, left.dts, right.hashes, right.ats, right.dts,
                *self._history.arrays(), i, group, j, pairs.first, pairs.second,
            )  # fmt: skip
            if found:
                yield Found(left, right, pairs.first[:found], pairs.second[:found])

    def _one_hash(self, hash_: int) -> Iterator[Iterator[Found | Passed]]:
        """Block by block nested loop for a hash whose rows fill more than a step may hold."""
        self.substeps = 0
        skip = self._skip if hash_ == self._from else 0
        if hash_ >= self._from:
            for left in self._equal(Side.LEFT, hash_):
                for right in self._equal(Side.RIGHT, hash_):
                    self.substeps += 1
                    if self.substeps > skip:
                        yield self._pair(left, right)
        for side in Side:
            for cursor in self._cursors[side]:
                for piece in cursor.skip_equal(hash_):
                    yield self._pass(side, piece)
        self.position = max(self.position, hash_ + 1)
        self.substeps = 0

    def _equal(self, side: Side, hash_: int) -> Iterator[Piece]:
        for cursor in self._cursors[side]:
            yield from cursor.equal_to(hash_)
