"""Which row of which side arrives when: all input of a simulation, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.rows.address import Index
from watersmeet.sim.delays import Delay, Seconds, times
from watersmeet.sim.keys import Keys

SCHEMA = pa.schema([pa.field("key", pa.int64(), nullable=False)])
"""Simulated rows consist of their key alone; `charges.Disk.page_rows` says how wide they count."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Row i arrives at `arrive[i]` on side `sides[i]` with key `keys[i]`; times do not decrease."""

    arrive: Seconds
    sides: NDArray[np.uint8]
    keys: Index
    _right_before: Index = field(init=False, repr=False)
    _rows: tuple[pa.RecordBatch, pa.RecordBatch] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not len(self.arrive) == len(self.sides) == len(self.keys):
            raise InvalidArgument(
                f"{len(self.arrive)} times, {len(self.sides)} sides and {len(self.keys)} keys "
                "describe no schedule.",
                remedy="Give one of each per row.",
            )
        if np.any(np.diff(self.arrive) < 0):
            raise InvalidArgument(
                "Arrival times fall.", remedy="Give the rows in the order in which they arrive."
            )
        before = np.zeros(len(self.sides) + 1, dtype=np.int64)
        np.cumsum(self.sides, out=before[1:])
        object.__setattr__(self, "_right_before", before)
        rows = tuple(
            pa.RecordBatch.from_arrays([pa.array(self.keys[self.sides == side])], schema=SCHEMA)
            for side in Side
        )
        object.__setattr__(self, "_rows", rows)

    def __len__(self) -> int:
        return len(self.arrive)

    @classmethod
    def mixed(
        cls,
        delay: Delay,
        keys: tuple[Keys, Keys],
        *,
        rows: int,
        speed_ratio: float,
        rng: np.random.Generator,
    ) -> Schedule:
        """One stream of both relations, R1 `speed_ratio` times as likely as R2 (RPJ, section 6)."""
        if not speed_ratio > 0:
            raise InvalidArgument(
                f"speed_ratio={speed_ratio} is not positive.", remedy="Give more than 0."
            )
        arrive = times(delay, rows, rng=rng)
        sides = (rng.random(rows) >= speed_ratio / (1.0 + speed_ratio)).astype(np.uint8)
        return cls(arrive, sides, _keys_of_sides(sides, keys, rng))

    @classmethod
    def merged(
        cls,
        delays: tuple[Delay, Delay],
        keys: tuple[Keys, Keys],
        *,
        rows: tuple[int, int],
        rng: np.random.Generator,
    ) -> Schedule:
        """Two relations, each over a network of its own."""
        arrive = [times(delay, count, rng=rng) for delay, count in zip(delays, rows, strict=True)]
        order = np.argsort(np.concatenate(arrive), kind="stable")
        sides = (order >= rows[0]).astype(np.uint8)
        return cls(np.concatenate(arrive)[order], sides, _keys_of_sides(sides, keys, rng))

    def batch(self, side: Side, start: int, stop: int) -> pa.RecordBatch:
        """The rows of one side among arrivals `start..stop`, without a copy."""
        first, last = self._right_before[start], self._right_before[stop]
        if side is Side.LEFT:
            first, last = start - first, stop - last
        return self._rows[side].slice(first, last - first)

    def last_of(self, side: Side) -> int:
        """The number of arrivals after which this side has sent everything."""
        mine = np.flatnonzero(self.sides == side)
        return int(mine[-1]) + 1 if len(mine) else 0

    def join_size(self, *, width: int = 0) -> int:
        """How many pairs of keys there are that differ by at most `width`, by counting keys."""
        left, right = (np.sort(self.keys[self.sides == side]) for side in Side)
        last = np.searchsorted(right, left + width, side="right")
        return int(np.sum(last - np.searchsorted(right, left - width, side="left")))


def _keys_of_sides(
    sides: NDArray[np.uint8], keys: tuple[Keys, Keys], rng: np.random.Generator
) -> Index:
    drawn = np.empty(len(sides), dtype=np.int64)
    for side in Side:
        mine = sides == side
        drawn[mine] = keys[side].draw(int(np.count_nonzero(mine)), rng)
    return drawn
