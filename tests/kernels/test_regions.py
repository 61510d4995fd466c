"""The clock of DINER's middle region, told by obvious Python; counting; the order of codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import regions, sorting


@dataclass(frozen=True)
class Swept:
    chosen: list[int]
    hand: int
    joined: list[int]


def sweep(joined: list[int], start: int, stop: int, *, hand: int, count: int) -> Swept:
    """Row n is at position n."""
    bits, chosen = np.array(joined, np.uint8), np.full(count, -1, np.int64)
    rows = np.arange(len(joined), dtype=np.int32)
    found, hand = regions.sweep(rows, start, stop, hand, bits, np.zeros_like(bits), chosen)
    return Swept(chosen[:found].tolist(), hand, bits.tolist())


def by_hand(joined: list[int], start: int, stop: int, *, hand: int, count: int) -> Swept:
    """A clock's hand over a list: one step at a time, until enough are chosen or none is left."""
    bits, chosen = list(joined), list[int]()
    if start >= stop:
        return Swept([], hand, bits)
    position = hand if start <= hand < stop else start
    while len(chosen) < min(count, stop - start):
        if position not in chosen:
            if bits[position]:
                bits[position] = 0
            else:
                chosen.append(position)
        position = start if position + 1 == stop else position + 1
    return Swept(chosen, position, bits)


def test_it_takes_rows_that_have_not_joined() -> None:
    assert sweep([0, 0, 0, 0], 0, 4, hand=0, count=2) == Swept([0, 1], 2, [0, 0, 0, 0])


def test_it_passes_rows_that_have_joined_and_clears_their_bits() -> None:
    assert sweep([1, 0, 1, 0, 1], 0, 5, hand=0, count=2) == Swept([1, 3], 4, [0, 0, 0, 0, 1])


def test_in_the_second_turn_it_takes_rows_that_it_has_passed() -> None:
    assert sweep([1, 1, 1], 0, 3, hand=1, count=2) == Swept([1, 2], 0, [0, 0, 0])
    assert sweep([1, 0, 1], 0, 3, hand=0, count=2) == Swept([1, 0], 1, [0, 0, 0])


def test_it_goes_on_where_it_stood() -> None:
    first = sweep([0, 1, 0, 0, 0], 0, 5, hand=3, count=3)
    assert first == Swept([3, 4, 0], 1, [0, 1, 0, 0, 0])
    again = sweep(first.joined, 0, 5, hand=first.hand, count=1)
    assert again == Swept([2], 3, [0, 0, 0, 0, 0])


def test_it_stays_in_its_region() -> None:
    assert sweep([0] * 6, 2, 4, hand=5, count=9) == Swept([2, 3], 2, [0] * 6)
    assert sweep([1] * 6, 2, 4, hand=0, count=1) == Swept([2], 3, [1, 1, 0, 0, 1, 1])
    assert sweep([0] * 6, 3, 3, hand=3, count=2) == Swept([], 3, [0] * 6)


def test_bits_belong_to_rows_and_not_to_positions() -> None:
    rows, bits = np.array([2, 0, 1], np.int32), np.array([1, 0, 0], np.uint8)
    chosen = np.empty(2, np.int64)
    none = np.zeros(3, np.uint8)
    assert regions.sweep(rows, 0, 3, 0, bits, none, chosen) == (2, 0)
    assert chosen.tolist() == [0, 2]
    assert bits.tolist() == [0, 0, 0]


def test_rows_that_leave_already_are_passed() -> None:
    rows, bits = np.array([2, 0, 1, 3], np.int32), np.array([1, 0, 0, 0], np.uint8)
    leaving, chosen = np.array([0, 0, 1, 0], np.uint8), np.empty(2, np.int64)
    assert regions.sweep(rows, 0, 4, 0, bits, leaving, chosen) == (2, 0)
    assert chosen.tolist() == [2, 3]
    assert bits.tolist() == [0, 0, 0, 0]


@given(
    joined=st.lists(st.integers(0, 1), max_size=12),
    ends=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    hand=st.integers(0, 14),
    count=st.integers(0, 12),
)
def test_it_is_a_clock(joined: list[int], ends: tuple[int, int], hand: int, count: int) -> None:
    check_clock(joined, ends, hand, count)


