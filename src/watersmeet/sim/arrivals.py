"""Which row of which input arrives when, for any number of inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.rows.address import Index
from watersmeet.sim.delays import Delay, Seconds, times


class Arrivals:
    """The i-th arrival is the next row of `tables[inputs[i]]`, at `arrive[i]`; times do not
    decrease."""

    def __init__(
        self, arrive: Seconds, inputs: NDArray[np.uint8], tables: Sequence[pa.RecordBatch]
    ) -> None:
        if np.any(np.diff(arrive) < 0):
            raise InvalidArgument(
                "Arrival times fall.", remedy="Give the rows in the order in which they arrive."
            )
        self.arrive = arrive
        self.inputs = inputs
        self.tables = tuple(tables)
        self._before = [_counted_before(inputs == number) for number in range(len(tables))]

    @classmethod
    def of_tables(
        cls, delays: Sequence[Delay], tables: Sequence[pa.RecordBatch], *, rng: np.random.Generator
    ) -> Arrivals:
        """Relations, each over a network of its own."""
        arrive, inputs = merged_times(delays, [table.num_rows for table in tables], rng=rng)
        return cls(arrive, inputs, tables)

    def __len__(self) -> int:
        return len(self.arrive)

    def batch(self, input: int, start: int, stop: int) -> pa.RecordBatch:
        """The rows of one input among arrivals `start..stop`, without a copy."""
        first, last = self._before[input][start], self._before[input][stop]
        return self.tables[input].slice(first, last - first)

    def last_of(self, input: int) -> int:
        """The number of arrivals after which this input has sent everything."""
        mine = np.flatnonzero(self.inputs == input)
        return int(mine[-1]) + 1 if len(mine) else 0


def merged_times(
    delays: Sequence[Delay], rows: Sequence[int], *, rng: np.random.Generator
) -> tuple[Seconds, NDArray[np.uint8]]:
    """When rows of relations with networks of their own arrive, and which relation each is of."""
    arrive = [times(delay, count, rng=rng) for delay, count in zip(delays, rows, strict=True)]
    order = np.argsort(np.concatenate(arrive), kind="stable")
    inputs = np.repeat(np.arange(len(rows)), rows)[order].astype(np.uint8)
    return np.concatenate(arrive)[order], inputs


def _counted_before(mine: NDArray[np.bool_]) -> Index:
    before = np.zeros(len(mine) + 1, dtype=np.int64)
    np.cumsum(mine, out=before[1:])
    return before
