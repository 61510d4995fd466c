"""What makes one algorithm of the tree mechanism different from another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TreeAlgorithm:
    """A row of settings for the tree mechanism.

    skips: the nested loop reads no block whose codes are out of reach, keeps only rows that have a
    partner, and takes as many of them at a time as fit memory. Without it, it is the paper's: one
    block of each inner input, and every combination of blocks. coordinated: a flush takes the rows
    of one hash partition from all inputs, which must form a star. remembers: the share of its
    results per row that a region keeps after a flush; with 0 it begins anew, as in the paper.
    """

    name: str
    words: str
    skips: bool = True
    coordinated: bool = False
    remembers: float = 0.0
    spills: bool = True
    reacts: bool = True


_MINER = (
    "the multiple index nested-loops reactive join: spills the values that bring fewest results, "
    "and joins spilled blocks in stalls"
)

TREE = {
    algorithm.name: algorithm
    for algorithm in (
        TreeAlgorithm("miner", _MINER + ", only rows whose values can meet", remembers=0.9),
        TreeAlgorithm("miner-plain", _MINER, skips=False),
        TreeAlgorithm(
            "mjoin",
            "the multi-way hash join of one attribute: spills the same partition of all inputs",
            coordinated=True,
        ),
    )
}
