"""The settings in which the rectangle joins differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from watersmeet.policies import invoke
from watersmeet.policies.invoke import InvokeRule, SpillRule


class JoinsOnArrival(Enum):
    """Which arrivals are joined at once with the other side's rows in memory."""

    NONE = auto()
    UNTIL_FULL = auto()
    """All, until memory first overflows: the symmetric hash join that is phase 1."""
    THEN_KEPT = auto()
    """All, until memory first overflows; then left rows, with the right rows that are kept."""
    ALL = auto()


@dataclass(frozen=True)
class RectangleAlgorithm:
    """A row of settings for the rectangle join.

    spill: which rows leave memory when it is full. invoke: which partitions are joined while rows
    arrive, and in stalls; None if none are. rescans: before rows leave a full memory they are
    joined with all spilled rows; there are no partitions then.
    """

    name: str
    words: str
    meets: JoinsOnArrival
    spill: SpillRule
    invoke: InvokeRule | None = None
    rescans: bool = False

    @property
    def spills(self) -> bool:
        return True

    @property
    def reacts(self) -> bool:
        return self.invoke is not None


RECTANGLE = {
    algorithm.name: algorithm
    for algorithm in (
        RectangleAlgorithm(
            "pr-join",
            "the partitioned expanding ripple join: spills by partition, and joins all of a "
            "partition whenever it has grown enough",
            JoinsOnArrival.UNTIL_FULL,
            invoke.larger_halves,
            invoke=invoke.expanding,
        ),
        RectangleAlgorithm(
            "ripple",
            "the block ripple join: every full memory is joined with all that was spilled",
            JoinsOnArrival.UNTIL_FULL,
            invoke.everything,
            rescans=True,
        ),
        RectangleAlgorithm(
            "hash-ripple",
            "the hash ripple join: left rows meet the right rows that came first, the rest is "
            "joined by partition at the end",
            JoinsOnArrival.THEN_KEPT,
            invoke.all_but_kept,
        ),
        RectangleAlgorithm(
            "sms",
            "the sort-merge-shrink join: a full memory is joined with itself, the rest at the end",
            JoinsOnArrival.ALL,
            invoke.everything,
        ),
        RectangleAlgorithm(
            "dbo",
            "the two-way DBO join: each side leaves a full memory in turn, the rest at the end",
            JoinsOnArrival.ALL,
            invoke.in_turn,
        ),
        RectangleAlgorithm(
            "grace",
            "the GRACE hash join: everything is partitioned first and joined at the end",
            JoinsOnArrival.NONE,
            invoke.larger_halves,
        ),
    )
}
