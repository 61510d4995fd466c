"""How many rows of each partition have arrived, and how many have been joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.rectangle.cover import Strip

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Rectangles:
    """Which rectangles are complete. Estimates may change only when this does.

    By [side, partition]: `arrived` is the number of the partition's rows so far; the first `joined`
    of them have met the first `joined` rows of the other side; `seen` is how many rows of the side
    had arrived in all partitions together, with null keys, when the partition was last joined.
    `strips` are the rectangles of algorithms that complete several, each over all partitions (SMS,
    DBO), until the partitions are joined at the end; on the left each begins where the one before
    stops. `completed` rises with every change. `evened`: partitions have been made even, so that
    rows may be in others than before.
    """

    arrived: Counts
    joined: Counts
    seen: Counts
    strips: tuple[Strip, ...]
    completed: int
    evened: bool


class RectangleProgress:
    """Counts of rows by [side, partition], and how often each partition was joined."""

    def __init__(self, partitions: int) -> None:
        self.arrived = np.zeros((2, partitions), np.int64)
        self.joined = np.zeros((2, partitions), np.int64)
        self.seen = np.zeros((2, partitions), np.int64)
        self.joins = np.zeros(partitions, np.int64)
        self.numbers = [0, 0]
        """Rows of each side that have arrived, with null keys."""
        self.completed = 0

    @property
    def bounds(self) -> tuple[int, int]:
        return self.numbers[0], self.numbers[1]

    def joined_all(self, side: Side) -> None:
        """Count all rows of a side that have arrived as joined."""
        self.joined[side] = self.arrived[side]
        self.seen[side] = self.numbers[side]

    def joined_partition(self, p: int) -> None:
        self.joined[:, p] = self.arrived[:, p]
        self.seen[:, p] = self.numbers
        self.joins[p] += 1
        self.completed += 1

    def save(self) -> dict[str, Any]:
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    def load(self, saved: dict[str, Any]) -> None:
        for name in ("arrived", "joined", "seen", "joins"):
            getattr(self, name)[:] = saved[name]
        self.numbers = list(saved["numbers"])
        self.completed = saved["completed"]
