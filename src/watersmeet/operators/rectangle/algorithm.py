"""What makes one of the rectangle joins different from another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from watersmeet.policies.invoke import InvokeRule, SpillRule


class JoinsOnArrival(Enum):
    """Which arrivals are joined at once with the other side's rows in memory."""

    NONE = auto()
    UNTIL_FULL = auto()
    """All, until memory first overflows: the symmetric hash join that is phase 1."""
    THEN_KEPT = auto()
    """The same, and after that left rows with the right rows that are kept."""
    ALL = auto()


@dataclass(frozen=True)
class RectangleAlgorithm:
    """A row of settings for the rectangle join.

    spill: what leaves a full memory. invoke: which partitions are joined while rows arrive, and
    in stalls; None for none. rescans: a full memory meets all that has been spilled before it
    leaves, and there are no partitions.
    """

    name: str
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
