"""In which order an arriving row is joined with the other inputs (MINER 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

FanOut = Callable[[int, int], float]
"""The expected partners of a row along an edge, in the memory of an input: (edge, input)."""


class Step(NamedTuple):
    """From rows of an input that are known, along an edge, to an input that follows."""

    known: int
    edge: int
    following: int


def probing_sequence(start: int, edges: Sequence[tuple[int, int]], fan_out: FanOut) -> list[Step]:
    """The steps from one input to all others, each along the edge with the smallest fan-out.

    MINER takes the edge with the smallest selectivity factor. That is the same for inputs of one
    size; for others the fan-out, the factor times the rows of the input, says how many partial
    combinations follow.

    >>> chain = [(0, 1), (1, 2), (2, 3)]
    >>> [step.following for step in probing_sequence(1, chain, lambda edge, _: [5, 1, 9][edge])]
    [2, 0, 3]
    """
    known, steps = {start}, list[Step]()
    while True:
        open_edges = [
            Step(mine, number, other)
            for number, ends in enumerate(edges)
            for mine, other in (ends, ends[::-1])
            if mine in known and other not in known
        ]
        if not open_edges:
            return steps
        best = min(open_edges, key=lambda step: fan_out(step.edge, step.following))
        known.add(best.following)
        steps.append(best)
