"""Blocks that stand out are read in any case; the others in strata of blocks alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.sampling.designs import COMPLETE
from watersmeet.aggregates.sampling.draw import AT_ONCE, Division, divided
from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.aggregates.sampling.looks import Looks, LooksAtOneSide
from watersmeet.aggregates.sampling.plan import ReadPlan
from watersmeet.aggregates.sampling.planner import pieces
from watersmeet.model import Side
from watersmeet.policies.order import random_order

BLOCKS, ROWS = 200, 500


def column(values: np.ndarray, *, nulls: np.ndarray | None = None) -> ColumnFacts:
    """What a footer says of values [blocks, rows]."""
    blocks = len(values)
    return ColumnFacts(
        values.min(axis=1),
        values.max(axis=1),
        np.zeros(blocks) if nulls is None else nulls,
        np.full(blocks, 8.0),
        values=True,
    )


def divided_by(values: np.ndarray, rows: list[int] | None = None) -> Division:
    facts = column(values)
    return divided(rows or [ROWS] * len(values), [facts.ends], [facts])


def usual(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).gamma(2.0, 20.0, (BLOCKS, ROWS))


@pytest.mark.parametrize("seed", range(5))
def test_of_blocks_in_random_order_few_are_certain(seed: int) -> None:
    assert divided_by(usual(seed)).certain <= 6


@pytest.mark.parametrize("factor", [3.0, 10.0, 50.0, -1.0])
@pytest.mark.parametrize("odd", [[17], [3, 50, 51, 120, 199]])
def test_blocks_with_other_values_are_certain(odd: list[int], factor: float) -> None:
    values = usual()
    values[odd] *= factor
    strata = divided_by(values).strata
    assert all(strata[block] == -1 for block in odd)
    assert sum(stratum < 0 for stratum in strata) <= len(odd) + 6


def test_a_kind_that_is_no_exception_is_a_stratum() -> None:
    values = usual()
    values[::4] *= 20
    strata = np.array(divided_by(values).strata)
    kinds = [set(strata[place::4]) - {-1} for place in range(4)]
    assert not kinds[0] & (kinds[1] | kinds[2] | kinds[3])


def test_a_file_in_the_order_of_its_values_is_cut_into_stretches() -> None:
    values = np.sort(usual().ravel()).reshape(BLOCKS, ROWS)
    division = divided_by(values)
    assert 3 <= division.count <= 8
    strata = np.array([stratum for stratum in division.strata if stratum >= 0])
    # Each is one stretch.
    assert np.count_nonzero(np.diff(strata)) == division.count - 1
    # The last block has the largest values, of which there is only one.
    assert division.strata[-1] == -1


def test_nulls_sizes_and_bytes_tell_blocks_apart_too() -> None:
    facts = column(usual())
    nulls, width = facts.nulls.copy(), facts.width.copy()
    nulls[5], width[6] = 0.5, 3.0
    differ = ColumnFacts(facts.least, facts.most, nulls, width, values=True)
    strata = divided([ROWS] * BLOCKS, [None], [differ]).strata
    assert (strata[5], strata[6]) == (-1, -1)
    sizes = [ROWS * 10 if block % 5 == 0 else ROWS for block in range(BLOCKS)]
    strata = divided(sizes, [None], []).strata
    assert len(set(strata[::5]) & set(strata[1::5])) == 0


def test_blocks_that_cannot_pass_a_filter_are_hardly_read() -> None:
    passes = np.where(np.arange(BLOCKS) < 150, 0.0, 0.5)
    division = divided([ROWS] * BLOCKS, [], [], passes)
    drawn = division.order(3)[:24]
    assert len({division.strata[block] for block in drawn}) == 2
    assert sum(block < 150 for block in drawn) <= 6


def test_a_kind_of_two_blocks_is_certain() -> None:
    passes = np.where(np.isin(np.arange(BLOCKS), (7, 80)), 0.5, 0.0)
    strata = divided([ROWS] * BLOCKS, [], [], passes).strata
    assert (strata[7], strata[80]) == (-1, -1)


def test_where_nothing_is_known_the_order_is_a_plain_random_one() -> None:
    division = divided([ROWS] * BLOCKS, [None], [])
    assert division.certain == 0
    assert division.order(5) == tuple(random_order(BLOCKS, seed=5))


@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=120),
    st.integers(0, 2**30),
)
def test_every_block_comes_once_and_strata_keep_their_share(kinds: list[int], seed: int) -> None:
    numbers = {kind: place for place, kind in enumerate(sorted(set(kinds) - {-1}))} | {-1: -1}
    strata = tuple(numbers[kind] for kind in kinds)
    division = Division(strata, (1.0,) * len(strata))
    order = division.order(seed)
    assert sorted(order) == list(range(len(strata)))
    assert all(strata[block] == -1 for block in order[: division.certain])
    sizes = [strata.count(stratum) for stratum in range(division.count)]
    drawn = [0] * division.count
    for place, block in enumerate(order[division.certain :], 1):
        drawn[strata[block]] += 1
        if place > 3 * division.count:
            share = place / sum(sizes)
            assert all(
                abs(done - share * size) <= 3 * division.count + 1
                for done, size in zip(drawn, sizes, strict=True)
            )


def test_each_block_of_a_stratum_is_as_likely_to_come_first() -> None:
    division = divided_by(np.sort(usual().ravel()).reshape(BLOCKS, ROWS))
    first = np.zeros(BLOCKS)
    for seed in range(600):
        first[list(division.order(seed)[: division.certain + 20])] += 1
    strata = np.array(division.strata)
    for stratum in range(division.count):
        counts = first[strata == stratum]
        share = counts.mean() / 600
        assert counts.std() < 1.6 * np.sqrt(600 * share * (1 - share)) + 1


def test_what_is_certain_comes_with_the_first_look() -> None:
    values = usual()
    values[[3, 50, 51, 120, 199]] *= 10
    division = divided_by(values)
    plan = ReadPlan(COMPLETE, Side.LEFT, (division.order(0), ()), None, "", division=division)
    look = LooksAtOneSide(plan).next()
    assert {3, 50, 51, 120, 199} <= set(look.blocks[0])
    assert len(look.blocks[0]) >= 20 + division.certain


def test_parts_that_are_much_larger_than_the_others_are_cut() -> None:
    sizes = [400] * 120 + [150_000] * 3
    found = list(pieces(sizes))
    assert max(stop - start for _, start, stop in found) <= 4_000
    assert sum(stop - start for _, start, stop in found) == sum(sizes)
    # Even parts are left alone, however large.
    assert len(list(pieces([150_000] * 100))) == 100


def read_of_each(division: Division, looks: Looks) -> list[int]:
    """Blocks of each stratum in the next look, and in those before it."""
    look = looks.next()
    looks.taken(look)
    strata = np.array(division.strata)
    read = np.array(division.order(0))[: looks.done(Side.LEFT)]
    return [int((strata[read] == stratum).sum()) for stratum in range(division.count)]


def looks_of(division: Division) -> Looks:
    return LooksAtOneSide(
        ReadPlan(COMPLETE, Side.LEFT, (division.order(0), ()), None, "", division=division)
    )


def test_of_every_stratum_the_first_look_has_enough_to_know_its_spread() -> None:
    values = np.sort(np.random.default_rng(3).lognormal(3, 1.1, (BLOCKS, ROWS)), axis=None)
    division = divided_by(values.reshape(BLOCKS, ROWS))
    assert division.count == 6
    assert min(read_of_each(division, looks_of(division))) >= 5


def test_a_stratum_that_would_be_read_as_a_whole_is_no_sample() -> None:
    values = np.sort(np.random.default_rng(3).lognormal(3, 1.3, (BLOCKS, ROWS)), axis=None)
    division = divided_by(values.reshape(BLOCKS, ROWS))
    counts = np.bincount(np.array(division.strata) + 1)
    assert (counts[1:] > AT_ONCE).all()
    assert division.at_once == counts[0] + AT_ONCE * division.count


def test_a_small_stratum_grows_with_the_looks_and_does_not_wait_for_its_share() -> None:
    sizes = [ROWS * (3 if block < 20 else 1) for block in range(BLOCKS)]  # no exceptions
    division = divided(sizes, [], [])
    assert division.count == 2
    looks = looks_of(division)
    read_of_each(division, looks)
    small, large = sorted(read_of_each(division, looks))
    # Of the rows they have a quarter, and of the blocks a tenth.
    assert small / (small + large) > 0.3


def test_small_blocks_are_read_more_often_than_their_rows_ask() -> None:
    """Of rows that are independent a block varies with the root of their number."""
    division = divided([500] * 200 + [4_500] * 100, [], [])
    weights = np.array(division.weights)
    small, large = weights[:200].sum(), weights[200:].sum()
    # By rows 2 : 9, by their roots 2 : 3, in the middle 2 : 4.8; and of that the root.
    assert (small / large) ** 2 == pytest.approx(2 / 4.8, rel=0.1)