def check_clock(joined: list[int], ends: tuple[int, int], hand: int, count: int) -> None:
    start, stop = (min(end, len(joined)) for end in ends)
    count = min(count, max(stop - start, 0))
    got = sweep(joined, start, stop, hand=hand, count=count)
    expected = by_hand(joined, start, stop, hand=hand, count=count)
    assert got.chosen == expected.chosen
    assert got.joined == expected.joined
    assert len(got.chosen) == count
    if count:
        assert got.hand == expected.hand


def test_results_are_counted_by_region_and_rows_get_their_bit() -> None:
    of, joined = np.array([0, 2, 2, 1], np.uint8), np.zeros(4, np.uint8)
    joins = np.array([10, 0, 0])
    regions.count_joins(np.array([1, 1, 0, 2]), of, joined, joins)
    assert joins.tolist() == [11, 0, 3]
    assert joined.tolist() == [1, 1, 1, 0]


# ---- the order of codes -------------------------------------------------------------------------

NEAR = st.integers(0, 9).map(lambda n: 2**63 + n)
CODES = st.integers(0, 5) | NEAR | st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**64 - 1])


def check_sorted(values: list[int]) -> None:
    codes = np.array(values, np.uint64)
    order = np.argsort(codes, kind="stable")
    before = codes.copy()
    ordered, rows = sorting.sort(codes)
    assert ordered.dtype == np.uint64
    assert rows.dtype == np.int32
    assert rows.tolist() == order.tolist()
    assert ordered.tolist() == codes[order].tolist()
    assert codes.tolist() == before.tolist(), "what was given is changed"


@given(st.lists(CODES, max_size=40))
def test_codes_are_sorted_and_of_equal_ones_the_first_comes_first(values: list[int]) -> None:
    check_sorted(values)


@pytest.mark.parametrize("bits", [1, 10, 11, 12, 33, 44, 64])
def test_codes_that_differ_in_some_digits_only_are_sorted(bits: int) -> None:
    """Digits that all have in common are left out: with the first or the last bits the same."""
    drawn = np.random.default_rng(bits).integers(0, 2**64, 5000, np.uint64)
    check_sorted((drawn >> np.uint64(64 - bits)).tolist())
    check_sorted((drawn << np.uint64(64 - bits)).tolist())
    check_sorted(sorted(drawn.tolist(), reverse=True))


@pytest.mark.parametrize("distinct", [40, 3_000, 2**40])
@pytest.mark.parametrize("rows", [70, 1_500, 6_000])
def test_codes_whose_first_digits_do_not_tell_them_apart_are_sorted_by_all(
    rows: int, distinct: int
) -> None:
    """One code is far from all others, or from those of a few clusters."""
    drawn = np.random.default_rng(rows).integers(0, distinct, rows, np.uint64)
    far = np.append(drawn, np.uint64(2**63)).tolist()
    check_sorted(far)
    check_sorted(far[::-1])
    clusters = np.random.default_rng(distinct).choice([0, 2**50, 2**62], rows).astype(np.uint64)
    check_sorted((drawn + clusters).tolist())


def test_codes_that_rise_are_not_moved_and_are_copied() -> None:
    codes = np.array([1, 2, 2, 3], np.uint64)
    ordered, rows = sorting.sort(codes)
    ordered[0] = 7
    assert codes[0] == 1
    assert rows.tolist() == [0, 1, 2, 3]


@given(st.lists(st.integers(0, 9)), st.integers(0, 9), st.integers(0, 9))
def test_rows_are_divided_by_both_boundaries(values: list[int], lower: int, more: int) -> None:
    upper = lower + 1 + more
    codes, rows = sorting.sort(np.array(values, np.uint64))
    given_to, counts = np.full(len(values), 9, np.uint8), np.full(3, 9, np.int64)
    regions.divide(codes, rows, np.uint64(lower), np.uint64(upper), given_to, counts)
    expected = [0 if value <= lower else 2 if value >= upper else 1 for value in values]
    assert given_to.tolist() == expected
    assert counts.tolist() == [expected.count(region) for region in range(3)]


def test_rows_that_leave_are_left_out_with_their_stamps() -> None:
    stamps = np.array([10, 20, 30, 40, 50])
    came, keep = sorting.leave_out(np.array([3, 0], np.int32), stamps)
    assert came.tolist() == [40, 10]
    assert keep.tolist() == [False, True, True, False, True]
