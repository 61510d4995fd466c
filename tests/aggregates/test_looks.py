"""Looks read every block once, each about as many as all before it together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.sampling.designs import COMPLETE, RIPPLE
from watersmeet.aggregates.sampling.looks import (
    FEWEST_BLOCKS,
    Look,
    Looks,
    LooksAtBothSides,
    LooksAtOneSide,
)
from watersmeet.aggregates.sampling.plan import ReadPlan
from watersmeet.model import Side


def backwards(blocks: int) -> tuple[int, ...]:
    return tuple(reversed(range(blocks)))


def looks_at(blocks: int) -> Looks:
    return LooksAtOneSide(ReadPlan(COMPLETE, Side.LEFT, (backwards(blocks), ()), None, ""))


def all_of(looks: Looks) -> list[Look]:
    found: list[Look] = []
    while not found or not found[-1].last:
        found.append(looks.next())
        looks.taken(found[-1])
        assert len(found) < 60
    return found


@given(st.integers(0, 5_000))
def test_one_side_in_order_and_to_the_end(count: int) -> None:
    looks = looks_at(count)
    assert not looks.begun
    found = all_of(looks)
    read = [block for look in found for block in look.blocks[0]]
    assert read == list(reversed(range(count)))
    assert all(look.blocks[1] == () for look in found)
    assert len(found) == looks.most
    sizes = [len(look.blocks[0]) for look in found]
    if len(sizes) > 1:
        assert sizes[0] >= FEWEST_BLOCKS
        # No more than was read before, but for the first and the last.
        assert all(sizes[n] <= sum(sizes[:n]) for n in range(1, len(sizes) - 1))


@given(st.integers(0, 400), st.integers(0, 400), st.lists(st.sampled_from(Side), min_size=60))
def test_a_rectangle_grows_where_it_is_told_and_is_whole_in_the_end(
    left: int, right: int, wanted: list[Side]
) -> None:
    orders = (backwards(left), backwards(right))
    plan = ReadPlan(RIPPLE, Side.LEFT, orders, None, "")
    done, found = [0, 0], 0
    looks = LooksAtBothSides(plan, lambda: wanted[found])
    while True:
        chosen = wanted[found]
        look = looks.next()
        looks.taken(look)
        grown = [side for side in Side if look.blocks[side]]
        if found and done[chosen] < (left, right)[chosen]:
            assert grown == [chosen]
        for side in Side:
            order = looks.plan.orders[side]
            assert look.blocks[side] == order[done[side] : done[side] + len(look.blocks[side])]
            done[side] += len(look.blocks[side])
        found += 1
        assert look.last == (done == [left, right])
        if look.last:
            break
        assert grown


@given(st.integers(0, 300), st.integers(0, 5))
def test_the_rest_at_any_moment(count: int, before: int) -> None:
    looks = looks_at(count)
    read: list[int] = []
    for _ in range(min(before, looks.most - 1)):
        look = looks.next()
        looks.taken(look)
        read += look.blocks[0]
    rest = looks.rest()
    assert rest.last
    assert [*read, *rest.blocks[0]] == list(reversed(range(count)))


def test_a_look_that_was_not_taken_comes_again() -> None:
    looks = looks_at(500)
    first = looks.next()
    assert looks.next() == first
    looks.taken(first)
    assert not set(looks.next().blocks[0]) & set(first.blocks[0])
