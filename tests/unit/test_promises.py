"""Promises about codes, as sets of numbers would keep them."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.rows.promises import (
    LAST_CODE,
    Promise,
    Promises,
    Ranges,
    intersect,
    subtract,
    unite,
)

# Few codes, at both ends of what there is: neighbours and overflows are where mistakes are made.
CODES = [*range(12), *range(LAST_CODE - 11, LAST_CODE + 1)]
RANGES = st.lists(
    st.tuples(st.sampled_from(CODES), st.sampled_from(CODES))
    .map(sorted)
    .filter(lambda ends: ends[1] - ends[0] < 12 or ends == [0, LAST_CODE]),
    max_size=6,
)


def ranges_of(listed: list[list[int]]) -> Ranges:
    return np.array(listed, np.uint64).reshape(-1, 2)


def codes_in(ranges: Ranges) -> set[int]:
    return {code for code in CODES for first, last in ranges.tolist() if first <= code <= last}


def assert_tidy(ranges: Ranges) -> None:
    flat = [code for both in ranges.tolist() for code in both]
    assert flat == sorted(flat)
    between = zip(flat[1:-1:2], flat[2::2], strict=True)
    assert all(last + 1 < first for last, first in between)


@given(some=RANGES, others=RANGES)
def test_ranges_are_sets_of_codes(some: list[list[int]], others: list[list[int]]) -> None:
    mine, theirs = unite(ranges_of(some)), unite(ranges_of(others))
    assert_tidy(mine)
    assert codes_in(mine) == codes_in(ranges_of(some))
    assert codes_in(intersect(mine, theirs)) == codes_in(mine) & codes_in(theirs)
    left = subtract(mine, theirs)
    assert_tidy(left)
    assert codes_in(left) == codes_in(mine) - codes_in(theirs)


@given(accepted=st.lists(RANGES, max_size=4), forgotten=RANGES, asked=RANGES)
def test_what_is_covered_is_what_was_promised_and_not_forgotten(
    accepted: list[list[list[int]]], forgotten: list[list[int]], asked: list[list[int]]
) -> None:
    promises, known = Promises(), set[int]()
    for ranges in accepted:
        promises.accept(1, Promise(0, ranges_of(ranges)))
        known |= codes_in(ranges_of(ranges))
    promises.forget(1, 0, unite(ranges_of(forgotten)))
    known -= codes_in(ranges_of(forgotten))
    promises = Promises.load(json.loads(json.dumps(promises.save())))
    assert bool(promises) == bool(known)
    first, last = ranges_of(asked).T
    wholly = [codes_in(ranges_of([both])) <= known for both in asked if both != [0, LAST_CODE]]
    covered = promises.cover(1, 0, first, last).tolist()
    assert [c for c, both in zip(covered, asked, strict=True) if both != [0, LAST_CODE]] == wholly
    some = [bool(codes_in(ranges_of([both])) & known) for both in asked]
    assert promises.touch(1, 0, first, last).tolist() == some
    codes = np.array(CODES, np.uint64)
    assert promises.broken_by(1, 0, codes).tolist() == [code in known for code in CODES]
    assert not promises.broken_by(0, 0, codes).any()


@given(
    promised=RANGES,
    asked=st.lists(st.tuples(st.sampled_from(CODES), st.sampled_from(CODES)), max_size=40),
)
def test_what_is_covered_does_not_depend_on_what_was_asked_before(
    promised: list[list[int]], asked: list[tuple[int, int]]
) -> None:
    """Ranges are looked for near the one before: rows in any order must get the same answers."""
    promises = Promises()
    promises.accept(0, Promise(0, ranges_of(promised)))
    first, last = ranges_of([list(both) for both in asked]).T
    together = promises.cover(0, 0, first, last)
    alone = [promises.cover(0, 0, first[k : k + 1], last[k : k + 1])[0] for k in range(len(asked))]
    assert together.tolist() == alone
    lying = [
        any(a <= x and y <= b for a, b in unite(ranges_of(promised)).tolist()) for x, y in asked
    ]
    assert together.tolist() == [
        inside or x > y for inside, (x, y) in zip(lying, asked, strict=True)
    ]


def test_an_empty_reach_needs_no_promise() -> None:
    first, last = np.array([7], np.uint64), np.array([6], np.uint64)
    assert Promises().cover(0, 0, first, last).tolist() == [True]


def test_a_promise_about_nothing_is_none() -> None:
    promises = Promises()
    promises.accept(0, Promise.between(0, 9, 8))
    promises.accept(0, Promise.of_codes(0, np.empty(0, np.uint64)))
    assert not promises
