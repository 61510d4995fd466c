"""Which row of which side arrives when: all input of a simulation, decided before it starts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.rows.address import Index
from watersmeet.sim.arrivals import Arrivals, merged_times
from watersmeet.sim.delays import Delay, Seconds, times
from watersmeet.sim.keys import Keys

SCHEMA = pa.schema([pa.field("key", pa.int64(), nullable=False)])
"""Simulated rows consist of their key alone; `charges.Disk.page_rows` says how wide they count."""


class Schedule(Arrivals):
    """Two relations: row i arrives at `arrive[i]` on side `sides[i]` with key `keys[i]`."""

    def __init__(self, arrive: Seconds, sides: NDArray[np.uint8], keys: Index) -> None:
        if not len(arrive) == len(sides) == len(keys):
            raise InvalidArgument(
                f"{len(arrive)} times, {len(sides)} sides and {len(keys)} keys "
                "describe no schedule.",
                remedy="Give one of each per row.",
            )
        super().__init__(
            arrive,
            sides,
            [
                pa.RecordBatch.from_arrays([pa.array(keys[sides == side])], schema=SCHEMA)
                for side in Side
            ],
        )
        self.keys = keys

    @property
    def sides(self) -> NDArray[np.uint8]:
        return self.inputs

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
    def of_networks(
        cls,
        delays: tuple[Delay, Delay],
        keys: tuple[Keys, Keys],
        *,
        rows: tuple[int, int],
        rng: np.random.Generator,
    ) -> Schedule:
        """Two relations, each over a network of its own."""
        arrive, sides = merged_times(delays, rows, rng=rng)
        return cls(arrive, sides, _keys_of_sides(sides, keys, rng))

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
