"""The three regions of DINER: boundaries, counters, and who gives up rows first."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.policies.regions import Region, Regions

LOWER, MIDDLE, UPPER = Region
CODES = st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1) | st.integers(0, 2**64 - 1)


def codes_of(values: list[int]) -> NDArray[np.uint64]:
    return np.array(sorted(values), np.uint64)


def test_before_the_first_flush_all_rows_are_in_the_middle() -> None:
    regions = Regions()
    assert regions.of(codes_of([0, 5, 2**64 - 1])).tolist() == [MIDDLE] * 3
    regions.arrived(regions.of(codes_of([1, 2, 3])), np.array([4, 0, 1]))
    assert regions.rows.tolist() == [0, 3, 0]
    assert regions.joins.tolist() == [0, 5, 0]
    assert regions.by_benefit() == [MIDDLE]


def test_after_the_first_flush_a_block_of_rows_is_at_either_end() -> None:
    """LastLwVal and LastUpVal: the last code of the lower block, the first of the upper one."""
    regions, codes = Regions(), codes_of([*range(10, 20)])
    regions.move(codes, 3, {MIDDLE})
    assert (regions.lower, regions.upper) == (12, 17)
    assert regions.of(codes).tolist() == [LOWER] * 3 + [MIDDLE] * 4 + [UPPER] * 3


def test_only_the_boundary_of_a_flushed_region_moves() -> None:
    for flushed, expected in (
        ({MIDDLE}, (5, 50)),
        ({LOWER}, (12, 50)),
        ({UPPER}, (5, 17)),
        ({LOWER, UPPER}, (12, 17)),
    ):
        regions = Regions(lower=5, upper=50)
        regions.move(codes_of([*range(10, 20)]), 3, flushed)
        assert (regions.lower, regions.upper) == expected


def test_boundaries_at_equal_codes_take_all_rows_of_that_code() -> None:
    regions, codes = Regions(), codes_of([1, 1, 1, 1, 5, 9, 9, 9, 9])
    regions.move(codes, 2, set(Region))
    assert (regions.lower, regions.upper) == (1, 9)
    assert regions.of(codes).tolist() == [LOWER] * 4 + [MIDDLE] + [UPPER] * 4


@pytest.mark.parametrize("code", [0, 7, 2**64 - 1])
def test_all_codes_equal(code: int) -> None:
    """Nothing lies between them, and every row is in one region still."""
    regions, codes = Regions(), codes_of([code] * 5)
    for block in (1, 5, 9):
        regions.move(codes, block, set(Region))
        assert regions.lower is not None
        assert regions.upper is not None
        assert regions.lower < regions.upper
        assert len(set(regions.of(codes).tolist())) == 1


@given(
    flushes=st.lists(
        st.tuples(
            st.lists(CODES, max_size=12), st.integers(1, 9), st.sets(st.sampled_from(Region))
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_lower_boundary_is_below_the_upper_one_always(
    flushes: list[tuple[list[int], int, set[Region]]],
) -> None:
    regions = Regions()
    for values, block, flushed in flushes:
        codes = codes_of(values)
        regions.move(codes, block, flushed)
        if regions.lower is None or regions.upper is None:
            assert not len(codes)
            continue
        assert 0 <= regions.lower < regions.upper < 2**64
        of = regions.of(codes).tolist()
        assert of == sorted(of), "regions follow each other"


def test_codes_that_rise_with_time_leave_no_boundary_behind() -> None:
    """Old codes leave below, new ones come above: the lower boundary passes the old upper one."""
    regions = Regions()
    for start in range(0, 400, 20):
        codes = codes_of([*range(start, start + 40)])
        regions.move(codes, 10, {LOWER})
        assert regions.lower is not None
        assert regions.upper is not None
        assert regions.lower == start + 9
        rows = np.bincount(regions.of(codes), minlength=3)
        assert rows[LOWER] == 10
        assert rows.sum() == 40
    assert regions.upper is not None
    assert regions.upper > 380


def test_an_empty_memory_moves_nothing() -> None:
    regions = Regions(lower=3, upper=9)
    regions.move(codes_of([]), 4, set(Region))
    assert (regions.lower, regions.upper) == (3, 9)


# ---- counters, and who is first -----------------------------------------------------------------


def counted(rows: list[int], joins: list[int]) -> Regions:
    return Regions(lower=3, upper=9, rows=np.array(rows), joins=np.array(joins))


def test_fewest_results_per_row_go_first() -> None:
    assert counted([10, 10, 10], [5, 1, 9]).by_benefit() == [MIDDLE, LOWER, UPPER]
    # Per row: many results of many rows may be few.
    assert counted([100, 10, 1], [90, 10, 2]).by_benefit() == [LOWER, MIDDLE, UPPER]


def test_of_equal_regions_algorithm_2_asks_about_the_upper_one_first() -> None:
    assert counted([1, 1, 1], [0, 0, 0]).by_benefit() == [UPPER, LOWER, MIDDLE]
    assert counted([2, 4, 6], [1, 2, 3]).by_benefit() == [UPPER, LOWER, MIDDLE]
    assert counted([2, 4, 6], [1, 2, 4]).by_benefit() == [LOWER, MIDDLE, UPPER]


def test_regions_without_rows_give_up_nothing() -> None:
    assert counted([0, 3, 0], [9, 1, 9]).by_benefit() == [MIDDLE]
    assert counted([0, 0, 0], [0, 0, 0]).by_benefit() == []


def test_arrivals_are_counted_with_what_they_found() -> None:
    regions = counted([1, 1, 1], [0, 0, 0])
    of = np.array([LOWER, UPPER, UPPER, MIDDLE], np.uint8)
    regions.arrived(of, np.array([2, 0, 3, 1]))
    assert regions.rows.tolist() == [2, 2, 3]
    assert regions.joins.tolist() == [2, 1, 3]


def test_after_a_flush_results_are_counted_anew() -> None:
    regions = counted([9, 9, 9], [9, 9, 9])
    regions.recount(np.array([LOWER, LOWER, UPPER], np.uint8))
    assert regions.rows.tolist() == [2, 0, 1]
    assert regions.joins.tolist() == [0, 0, 0]


def test_regions_that_remember_begin_with_a_share_of_their_results_per_row() -> None:
    regions = counted([10, 20, 5], [40, 20, 0])
    benefits = regions.benefits
    assert benefits.tolist() == [4.0, 1.0, 0.0]
    regions.recount(np.array([LOWER, MIDDLE, MIDDLE, UPPER], np.uint8))
    regions.remember(benefits, 0.5)
    assert regions.joins.tolist() == [2, 1, 0]
    regions.remember(benefits, 0.0)
    assert regions.joins.tolist() == [0, 0, 0]


def test_what_is_saved_is_what_was_there_but_for_rows_that_are_counted_again() -> None:
    regions = Regions(2, 2**64 - 1, joins=np.array([1, 2, 3]), hand=2**63)
    restored = Regions.load(json.loads(json.dumps(regions.save())))
    assert (restored.lower, restored.upper, restored.hand) == (2, 2**64 - 1, 2**63)
    assert restored.joins.tolist() == [1, 2, 3]
    assert restored.rows.tolist() == [0, 0, 0]
