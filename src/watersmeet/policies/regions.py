"""Which rows leave memory first in DINER: the regions of one index, and what they have brought.

Rows in memory are in order of their codes, and two boundaries divide them into a lower, a middle
and an upper region (DINER 3.3). Each region counts the results that its rows have helped to find
since rows of this input were last flushed. The region with fewest results per row gives up rows
first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint64]


class Region(IntEnum):
    LOWER = 0
    MIDDLE = 1
    UPPER = 2


# Of regions with the same benefit, the one that Algorithm 2 asks about first.
_ASKED = (Region.UPPER, Region.LOWER, Region.MIDDLE)


@dataclass
class Regions:
    """The three regions of one index, and the six counters of Algorithm 3.

    Codes up to `lower` are in the lower region, those from `upper` on in the upper one, and
    lower < upper. Before the first flush there are no boundaries, and all rows are in the middle.
    """

    lower: int | None = None
    """LastLwVal."""
    upper: int | None = None
    """LastUpVal."""
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))
    """LwTups, MdTups, UpTups."""
    joins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))
    """LwJoins, MdJoins, UpJoins."""
    hand: int = 0
    """The code at which the clock's hand stands: it goes on with the next larger one."""

    def of(self, codes: Codes) -> NDArray[np.uint8]:
        """The region of each code."""
        regions = np.full(len(codes), Region.MIDDLE, np.uint8)
        if self.lower is not None and self.upper is not None:
            regions[codes <= np.uint64(self.lower)] = Region.LOWER
            regions[codes >= np.uint64(self.upper)] = Region.UPPER
        return regions

    def arrived(self, regions: NDArray[np.uint8], joins: NDArray[np.int64]) -> None:
        """Count rows that have come, and the results that each has found (UpdateStatistics)."""
        self.rows += np.bincount(regions, minlength=3)
        self.joins += np.bincount(regions, joins, minlength=3).astype(np.int64)

    def by_benefit(self) -> list[Region]:
        """The regions that have rows, beginning with the one that has fewest results per row.

        If the first cannot fill a flush, the next follows.
        """
        present = [region for region in _ASKED if self.rows[region]]
        return sorted(present, key=self.benefit)

    def benefit(self, region: Region) -> float:
        """Results per row of a region."""
        return float(self.joins[region] / max(self.rows[region], 1))

    @property
    def benefits(self) -> NDArray[np.float64]:
        """Results per row of each region."""
        found: NDArray[np.float64] = self.joins / np.maximum(self.rows, 1)
        return found

    def move(self, codes: Codes, block: int, flushed: set[Region]) -> None:
        """Move the boundaries of regions that were flushed, so that they have about `block` rows.

        `codes` are those in memory after the flush, in order. Both boundaries are moved after the
        first flush, and when one has come to the other: values that rise with time do that.
        """
        if not len(codes):
            return
        at = min(block, len(codes)) - 1
        lower, upper = int(codes[at]), int(codes[len(codes) - 1 - at])
        if self.lower is None or self.upper is None:
            self.lower, self.upper = lower, upper
        if Region.LOWER in flushed:
            self.lower = lower
        if Region.UPPER in flushed:
            self.upper = upper
        if self.lower >= self.upper:
            self.lower, self.upper = _apart(lower, upper)

    def recount(self, regions: NDArray[np.uint8]) -> None:
        """Begin anew after a flush: count the rows there are, and no results."""
        self.rows[:] = np.bincount(regions, minlength=3)
        self.joins[:] = 0

    def remember(self, benefits: NDArray[np.float64], share: float) -> None:
        """Have regions begin with this share of the results per row that they had. Not in the
        paper: what few arrivals between two flushes bring is mostly chance."""
        self.joins[:] = share * benefits * self.rows

    def save(self) -> dict[str, Any]:
        return {
            "lower": self.lower,
            "upper": self.upper,
            "joins": self.joins.tolist(),
            "hand": self.hand,
        }

    @classmethod
    def load(cls, saved: dict[str, Any]) -> Regions:
        return cls(
            saved["lower"],
            saved["upper"],
            joins=np.array(saved["joins"], np.int64),
            hand=saved["hand"],
        )


def _apart(lower: int, upper: int) -> tuple[int, int]:
    """Boundaries with lower < upper, also where a block of each end begins at the same code."""
    if lower < upper:
        return lower, upper
    return (upper - 1, upper) if upper else (0, 1)
