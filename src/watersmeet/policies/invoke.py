"""When a partition's rectangle is completed, and what leaves memory meanwhile (PR-Join 4.4, 5).

A rule sees how many rows each partition has and had when it was last joined, never a row. So it
is tested on small arrays, and a new one is a new function here and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side

Counts = NDArray[np.int64]
Sizes = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Growth:
    """How the partitions have grown.

    rows: arrived so far; old: arrived when the partition was last joined, or when memory first
    overflowed; joins: how often it was joined since then; expected: rows of both inputs together,
    if that is known.
    """

    rows: Sizes
    old: Sizes
    joins: Counts
    expected: int | None = None


@dataclass(frozen=True)
class Invocation:
    """The numbers of a join invocation condition.

    gamma: a partition is joined again when it has grown by the factor 1 + gamma. stops: no join
    any more when less than that factor is still to come, since everything is joined at the end.
    not_before: no join until this fraction of the input has arrived (PR-Join 5.1). These two are
    ignored if `Growth.expected` is not known.
    together: the growth of the mean partition decides for all. Otherwise a partition is joined
    just because many of its rows have come, and an estimate from its n rows is too high by
    about one part in n.
    """

    gamma: float = 1.0
    stops: bool = True
    not_before: float = 0.0
    together: bool = False


InvokeRule = Callable[[Growth, Invocation], Counts]
"""Returns the numbers of the partitions to join now."""


def expanding(growth: Growth, invocation: Invocation) -> Counts:
    """Eq. 11: a partition is due when it has grown by 1 + gamma since it was last joined.

    The first joins are staggered, at (1 + gamma)^(1 + i/n): partitions grow alike, and all would
    be due at once otherwise. The paper's stop constraint compares a partition's rows with those
    expected of it; here the rows of all partitions are compared, which is the same if they are
    even.
    """
    arrived = int(growth.rows.sum())
    if growth.expected is not None:
        if arrived < invocation.not_before * growth.expected:
            return np.empty(0, np.int64)
        if invocation.stops and growth.expected < (1 + invocation.gamma) * arrived:
            return np.empty(0, np.int64)
    grown = growth.rows >= thresholds(growth.joins, invocation.gamma) * growth.old
    return np.flatnonzero(grown & (growth.rows > growth.old))


def thresholds(joins: Counts, gamma: float) -> NDArray[np.float64]:
    """The factor by which each partition must have grown for its next join (eq. 11)."""
    first = (1 + gamma) ** (1 + np.arange(joins.size) / joins.size)
    return np.where(joins == 0, first, 1 + gamma)


def most_new(growth: Growth) -> int | None:
    """The stall rule (PR-Join 5.3): the partition with most rows that came since its last join."""
    new = growth.rows - growth.old
    chosen = int(np.argmax(new))
    return chosen if new[chosen] > 0 else None


# ---- what leaves memory -------------------------------------------------------------------------


@dataclass(frozen=True)
class Resident:
    """What memory holds by [side, partition].

    row_bytes: mean bytes of a row of each side; kept: by partition, right rows that were there
    when memory first overflowed and are still there; turn: how often memory was full before.
    """

    rows: Counts
    row_bytes: tuple[float, float]
    kept: Counts
    turn: int = 0


SpillRule = Callable[[Resident], Counts]
"""Returns how many rows to spill, by [side, partition]."""


def larger_halves(resident: Resident) -> Counts:
    """Spill each partition to half the mean partition's bytes (S), from its larger side first.

    PR-Join 5.1 spills S from the larger of A_i and B_i as soon as the partition's own 2S are full.
    Here all partitions spill when memory as a whole is full, because the rows of all are in one
    table, whose gaps are then closed once. A partition of 2S spills S, a larger one more, one
    below S nothing; at least half of memory becomes free.
    """
    sizes = resident.rows * np.array(resident.row_bytes)[:, None]
    each = sizes.sum(axis=0)
    excess = np.maximum(each - each.sum() / (2 * each.size), 0)
    larger = np.argmax(sizes, axis=0)
    taken = np.zeros_like(resident.rows)
    for side in Side:
        mine = np.where(larger == side, excess, excess - sizes[side.other])
        rows = np.ceil(np.round(mine / resident.row_bytes[side], 9)).astype(np.int64)
        taken[side] = np.clip(rows, 0, resident.rows[side])
    return taken


def everything(resident: Resident) -> Counts:
    """Spill all rows: Block Ripple then begins a new block, SMS a new pair of runs."""
    return resident.rows.copy()


def in_turn(resident: Resident) -> Counts:
    """Two-way DBO: spill all of one side, the next time all of the other (PR-Join 3.2.4).

    The paper also reads the sides in turn, half a memory of each. Fed like that, the join finds
    the pairs of A_i x B_i and of B_i x A_i+1, twice those of SMS; fewer if both sides arrive at
    once.
    """
    taken = np.zeros_like(resident.rows)
    side = Side(resident.turn % 2)
    if not resident.rows[side].any():
        side = side.other
    taken[side] = resident.rows[side]
    return taken


def all_but_kept(resident: Resident) -> Counts:
    """Hash Ripple: spill all but the right rows that were there when memory first overflowed
    (PR-Join 3.2.2), and those too if there are no others."""
    taken = resident.rows.copy()
    taken[Side.RIGHT] -= resident.kept
    return taken if taken.any() else resident.rows.copy()


# ---- skew ---------------------------------------------------------------------------------------


def even_slots(rows: Counts, partitions: int) -> NDArray[np.uint16]:
    """The partition of every slot, so that partitions are even (skew remapping, PR-Join 5.1).

    The slots with most rows are given out first, each to the partition that has least so far, so
    a slot with as many rows as a partition should have gets a partition of its own. The mean
    number of rows is added to the weight of every slot, since whether a light slot has few rows
    or none is mostly chance.
    """
    weights = rows + max(rows.sum(), 1) / rows.size
    slots = np.empty(rows.size, np.uint16)
    loads = [(0.0, p) for p in range(partitions)]
    heapify(loads)
    for slot in np.argsort(-weights, kind="stable"):
        load, p = loads[0]
        slots[slot] = p
        heapreplace(loads, (load + float(weights[slot]), p))
    return slots


def ranged_slots(slots: int, partitions: int) -> NDArray[np.uint16]:
    """The partition of every slot before any rows have been counted: equal ranges of the hash."""
    return (np.arange(slots) * partitions // slots).astype(np.uint16)
