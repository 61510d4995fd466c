"""In which order are two tables read, so that an aggregate over their join is soon known well?

What counts is how a block of one side meets the other. If it meets all that it can meet, its
total is a draw from the totals of all blocks, and a few dozen draws say a lot. If it meets a
sample, the pairs that were seen are a sample of a sample, and both must be large. So, in this
order:

ranges    both tables are clustered on the key: with a block, read just those blocks of the other
          side whose keys lie in its range (universe sampling, a range of keys at a time)
ranges    the smaller side is large and clustered on the key, and of the other nobody knows: see
          whether its blocks are, and read those of the smaller side that hold their keys; all of it
          where they are not and it fits in memory
complete  the smaller side fits in memory: read it first, then blocks of the larger
ranges    it does not, and is clustered on the key, and of the other nobody knows: as above
ripple    neither: blocks of both, and every pair of them is joined
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from watersmeet.aggregates.sampling.designs import COMPLETE, FOUND_RANGES, RANGES, RIPPLE
from watersmeet.aggregates.sampling.draw import divided
from watersmeet.aggregates.sampling.passing import passing
from watersmeet.aggregates.sampling.plan import Block, ReadPlan, Table
from watersmeet.errors import InvalidArgument
from watersmeet.expressions.bounds import BlockBounds, Extremes, block_bounds
from watersmeet.expressions.expression import Expression
from watersmeet.model import JoinType, Side
from watersmeet.policies.order import random_order
from watersmeet.words import megabytes

# So many leave an interval no wider than it must be; smaller ones than this cost more in calls
# than in reading.
_ENOUGH_BLOCKS = 128
# Cutting a part means to decode more of it than is used, so this many are left as they are,
_FEW_PARTS = 64
# but for those that are so much larger than most: which of them are read would decide everything.
_LARGE = 2
_LEAST_ROWS = 256

# A block of one table may need so many of the other, or so large a part of it, and still be read
# with them alone.
_MOST_NEEDED = 8
_MOST_SHARE = 0.2
# What is needed more often than this is better kept, if memory allows.
_OFTEN = 6.0
# A side of so many rows is read in a tenth of a second or two; all of it, by every worker.
_SOON_READ = 1 << 20
# Blocks that span less of all keys on average follow them.
_SORTED = 0.5


def plan_reads(
    tables: tuple[Table, Table],
    how: JoinType,
    *,
    memory: int,
    seed: int,
    alike: bool = True,
    expressions: Sequence[Expression] = (),
    filters: tuple[Expression | None, Expression | None] = (None, None),
) -> ReadPlan:
    """The best of the designs that the tables and the join allow.

    Where keys are not `alike`, their ranges cannot be compared. `expressions` are added up, of
    rows of each side that pass its filter.
    """
    plan = _plan(tables, how, memory=memory, seed=seed, alike=alike)
    table = tables[plan.sampled]
    values = tuple(_values(each, tables, plan.sampled) for each in expressions)
    if plan.design.in_parts or not table.counted:
        return replace(plan, values=values)
    rows = [block.rows for block in table.blocks]
    wanted = filters[plan.sampled]
    division = divided(
        rows,
        values,
        list(table.facts.values()),
        None if wanted is None else passing(wanted.tree, table.facts, plan.sampled, len(rows)),
    )
    return replace(plan, division=division, values=values).drawn(seed)


def _values(expression: Expression, tables: tuple[Table, Table], side: Side) -> BlockBounds | None:
    """Block by block of one side; of the other, what all of its blocks lie between."""
    extremes: Extremes = {
        (side.other, name): ends for name, ends in tables[side.other].extremes.items()
    } | {(side, name): facts.ends for name, facts in tables[side].facts.items() if facts.values}
    return block_bounds(expression.tree, extremes, len(tables[side].blocks))


def _plan(
    tables: tuple[Table, Table], how: JoinType, *, memory: int, seed: int, alike: bool
) -> ReadPlan:
    allowed = sampled_sides(how)
    larger = max(Side, key=lambda side: tables[side].rows)
    fits = any(tables[sampled.other].held <= memory for sampled in allowed)
    for sampled in sorted(allowed, key=lambda side: side is not larger):
        other = tables[sampled.other]
        needs = _needs(tables[sampled].blocks, other.blocks)
        if needs is not None and alike and not (fits and _times_read(needs, other) > _OFTEN):
            return ReadPlan(
                design=RANGES,
                sampled=sampled,
                orders=_orders(tables, [sampled], seed=seed),
                needs=needs,
                reason="both sides are clustered on the key, so a block of the "
                f"{sampled.name.lower()} side is read with the blocks that hold its keys",
            )
    for sampled in sorted(allowed, key=lambda side: side is not larger):
        other = tables[sampled.other]
        if other.held <= memory:
            if alike and other.rows > _SOON_READ and _can_look_for_keys(tables[sampled], other):
                return _found_ranges(tables, sampled, seed=seed, fits=True)
            return ReadPlan(
                design=COMPLETE,
                sampled=sampled,
                orders=_orders(tables, [sampled], seed=seed),
                needs=None,
                reason=f"the {sampled.other.name.lower()} side fits in memory "
                f"({megabytes(other.held)} of {megabytes(memory)}) and is read first",
            )
    for sampled in sorted(allowed, key=lambda side: side is not larger):
        other = tables[sampled.other]
        largest = max((block.rows for block in other.blocks), default=0) * other.key_sum_bytes
        if alike and largest <= memory // 2 and _can_look_for_keys(tables[sampled], other):
            return _found_ranges(tables, sampled, seed=seed, fits=False)
    if how is not JoinType.INNER:
        kept = " or ".join(side.name.lower() for side in allowed)
        raise InvalidArgument(
            f"A {how} join is estimated from its {kept} side while the other is complete, and "
            f"that one does not fit in memory ({megabytes(tables[allowed[0].other].held)} of "
            f"{megabytes(memory)}): whether a row stays alone is not known before.",
            remedy="Give more memory, or use Spark's own aggregate.",
        )
    return ReadPlan(
        design=RIPPLE,
        sampled=larger,
        orders=_orders(tables, tuple(Side), seed=seed),
        needs=None,
        reason="neither side fits in memory "
        f"({megabytes(min(table.held for table in tables))} for the smaller, "
        f"{megabytes(memory)} allowed) and they are not both clustered on the key",
        objection=_objection(tables),
    )


def _can_look_for_keys(sampled: Table, other: Table) -> bool:
    """Whether rows of a table of which no file tells anything can be joined with just those blocks
    of the other that hold their keys."""
    return not (sampled.counted or other.clustering is None or other.clustering > _MOST_SHARE)


def _found_ranges(tables: tuple[Table, Table], sampled: Side, *, seed: int, fits: bool) -> ReadPlan:
    reason = (
        f"the {sampled.other.name.lower()} side is clustered on the key, so a block of the "
        f"{sampled.name.lower()} side is read with the blocks that hold its keys, once it is seen "
        "which those are"
    )
    return ReadPlan(
        design=FOUND_RANGES,
        sampled=sampled,
        orders=_orders(tables, [sampled], seed=seed),
        needs=None,
        reason=f"{reason}; with all, which fit in memory, if those are many" if fits else reason,
    )


def _objection(tables: tuple[Table, Table]) -> str:
    """Blocks of two tables that both follow the key meet all of each other or nothing."""
    if all(table.clustering is not None and table.clustering < _SORTED for table in tables):
        return "both inputs follow the join key: few blocks of one meet a block of the other"
    return ""


def sampled_sides(how: JoinType) -> tuple[Side, ...]:
    """The sides whose rows each give their part of the result, once the other side is complete."""
    if how is JoinType.INNER:
        return tuple(Side)
    if how is JoinType.RIGHT:
        return (Side.RIGHT,)
    return () if how is JoinType.FULL else (Side.LEFT,)


def _needs(sampled: Sequence[Block], other: Sequence[Block]) -> tuple[tuple[int, ...], ...] | None:
    """Which blocks of the other side hold keys of each sampled one; None if too many do.

    A block without a single key, all of them null, meets nobody.
    """
    if any(block.keys is None for block in (*sampled, *other)) or not sampled or not other:
        return None
    least, most = np.array([block.keys for block in other]).T
    needs = []
    for block in sampled:
        assert block.keys is not None
        overlaps = (least <= block.keys[1]) & (most >= block.keys[0])
        needs.append(tuple(int(n) for n in np.flatnonzero(overlaps)))
    mean = sum(map(len, needs)) / len(needs)
    if mean > _MOST_NEEDED or mean > max(_MOST_SHARE * len(other), 1.5):
        return None
    return tuple(needs)


def _times_read(needs: Sequence[Sequence[int]], other: Table) -> float:
    """How often a row of the other side is needed. Pieces of one row group, of which only the
    whole group's range is known, all need the same."""
    rows = [block.rows for block in other.blocks]
    return sum(rows[number] for needed in needs for number in needed) / max(other.rows, 1)


