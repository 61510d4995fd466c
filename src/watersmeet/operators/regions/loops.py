"""The reactive phase (DINER 3.4): a nested loop over spilled blocks that can be left at any time.

Each input has its blocks in the order in which they were written, and `joined` says how many of
them, from the first, are done: **the first joined[0] blocks of one input and the first joined[1] of
the other have all been joined with each other.** A round makes one of these numbers larger. In it
the *outer* input's blocks that are not done are joined with the *inner* input's blocks that are:

    for each load of outer blocks that fits memory:
        for each inner block:                       the runtime is asked here whether rows wait
            join the two, without the pairs that have met

Then the roles change: blocks that were written meanwhile become outer ones. If no block of the
outer input is done yet, all inner blocks take part at once.

A pair of rows has met in memory exactly if the stays of the two overlap (their arrival and
departure stamps say so). No pair of blocks is joined twice, since a round joins only blocks that
are not done with blocks that are. So every pair of rows on disk is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.emitter import in_order
from watersmeet.operators.regions.workspace import RegionWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches
from watersmeet.store.runs import Piece
from watersmeet.store.sorted_index import Classes, SortedIndex

Pause = Callable[[], bool]

# Of the memory for blocks, outer and inner ones take these shares. The rest is for the index.
_OUTER_SHARE, _INNER_SHARE = 1 / 2, 1 / 4
_MOST_TOGETHER = 64


@dataclass
class Round:
    """How far a round has come: of the outer blocks in their order, `done` have met all inner
    blocks."""

    outer: int
    until: int
    """The outer blocks that take part are those from joined[outer] to until."""
    done: int = 0
    begun: list[list[int]] = field(default_factory=list)
    """Those that follow: [how many, CurrInner], where CurrInner is the inner block that is next. It
    is one entry, or more if a load that was begun does not fit memory any more."""


class NestedLoop:
    """ReactiveNL, re-entrant after every inner block (Algorithm 4)."""

    def __init__(self, workspace: RegionWorkspace) -> None:
        self._workspace = workspace
        self.joined = [0, 0]
        self.round: Round | None = None
        self._order: Index | None = None
        self._loaded = 0
        self._most_outer: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether all blocks on disk have been joined with each other."""
        sizes = [len(blocks) for blocks in self._workspace.blocks]
        return not all(sizes) or self.joined == sizes

    def untouched_from(self, side: Side) -> int:
        """The first block of an input that no round so far has to do with."""
        if self.round is not None and self.round.outer == side:
            return max(self.joined[side], self.round.until)
        return self.joined[side]

    def run(self, pause: Pause, stage: Stage, *, loaded: int) -> Iterator[Matches]:
        """Join blocks until all are done or `pause()` says to stop, with at most `loaded` bytes of
        them in memory at a time."""
        self._loaded = loaded
        # Clean-up has all the memory there is (DINER 3.5).
        stalled = stage is Stage.DD
        self._most_outer = self._workspace.tuning.outer_blocks if stalled else None
        stopped = False
        while not (stopped or self.is_done):
            if self.round is None:
                self._begin()
            assert self.round is not None
            order = self._outer_blocks()
            while self.round.done < len(order) and not stopped:
                self._next_load(order)
                stopped = yield from self._join_load(order, pause, stage)
            if self.round.done == len(order):
                self._finish_round()

    # ---- rounds ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        blocks = self._workspace.blocks
        if not all(self.joined):
            # Nothing is done: the smaller input is the outer one, and all of the other takes part.
            outer = min(Side, key=lambda side: len(blocks[side]))
            self.joined[outer], self.joined[outer.other] = 0, len(blocks[outer.other])
        else:
            outer = max(Side, key=lambda side: len(blocks[side]) - self.joined[side])
        self.round = Round(outer, len(blocks[outer]))
        assert self.joined[outer] < self.round.until, "a round without a block to join"
        self._order = None

    def _finish_round(self) -> None:
        assert self.round is not None
        self.joined[self.round.outer] = self.round.until
        self.round, self._order = None, None

    def _outer_blocks(self) -> Index:
        """The outer blocks of the round, in the order in which they are joined.

        Blocks of neighbouring places together need few inner blocks.
        """
        assert self.round is not None
        if self._order is None:
            outer = self.round.outer
            numbers = np.arange(self.joined[outer], self.round.until)
            if self._workspace.algorithm.skips:
                first = self._workspace.blocks[outer].ranges.first[numbers]
                places = self._workspace.edge.order.places(first)
                numbers = numbers[np.argsort(places, kind="stable")]
            self._order = numbers
        return self._order

    def _next_load(self, order: Index) -> None:
        """Have the next load as the first that is begun: as many outer blocks as fit memory
        (MaxOuterMem). One that was begun before is cut in two if it does not fit."""
        assert self.round is not None
        round = self.round
        blocks = order[round.done :]
        fits = self._fitting(Side(round.outer), blocks, _OUTER_SHARE * self._loaded)
        fits = min(fits, self._most_outer or fits)
        if not round.begun:
            round.begun.append([fits, 0])
        count, current = round.begun[0]
        if count > fits:
            round.begun[:1] = [[fits, current], [count - fits, current]]

    def _fitting(self, side: Side, numbers: Index, nbytes: float) -> int:
        """How many of these blocks, from the first, take so many bytes; at least one."""
        sizes = np.cumsum(self._workspace.blocks[side].ranges.nbytes[numbers])
        return max(int(np.searchsorted(sizes, nbytes, side="right")), 1)

    # ---- one load of outer blocks --------------------------------------------------------------

    def _join_load(
        self, order: Index, pause: Pause, stage: Stage
    ) -> Generator[Matches, None, bool]:
        """Join the first load that is begun with the inner blocks that are left for it; returns
        whether `pause` has said to stop."""
        assert self.round is not None
        round = self.round
        outer, load = Side(round.outer), round.begun[0]
        numbers = order[round.done : round.done + load[0]]
        inner = self._inner_blocks(numbers, load[1])
        stopped = False
        if len(inner):
            there = Load.of(self._read(outer, numbers), self._workspace.edge.order.classes)
        while len(inner) and not stopped:
            together = self._together(outer.other, inner)
            self._workspace.metrics.blocks_joined += together
            yield from self._join_blocks(there, self._read(outer.other, inner[:together]), stage)
            load[1] = int(inner[together - 1]) + 1
            inner = inner[together:]
            stopped = pause()
        if not len(inner):
            round.done += load[0]
            del round.begun[0]
        return stopped

    def _together(self, side: Side, inner: Index) -> int:
        """How many inner blocks are joined at a time: the paper's loop takes one. Several take
        little longer than one, if they are short."""
        if not self._workspace.algorithm.skips:
            return 1
        return self._fitting(side, inner[:_MOST_TOGETHER], _INNER_SHARE * self._loaded)

    def _read(self, side: Side, numbers: Index) -> Piece:
        """The rows of some blocks, end to end."""
        blocks = self._workspace.blocks[side]
        pieces = [blocks.read(int(number)) for number in numbers]
        return Piece.concat(pieces, self._workspace.schema.stored(side))

    def _inner_blocks(self, numbers: Index, current: int) -> Index:
        """The inner blocks from `current` on that are to be joined with these outer ones."""
        assert self.round is not None
        workspace, outer = self._workspace, Side(self.round.outer)
        inner = np.arange(current, self.joined[outer.other])
        if not workspace.algorithm.skips:
            return inner
        mine, others = workspace.blocks[outer].ranges, workspace.blocks[outer.other].ranges
        meets = workspace.edge.can_meet(
            outer,
            (mine.first[numbers], mine.last[numbers]),
            (others.first[inner], others.last[inner]),
        )
        if not current:
            workspace.metrics.blocks_skipped += int(np.count_nonzero(~meets))
        chosen: Index = inner[meets]
        return chosen

    def _join_blocks(self, load: Load, block: Piece, stage: Stage) -> Iterator[Matches]:
        """Report the pairs of an outer load and of inner blocks that have not met."""
        assert self.round is not None
        workspace = self._workspace
        outer = Side(self.round.outer)
        piece = load.piece
        sources = in_order(outer, piece.source, block.source)
        stamps = in_order(outer, piece.ats, block.ats)
        for found, asked in workspace.find(load.index, outer.other, block.codes):
            arrived = np.maximum(piece.ats[found], block.ats[asked])
            new = arrived >= np.minimum(piece.dts[found], block.dts[asked])
            if new.any():
                index = in_order(outer, found[new], asked[new])
                yield from workspace.emitter.pairs(sources, index, stamps, stage)

    # ---- saved state ----------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        round = None if self.round is None else asdict(self.round)
        return {"joined": list(self.joined), "round": round}

    def load(self, saved: dict[str, Any]) -> None:
        self.joined = list(saved["joined"])
        self.round = None if saved["round"] is None else Round(**saved["round"])
        self._order = None


@dataclass(frozen=True)
class Load:
    """Outer blocks that are in memory together, with an index over their codes."""

    piece: Piece
    index: SortedIndex

    @classmethod
    def of(cls, piece: Piece, classes: Classes) -> Load:
        index = SortedIndex(len(piece), classes)
        index.add(piece.codes)
        return cls(piece, index)
