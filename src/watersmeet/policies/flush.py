"""Which rows leave memory when it is full.

A policy sees how many rows each side holds of each partition, and how likely the next arrival is
to fall into each. It returns victims in the order to give them up; how far down that order to go
is the operator's business. It never sees a row, so it is tested on two small arrays, and a new
one is a new function here and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side

BOTH = (Side.LEFT, Side.RIGHT)


@dataclass(frozen=True)
class Held:
    """Per side and partition: rows in memory, and the arrival probability p_i[j] (RPJ 4.2)."""

    rows: NDArray[np.int64]
    arriving: NDArray[np.float64]


class Victim(NamedTuple):
    """Rows of one partition that should leave, of one side or of both together.

    Of a divisible victim the operator may flush only the oldest rows; of others, all or none.
    """

    sides: tuple[Side, ...]
    partition: int
    reason: str
    divisible: bool = False


FlushPolicy = Callable[[Held], list[Victim]]


def _single(held: Held, order: NDArray[np.intp], what: str) -> list[Victim]:
    """Victims of one side each, for an order over the flattened (side, partition) array."""
    sides, partitions = np.unravel_index(order, held.rows.shape)
    return [
        Victim((Side(side),), int(p), f"{what}: {held.rows[side, p]:,} rows")
        for side, p in zip(sides, partitions, strict=True)
        if held.rows[side, p]
    ]


def largest(held: Held) -> list[Victim]:
    """First the partition, of either side, with most rows (XJoin)."""
    return _single(held, np.argsort(-held.rows, axis=None, kind="stable"), "largest partition")


def _pairs(held: Held, order: NDArray[np.intp], what: str) -> list[Victim]:
    left, right = held.rows
    return [
        Victim(BOTH, int(p), f"{what}: {left[p]:,} and {right[p]:,} rows")
        for p in order
        if left[p] or right[p]
    ]


def largest_pair(held: Held) -> list[Victim]:
    """The partition with the single largest side, both sides concurrently (HMJ, flush largest)."""
    return _pairs(held, np.argsort(-held.rows.max(axis=0), kind="stable"), "largest partition")


def smallest_pair(held: Held) -> list[Victim]:
    """The partition with the single smallest side, both concurrently (HMJ, flush smallest)."""
    return _pairs(held, np.argsort(held.rows.min(axis=0), kind="stable"), "smallest partition")


def everything(held: Held) -> list[Victim]:
    """All partitions of both sides (PMJ, HMJ's flush all), for algorithms with flush_share=1."""
    return _pairs(held, np.arange(held.rows.shape[1]), "all of memory")


def adaptive(held: Held) -> list[Victim]:
    """The pair whose sizes are close and whose sum is large (HMJ's own policy).

    Among pairs of at least mean size, the most balanced goes first, so that the rows that stay in
    memory are about as many on both sides. Smaller pairs follow: they free little memory, and
    their runs are short.
    """
    left, right = held.rows
    both = left + right
    order = np.lexsort((-both, np.abs(left - right), both < both.mean()))
    return _pairs(held, order, "balanced pair")


def optimal(held: Held) -> list[Victim]:
    """The rows least likely to meet the next arrival (RPJ 4.1, Figure 4).

    The smallest p_1[j] evicts partition j of R2, because only rows of R1 can still match its rows.
    Figure 4 loops until nflush rows have left; the operator has that loop.

    The p are estimates. Those that agree in two digits count as equal, and of these the partition
    with most rows goes first. With evenly spread keys such differences are chance: a join that
    followed them flushed the few rows that had come since the last flush, and wrote three times
    as many runs.
    """
    partitions = held.arriving.shape[1]
    opposite_rows = held.rows[::-1].ravel()
    order = np.lexsort((-opposite_rows, _two_digits(held.arriving.ravel())))
    victims = []
    for flat in order[opposite_rows[order] > 0].tolist():
        side, p = divmod(flat, partitions)
        chance = f"{held.arriving[side, p]:.3%} of arrivals can meet it"
        victims.append(Victim((Side(side).other,), p, chance, divisible=True))
    return victims


def _two_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scale = 10.0 ** (np.floor(np.log10(np.maximum(values, 1e-300))) - 1)
    return np.asarray(np.round(values / scale) * scale)