def _orders(
    tables: tuple[Table, Table], sampled: Collection[Side], *, seed: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Random ones, independent of each other."""
    left, right = (
        tuple(random_order(len(tables[side].blocks), seed=seed + side)) if side in sampled else ()
        for side in Side
    )
    return left, right


def pieces(sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Blocks made of parts of these sizes: (part, start, stop). Few parts are cut, and of
    many those that are much larger than the others.

    >>> list(pieces([600, 300]))
    [(0, 0, 200), (0, 200, 400), (0, 400, 600), (1, 0, 150), (1, 150, 300)]
    """
    most = max(sum(sizes) // _ENOUGH_BLOCKS, _LEAST_ROWS)
    if len(sizes) >= _FEW_PARTS:
        most = max(most, _LARGE * sorted(sizes)[len(sizes) // 2])
    for part, size in enumerate(sizes):
        yield from ((part, start, stop) for start, stop in cut(size, most))


def cut(rows: int, most: int) -> Iterator[tuple[int, int]]:
    """Stretches of about the same length, none longer than `most`.

    >>> list(cut(10, 4))
    [(0, 4), (4, 7), (7, 10)]
    """
    parts = max(-(-rows // most), 1)
    ends = [rows - rows * part // parts for part in reversed(range(parts + 1))]
    yield from ((start, stop) for start, stop in pairwise(ends) if stop > start)
