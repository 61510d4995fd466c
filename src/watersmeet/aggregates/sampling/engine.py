"""What a run asks of whoever reads blocks: Spark's tasks, or threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, Self

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.sampling.looks import Look
from watersmeet.aggregates.sampling.plan import ReadPlan
from watersmeet.model import Side


class Engine(Protocol):
    """Reads blocks and gives their totals, in whatever order."""

    def totals(self, look: Look) -> list[BlockTotals]:
        """Of the last look, which completes the whole, blocks may be added up before."""
        ...

    def way(self, side: Side) -> str:
        """How the rows of a side are read, in words."""
        ...

    def cancel(self) -> None:
        """End what `totals` is doing, in another thread, as soon as can be."""
        ...

    def close(self) -> None: ...


class OneSideEngine(Engine, Protocol):
    """Blocks of one side, each with all of the other that it can meet."""

    def narrowed(self, question: ResolvedQuestion) -> Self:
        """The same for fewer rows of the sampled side; what is known of the other is shared."""
        ...


class BothSidesEngine(Engine, Protocol):
    """Pairs of blocks."""

    def rows_of(self, side: Side, block: int) -> int:
        """How many rows a block has that was read."""
        ...


class Engines(Protocol):
    """A `Maker` of engines: what a runtime has to bring."""

    def one_side(self, plan: ReadPlan) -> OneSideEngine: ...

    def both_sides(self, plan: ReadPlan) -> BothSidesEngine: ...


def shares(blocks: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Blocks in at most so many parts, neighbours together.

    >>> shares([3, 1, 4, 1, 5], 2), shares([7], 4)
    ([(3, 1), (4, 1, 5)], [(7,)])
    """
    count = min(len(blocks), count)
    ends = [len(blocks) * part // max(count, 1) for part in range(count + 1)]
    return [tuple(blocks[start:stop]) for start, stop in pairwise(ends)]
