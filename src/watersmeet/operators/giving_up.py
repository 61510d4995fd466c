"""Which rows of one input leave memory: those of the regions that bring fewest results per row.

For the joins that keep rows in order of their codes (DINER 3.3, MINER 4.1). A table has one order
for each attribute that it is joined on, and each order has three regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import regions as kernels
from watersmeet.policies.regions import Region, Regions
from watersmeet.rows.address import Index
from watersmeet.store.sorted_table import RowOrder


@dataclass(frozen=True)
class GivenUp:
    """Rows that leave, as a mask over the table, and the regions they were chosen from."""

    mask: NDArray[np.uint8]
    flushed: list[set[Region]]
    """For each order, the regions that gave up rows."""
    leading: int
    """The order whose region had fewest results per row."""
    reason: str


def give_up(orders: Sequence[RowOrder], regions: Sequence[Regions], count: int) -> GivenUp:
    """Choose `count` rows of a table. When a region cannot fill them, the one with the next fewest
    results per row follows."""
    size = len(orders[0].index)
    by_benefit = _by_benefit(regions)
    leading = by_benefit[0][0] if by_benefit else 0
    if count >= size:
        every = [set(Region) for _ in orders]
        return GivenUp(np.ones(size, np.uint8), every, leading, _why(regions, by_benefit))
    mask = np.zeros(size, np.uint8)
    flushed = [set[Region]() for _ in orders]
    asked = []
    left = count
    for number, region in by_benefit:
        if not left:
            break
        flushed[number].add(region)
        asked.append((number, region))
        rows = _rows_of(orders[number], regions[number], region, left, mask)
        mask[rows] = 1
        left -= len(rows)
    return GivenUp(mask, flushed, leading, _why(regions, asked))


def divide_again(
    orders: Sequence[RowOrder],
    regions: Sequence[Regions],
    given: GivenUp,
    count: int,
    *,
    remembered: float = 0.0,
) -> None:
    """Move the boundaries of regions that gave up rows, and count rows and results anew. The rows
    have been dropped. `remembered`: the share of their results per row that regions begin with."""
    for order, each, flushed in zip(orders, regions, given.flushed, strict=True):
        benefits = each.benefits
        codes, rows = order.index.in_order()
        each.move(codes, count, flushed)
        each.recount(order.regions)
        if each.lower is not None and each.upper is not None:
            bounds = np.uint64(each.lower), np.uint64(each.upper)
            kernels.divide(codes, rows, *bounds, order.regions, each.rows)
        each.remember(benefits, remembered)


def _by_benefit(regions: Sequence[Regions]) -> list[tuple[int, Region]]:
    """All regions of all orders, beginning with the one that has fewest results per row."""
    every = [(n, region) for n, each in enumerate(regions) for region in each.by_benefit()]
    return sorted(every, key=lambda found: regions[found[0]].benefit(found[1]))


def _rows_of(
    order: RowOrder, regions: Regions, region: Region, count: int, mask: NDArray[np.uint8]
) -> Index:
    """At most `count` rows of one region that the mask does not have yet."""
    codes, rows = order.index.in_order()
    start, stop = 0, len(codes)
    if regions.lower is not None and regions.upper is not None:
        start = int(np.searchsorted(codes, np.uint64(regions.lower), side="right"))
        stop = int(np.searchsorted(codes, np.uint64(regions.upper), side="left"))
    if region is Region.MIDDLE:
        return _swept(order, regions, slice(start, stop), count, mask)
    ends = rows[:start] if region is Region.LOWER else rows[stop:]
    free = ends[mask[ends] == 0]
    # The extreme values go first.
    chosen = free[:count] if region is Region.LOWER else free[max(len(free) - count, 0) :]
    numbers: Index = chosen.astype(np.int64)
    return numbers


def _swept(
    order: RowOrder, regions: Regions, middle: slice, count: int, mask: NDArray[np.uint8]
) -> Index:
    """Rows of the middle region that the clock's hand chooses."""
    codes, rows = order.index.in_order()
    chosen = np.empty(min(count, middle.stop - middle.start), np.int64)
    hand = int(np.searchsorted(codes, np.uint64(regions.hand)))
    found, hand = kernels.sweep(rows, middle.start, middle.stop, hand, order.joined, mask, chosen)
    regions.hand = int(codes[hand]) if hand < len(codes) else 0
    return rows[chosen[:found]].astype(np.int64)


def _why(regions: Sequence[Regions], asked: Sequence[tuple[int, Region]]) -> str:
    words = ", ".join(
        f"{region.name.lower()} {regions[number].benefit(region):.2f}"
        for number, region in sorted(asked)
    )
    return f"results per row of the region: {words}"
