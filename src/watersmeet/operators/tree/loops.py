"""The reactive phase (MINER 4.2): a nested loop over the spilled blocks of all inputs.

Each input has its blocks in the order in which they were written, and `joined` says how many of
them, from the first, are done: **of the first joined[i] blocks of each input i, all combinations
have been joined.** A round makes one of these numbers larger: the *outer* input's blocks that are
not done are joined with the *inner* inputs' blocks that are.

What is left of a round is a list of boxes. A box has a range of blocks for each input, and stands
for all combinations of them; no two boxes of a round have one in common. The loop takes the last
box, cuts it so that its outer blocks and those of the inner inputs fit memory, and goes through the
blocks of the innermost input, which is the last of `inner`. After each of them the box is smaller
by that block. So the loop can be left there, or saved, and it goes on with the boxes that are left.

A combination of rows has met in memory exactly if the stays of all its rows share a point in time:
if the last of them had arrived before the first of them left. No combination of blocks is joined
twice. So every combination of rows on disk is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from watersmeet.operators.blocks import Ranges
from watersmeet.operators.stage import Stage
from watersmeet.operators.tree.combining import Combining
from watersmeet.operators.tree.loading import Loaded
from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.policies.probing import Step, probing_sequence
from watersmeet.rows.address import Index, Matches, Rows
from watersmeet.store.runs import Piece

Pause = Callable[[], bool]
Box = list[list[int]]
"""For each input, the first place and the one after the last, in the order of `Round.places`."""

# Of the memory for blocks, the innermost input takes this share, and the outer and the other inner
# ones together this one. The rest is for indexes.
_INNERMOST_SHARE, _OTHERS_SHARE = 1 / 4, 1 / 2
_MOST_TOGETHER = 64


@dataclass
class Round:
    """One outer input, the inner ones, each next to an earlier one, and what is left to join."""

    outer: int
    until: int
    """The outer blocks that take part are those from joined[outer] to until."""
    inner: list[int]
    boxes: list[Box] = field(default_factory=list)

    @property
    def innermost(self) -> int:
        return self.inner[-1]

    @property
    def loaded(self) -> list[int]:
        """The inputs of which blocks are kept in memory, while those of the innermost pass."""
        return [self.outer, *self.inner[:-1]]


class TreeLoop:
    """MINER's nested loop, re-entrant after every block of the innermost input."""

    def __init__(self, workspace: TreeWorkspace) -> None:
        self._workspace = workspace
        self._combining = Combining(workspace, measures=False)
        self.joined = [0 for _ in workspace.inputs]
        self.round: Round | None = None
        self._places: list[Index] = []
        self._bytes = 0
        self._most_outer: int | None = None
        self._loaded: dict[int, tuple[Box, Loaded]] = {}
        """The rows in memory of outer and inner inputs, and the ranges that they belong to."""

    @property
    def is_done(self) -> bool:
        """Whether all combinations of blocks on disk have been joined."""
        sizes = [len(blocks) for blocks in self._workspace.blocks]
        return not all(sizes) or self.joined == sizes

    def untouched_from(self, input: int) -> int:
        """The first block of an input that no round so far has to do with."""
        if self.round is not None and self.round.outer == input:
            return max(self.joined[input], self.round.until)
        return self.joined[input]

    def run(self, pause: Pause, stage: Stage, *, loaded: int) -> Iterator[Matches]:
        """Join blocks until all are done or `pause()` says to stop, with at most `loaded` bytes of
        them in memory at a time."""
        self._bytes = loaded
        # Clean-up has all the memory there is (DINER 3.5).
        stalled = stage is Stage.DD
        self._most_outer = self._workspace.tuning.outer_blocks if stalled else None
        stopped = False
        try:
            while not (stopped or self.is_done):
                if self.round is None:
                    self._begin()
                assert self.round is not None
                while self.round.boxes and not stopped:
                    stopped = yield from self._join_box(self.round, pause, stage)
                if not self.round.boxes:
                    self.joined[self.round.outer] = self.round.until
                    self.round = None
        finally:
            self._loaded = {}

    # ---- rounds ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        blocks, inputs = self._workspace.blocks, self._workspace.inputs
        if not all(self.joined):
            # Nothing is done: the smallest input is the outer one, and all of the others take part.
            outer = min(inputs, key=lambda input: len(blocks[input]))
            self.joined = [0 if input == outer else len(blocks[input]) for input in inputs]
        else:
            outer = max(inputs, key=lambda input: len(blocks[input]) - self.joined[input])
        until = len(blocks[outer])
        assert self.joined[outer] < until, "a round without a block to join"
        self.round = Round(outer, until, self._sequence(outer))
        self._order_places()
        self.round.boxes = [[[0, len(places)] for places in self._places]]

    def _sequence(self, outer: int) -> list[int]:
        """The inner inputs, each next to the outer one or to an earlier one.

        In the paper's loop one branch of the tree after the other: for a chain these are its two
        join sequences, and the second advances faster. Otherwise the smallest input that can come
        next, so that the largest are read once for a box.
        """
        tree = self._workspace.tree
        if not self._workspace.algorithm.skips:
            return _branches(tree.neighbours, outer)
        sizes = [len(blocks) for blocks in self._workspace.blocks]
        ends = [edge.ends for edge in tree.edges]
        steps = probing_sequence(outer, ends, lambda _, input: sizes[input])
        return [step.following for step in steps]

    def _order_places(self) -> None:
        """The blocks of each input that take part, in the order in which they are joined. Blocks of
        neighbouring codes together need few blocks of other inputs."""
        assert self.round is not None
        self._places, self._loaded = [], {}
        for input, blocks in enumerate(self._workspace.blocks):
            first, last = 0, self.joined[input]
            if input == self.round.outer:
                first, last = last, self.round.until
            numbers = np.arange(first, last)
            if self._workspace.algorithm.skips:
                codes, orders = blocks.ranges.first[numbers], blocks.ranges.order[numbers]
                numbers = numbers[np.lexsort((codes, orders))]
            self._places.append(numbers)

    # ---- one box --------------------------------------------------------------------------------

    def _join_box(self, round: Round, pause: Pause, stage: Stage) -> Generator[Matches, None, bool]:
        """Join the last box, or the first part of it that fits memory; returns whether `pause` has
        said to stop."""
        for input in round.loaded:
            stopped = self._load(round, input, pause)
            if stopped:
                return True
            if not len(self._loaded[input][1]):
                # No row of these blocks has a partner: none of the combinations is a result.
                round.boxes.pop()
                return False
        return (yield from self._join_innermost(round, pause, stage))

    def _load(self, round: Round, input: int, pause: Pause) -> bool:
        """Have those rows of the box's blocks of one input in memory that may be part of a result.
        The box is cut in two where memory is full; returns whether `pause` has said to stop."""
        level = round.loaded.index(input)
        ranges = [list(round.boxes[-1][n]) for n in round.loaded[: level + 1]]
        if input in self._loaded and self._loaded[input][0] == ranges:
            return False
        for other in round.loaded[level:]:
            self._loaded.pop(other, None)
        if input == round.outer:
            self._load_outer(round)
            return False
        return self._load_inner(round, input, pause)

    def _load_outer(self, round: Round) -> None:
        first, last = round.boxes[-1][round.outer]
        numbers = self._places[round.outer][first:last]
        fits = self._fitting(round.outer, numbers, self._share(round))
        fits = min(fits, self._most_outer or fits)
        self._cut(round, round.outer, first + fits)
        piece = self._read(round.outer, numbers[:fits])
        self._keep(round, round.outer, piece)

    def _load_inner(self, round: Round, input: int, pause: Pause) -> bool:
        first, last = round.boxes[-1][input]
        if not self._workspace.algorithm.skips:
            self._cut(round, input, first + 1)
            self._keep(round, input, self._read(input, self._places[input][first : first + 1]))
            return False
        step = self._towards(round, input)
        known = self._loaded[step.known][1]
        meets = self._within_reach(step, known, self._places[input][first:last])
        places = first + np.flatnonzero(meets)
        kept, nbytes, stopped, place = list[Piece](), 0, False, last
        while len(places) and not stopped:
            piece, together, stopped = self._read_some(input, self._places[input][places], pause)
            found = known.partners(step, piece, input)
            if len(found):
                kept.append(piece if len(found) == len(piece) else piece.take(found))
                nbytes += kept[-1].batch.nbytes
            places = places[together:]
            # Not after the last block: the loop comes to the innermost input in every stall, be it
            # ever so short.
            if len(places):
                full = nbytes >= self._share(round)
                stopped = stopped or (not full and pause())
                if full or stopped:
                    place = int(places[0])
                    break
        self._cut(round, input, place)
        if not stopped:
            stored = self._workspace.schema.stored(input)
            self._keep(round, input, Piece.concat(kept, stored))
        elif not kept:
            # Nothing to join so far: go on behind these blocks.
            round.boxes.pop()
        return stopped

    def _keep(self, round: Round, input: int, piece: Piece) -> None:
        level = round.loaded.index(input)
        ranges = [list(round.boxes[-1][n]) for n in round.loaded[: level + 1]]
        self._loaded[input] = (ranges, Loaded(self._workspace, input, piece))

    def _cut(self, round: Round, input: int, at: int) -> None:
        """Cut the last box in two at a place of one input; the first part becomes the last box."""
        box = round.boxes[-1]
        first, last = box[input]
        if at < last:
            round.boxes[-1] = [[at, last] if n == input else each for n, each in enumerate(box)]
            round.boxes.append(
                [[first, at] if n == input else list(each) for n, each in enumerate(box)]
            )

    def _share(self, round: Round) -> float:
        """Bytes for the blocks of one input."""
        return _OTHERS_SHARE * self._bytes / len(round.loaded)

    def _fitting(self, input: int, numbers: Index, nbytes: float) -> int:
        """How many of these blocks, from the first, take so many bytes; at least one."""
        sizes = np.cumsum(self._workspace.blocks[input].ranges.nbytes[numbers])
        return max(int(np.searchsorted(sizes, nbytes, side="right")), 1)

    def _read(self, input: int, numbers: Index) -> Piece:
        """The rows of some blocks, end to end."""
        blocks = self._workspace.blocks[input]
        pieces = [blocks.read(int(number)) for number in numbers]
        return Piece.concat(pieces, self._workspace.schema.stored(input))

    def _read_some(self, input: int, numbers: Index, pause: Pause) -> tuple[Piece, int, bool]:
        """The rows of as many blocks, from the first, as are joined at a time; their number; and
        whether `pause`, which is asked between them, has said to stop: no more rows shall wait than
        arrive while one block is read."""
        most = self._together(input, numbers)
        blocks = self._workspace.blocks[input]
        pieces, stopped = [blocks.read(int(numbers[0]))], False
        while len(pieces) < most and not (stopped := pause()):
            pieces.append(blocks.read(int(numbers[len(pieces)])))
        return Piece.concat(pieces, self._workspace.schema.stored(input)), len(pieces), stopped

    def _towards(self, round: Round, input: int) -> Step:
        """The step to an inner input from the one before it that it has an edge with."""
        before = [round.outer, *round.inner[: round.inner.index(input)]]
        edge, known = next(
            (edge, other)
            for edge, other in self._workspace.tree.neighbours(input)
            if other in before
        )
        return Step(known, edge, input)

    def _within_reach(self, step: Step, known: Loaded, numbers: Index) -> np.ndarray:
        """Which of these blocks may have partners of the rows that are loaded."""
        workspace = self._workspace
        meets = np.ones(len(numbers), np.bool_)
        if not workspace.algorithm.skips:
            return meets
        ranges: Ranges = workspace.blocks[step.following].ranges
        edge, end = workspace.tree.edges[step.edge], workspace.tree.end(step.known, step.edge)
        first, last = edge.around(end, known.index(step.edge).in_order()[0])
        meets = (ranges.first[numbers] <= np.uint64(last)) & (
            ranges.last[numbers] >= np.uint64(first)
        )
        # Blocks that are sorted in another order say nothing about the codes of this edge.
        meets |= ranges.order[numbers] != workspace.tree.order(step.following, step.edge)
        workspace.metrics.blocks_skipped += int(np.count_nonzero(~meets))
        return meets

    # ---- the innermost input --------------------------------------------------------------------

    def _join_innermost(
        self, round: Round, pause: Pause, stage: Stage
    ) -> Generator[Matches, None, bool]:
        """Join the rows that are loaded with the innermost input's blocks, one after the other."""
        input, box = round.innermost, round.boxes[-1]
        step = self._towards(round, input)
        first, last = box[input]
        places = first + np.flatnonzero(
            self._within_reach(step, self._loaded[step.known][1], self._places[input][first:last])
        )
        ends = [edge.ends for edge in self._workspace.tree.edges]
        sizes = {n: len(loaded) for n, (_, loaded) in self._loaded.items()}
        steps = probing_sequence(input, ends, lambda _, other: sizes[other])
        stopped = False
        while len(places) and not stopped:
            piece, together, stopped = self._read_some(input, self._places[input][places], pause)
            self._workspace.metrics.blocks_joined += together
            yield from self._join_rows(input, piece, steps, stage)
            box[input][0] = int(places[together - 1]) + 1
            places = places[together:]
            stopped = stopped or pause()
        if not len(places):
            round.boxes.pop()
        return stopped

    def _together(self, input: int, numbers: Index) -> int:
        """How many blocks are joined at a time: the paper's loop takes one. Several take little
        longer than one, if they are short."""
        if not self._workspace.algorithm.skips:
            return 1
        return self._fitting(input, numbers[:_MOST_TOGETHER], _INNERMOST_SHARE * self._bytes)

    def _join_rows(
        self, input: int, piece: Piece, steps: list[Step], stage: Stage
    ) -> Iterator[Matches]:
        """Report what these rows make with the rows that are loaded, but for what has met."""
        workspace = self._workspace
        loaded = {n: each for n, (_, each) in self._loaded.items()}
        loaded[input] = Loaded(workspace, input, piece)
        sources = [loaded[n] for n in workspace.inputs]
        every = {input: np.arange(len(piece))}
        for chosen in self._combining.complete(every, sources, steps):
            arrived = sources[input].piece.ats[chosen[input]]
            departed = sources[input].piece.dts[chosen[input]]
            for other in workspace.others(input):
                arrived = np.maximum(arrived, sources[other].piece.ats[chosen[other]])
                departed = np.minimum(departed, sources[other].piece.dts[chosen[other]])
            new = arrived >= departed
            if new.any():
                rows = [Rows(sources[n].rows, chosen[n][new]) for n in workspace.inputs]
                yield from workspace.emitter.combinations(rows, stage)

    # ---- saved state ----------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        round = None if self.round is None else asdict(self.round)
        return {"joined": list(self.joined), "round": round}

    def load(self, saved: dict[str, Any]) -> None:
        self.joined = list(saved["joined"])
        self.round = None if saved["round"] is None else Round(**saved["round"])
        if self.round is not None:
            self._order_places()


def _branches(neighbours: Callable[[int], list[tuple[int, int]]], start: int) -> list[int]:
    """All inputs but the first, one branch of the tree after the other."""
    found, waiting = list[int](), [start]
    while waiting:
        input = waiting.pop()
        found.append(input)
        waiting += [n for _, n in reversed(neighbours(input)) if n not in found]
    return found[1:]
