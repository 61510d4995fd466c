"""What makes one algorithm of the regions mechanism different from another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RegionAlgorithm:
    """A row of settings for the regions mechanism.

    skips: the nested loop reads no pair of blocks whose codes are out of reach of each other, and
    takes the outer blocks in order of their codes. Without it, it is the paper's: every pair, in
    the order in which blocks were written. joins_on_arrival: False joins memory with memory only
    when it is full, and then flushes all of it.
    """

    name: str
    words: str
    skips: bool = True
    joins_on_arrival: bool = True
    spills: bool = True
    reacts: bool = True


_DINER = (
    "the double index nested-loops reactive join: spills the values that bring fewest results, "
    "and joins spilled blocks in stalls"
)

REGIONS = {
    algorithm.name: algorithm
    for algorithm in (
        RegionAlgorithm("diner", _DINER + ", only those whose values can meet"),
        RegionAlgorithm("diner-plain", _DINER, skips=False),
        RegionAlgorithm(
            "pmj-sorted",
            "the progressive merge join in order of values: joins and spills all of a full memory, "
            "and joins spilled blocks at the end",
            joins_on_arrival=False,
            reacts=False,
        ),
    )
}
