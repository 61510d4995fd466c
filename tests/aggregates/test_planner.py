"""The design follows from what the files say, and from nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.sampling.designs import COMPLETE, RANGES, RIPPLE
from watersmeet.aggregates.sampling.plan import Block, Table
from watersmeet.aggregates.sampling.planner import cut, pieces, plan_reads
from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.parquet.footers import Range
from watersmeet.policies.order import random_order


def clustered(blocks: int, *, rows: int = 100, width: int = 10, shift: int = 0) -> Table:
    """Block n holds the keys from n * width to (n + 1) * width - 1."""
    ranges = [(shift + n * width, shift + (n + 1) * width - 1) for n in range(blocks)]
    return Table(tuple(Block(rows, rows * 8, keys) for keys in ranges), 8)


def mixed(blocks: int, *, rows: int = 100, keys: Range | None = (0, 1000)) -> Table:
    return Table(tuple(Block(rows, rows * 8, keys) for _ in range(blocks)), 8)


def test_ranges_where_both_are_clustered() -> None:
    plan = plan_reads((clustered(10), clustered(100, shift=3)), JoinType.INNER, memory=0, seed=1)
    assert plan.design is RANGES
    assert plan.sampled is Side.RIGHT
    assert plan.needs is not None
    assert sorted(plan.orders[1]) == list(range(100))
    assert plan.orders[0] == ()
    # Keys 3 to 12 are in two blocks of the left table, 103 and above in none.
    assert plan.needs[0] == (0, 1)
    assert plan.needs[99] == ()
    assert "clustered on the key" in plan.reason


def test_pieces_of_a_few_row_groups_are_not_read_with_all_of_their_range_again_and_again() -> None:
    """Eight pieces of each of 16 row groups need every row of the smaller side eight times."""
    larger, smaller = (
        Table(tuple(b for b in clustered(16, rows=n).blocks for _ in range(8)), 8) for n in (80, 20)
    )
    fits = plan_reads((larger, smaller), JoinType.INNER, memory=smaller.held, seed=0)
    assert (fits.design, fits.sampled) == (COMPLETE, Side.LEFT)
    not_quite = plan_reads((larger, smaller), JoinType.INNER, memory=smaller.held - 1, seed=0)
    assert not_quite.design is RANGES


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=12),
)
def test_a_block_is_read_with_every_block_that_may_hold_one_of_its_keys(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    tables = tuple(
        Table(tuple(Block(10, 80, (low, low + more)) for low, more in side), 8)
        for side in (left, right)
    )
    plan = plan_reads((tables[0], tables[1]), JoinType.INNER, memory=10**9, seed=0)
    if plan.design is RANGES:
        assert plan.needs is not None
        mine, others = tables[plan.sampled].blocks, tables[plan.other].blocks
        for block, needs in zip(mine, plan.needs, strict=True):
            for number, other in enumerate(others):
                assert block.keys is not None
                assert other.keys is not None
                keys = set(range(block.keys[0], block.keys[1] + 1))
                shared = keys & set(range(other.keys[0], other.keys[1] + 1))
                assert bool(shared) == (number in needs)


def test_never_by_ranges_where_a_footer_says_nothing() -> None:
    silent = Table((*clustered(50).blocks, Block(100, 800, None)), 8)
    for tables in ((silent, clustered(50)), (clustered(50), silent)):
        plan = plan_reads(tables, JoinType.INNER, memory=10**9, seed=0)
        assert plan.design is COMPLETE


def test_nor_where_keys_mean_something_else_on_the_other_side() -> None:
    tables = (clustered(50), clustered(50))
    plan = plan_reads(tables, JoinType.INNER, memory=10**9, seed=0, alike=False)
    assert plan.design is COMPLETE


def test_complete_where_the_smaller_side_fits() -> None:
    tables = (mixed(10), mixed(40))
    plan = plan_reads(tables, JoinType.INNER, memory=10 * 100 * 8, seed=0)
    assert (plan.design, plan.sampled, plan.needs) == (COMPLETE, Side.RIGHT, None)
    assert plan.orders[0] == ()
    assert "left side fits in memory" in plan.reason
    # A byte less, and it does not.
    plan = plan_reads(tables, JoinType.INNER, memory=10 * 100 * 8 - 1, seed=0)
    assert plan.design is RIPPLE
    assert [len(order) for order in plan.orders] == [10, 40]
    assert "neither side fits" in plan.reason


@pytest.mark.parametrize(
    ("how", "sampled"), [("left", Side.LEFT), ("semi", Side.LEFT), ("anti", Side.LEFT),
                         ("right", Side.RIGHT)],
)  # fmt: skip
def test_an_outer_join_is_sampled_on_the_side_that_stays(how: str, sampled: Side) -> None:
    """Even where it is the smaller one; if the other cannot be complete there is no way."""
    tables = (mixed(10), mixed(40)) if sampled is Side.LEFT else (mixed(40), mixed(10))
    plan = plan_reads(tables, JoinType.parse(how), memory=10**9, seed=0)
    assert (plan.design, plan.sampled) == (COMPLETE, sampled)
    with pytest.raises(InvalidArgument, match=rf"{how} join .* does not fit in memory"):
        plan_reads(tables, JoinType.parse(how), memory=10_000, seed=0)
    by_range = plan_reads((clustered(40), clustered(40)), JoinType.parse(how), memory=0, seed=0)
    assert (by_range.design, by_range.sampled) == (RANGES, sampled)


def test_orders_are_random_and_of_two_sides_independent() -> None:
    def orders(seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return plan_reads((mixed(200), mixed(200)), JoinType.INNER, memory=0, seed=seed).orders

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    left, right = orders(1)
    assert left != right
    assert sorted(left) == sorted(right) == list(range(200))
    # Every place is as likely as any other: the mean of the first, over seeds, is the middle.
    firsts = [random_order(100, seed=seed)[0] for seed in range(400)]
    # Four standard errors of 100 / sqrt(12 * 400).
    assert abs(sum(firsts) / 400 - 49.5) < 4 * 1.44


@given(st.lists(st.integers(1, 5_000), max_size=80))
def test_pieces_cover_every_row_once(sizes: list[int]) -> None:
    found = list(pieces(sizes))
    for part, size in enumerate(sizes):
        mine = [(start, stop) for number, start, stop in found if number == part]
        assert mine[0][0] == 0
        assert mine[-1][1] == size
        assert all(one[1] == other[0] for one, other in pairwise(mine))
    if len(sizes) >= 64:
        assert len(found) == len(sizes)
    elif sum(sizes) > 64 * 256:
        assert len(found) >= 64


@given(st.integers(0, 1000), st.integers(1, 100))
def test_stretches_are_alike(rows: int, most: int) -> None:
    lengths = [stop - start for start, stop in cut(rows, most)]
    assert sum(lengths) == rows
    assert all(0 < length <= most for length in lengths)
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
