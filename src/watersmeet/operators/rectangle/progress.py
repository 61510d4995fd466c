"""How far the rectangles of a join have come, by partition."""

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
    """Which rectangles are complete, for estimates: they may change only when this does.

    By [side, partition]: `arrived` are the partition's rows so far; `joined` the first so many of
    them that have met all of the other side's `joined` ones; `seen` how many rows of the side had
    arrived in all partitions together, null keys included, when the partition was last joined.
    `strips` are the rectangles over all partitions of an algorithm that completes several (SMS,
    DBO) until the end joins the partitions; each begins, on the left, where the last one stops.
    `completed` rises with every change. `evened`: partitions have been made even, and rows are in
    others than before.
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
        """Rows of each side that have been taken in, null keys included."""
        self.completed = 0

    @property
    def bounds(self) -> tuple[int, int]:
        return self.numbers[0], self.numbers[1]

    def joined_all(self, side: Side) -> None:
        """Every row of a side so far is part of its partition's rectangle."""
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
