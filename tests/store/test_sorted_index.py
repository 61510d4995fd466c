"""Levels of sorted codes: rows in a range are found, whatever was added, merged and dropped."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.store.index import HashIndex, Index, PairBuffer
from watersmeet.store.sorted_index import SortedIndex

# Few values, so that codes repeat, and both ends of what a code can be.
CODES = st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1)


def codes_of(values: list[int]) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def found(
    index: Index,
    first: list[int],
    last: list[int] | None = None,
    *,
    chunk: int = 1000,
    floor: int = 0,
) -> list[tuple[int, int]]:
    until = None if last is None else codes_of(last)
    pairs = list[tuple[int, int]]()
    for rows, asked in index.find(codes_of(first), PairBuffer(chunk), floor, until=until):
        assert 0 < len(rows) <= chunk
        pairs += zip(asked.tolist(), rows.tolist(), strict=True)
    return sorted(pairs)


@st.composite
def batches_and_drops(draw: st.DrawFn) -> list[list[int] | int]:
    """Batches of codes to add; a number is a seed by which some rows are dropped."""
    step = st.lists(CODES, max_size=12) | st.integers(0, 99)
    return draw(st.lists(step, min_size=1, max_size=12))


@given(
    steps=batches_and_drops(),
    ranges=st.lists(st.tuples(CODES, CODES), max_size=6),
    chunk=st.integers(1, 4),
    floor=st.integers(0, 6),
)
def test_every_row_in_a_range_is_found_once(
    steps: list[list[int] | int], ranges: list[tuple[int, int]], chunk: int, floor: int
) -> None:
    index, there = SortedIndex(200), list[int]()
    for step in steps:
        if isinstance(step, list):
            index.add(codes_of(step))
            there += step
        else:
            keep = np.random.default_rng(step).random(len(there)) < 0.6
            index.drop(keep)
            there = [code for code, kept in zip(there, keep, strict=True) if kept]
        assert len(index) == len(there)
    first, last = [low for low, _ in ranges], [high for _, high in ranges]
    expected = sorted(
        (i, row)
        for i, (low, high) in enumerate(ranges)
        for row, code in enumerate(there)
        if low <= code <= high and row >= floor
    )
    assert found(index, first, last, chunk=chunk, floor=floor) == expected
    codes, rows = index.in_order()
    assert codes.tolist() == sorted(there)
    assert sorted(rows.tolist()) == list(range(len(there)))
    assert [there[row] for row in rows] == codes.tolist()


@given(batches=st.lists(st.lists(CODES, max_size=9), max_size=6), wanted=st.lists(CODES))
def test_both_indexes_find_the_same_rows_of_equal_code(
    batches: list[list[int]], wanted: list[int]
) -> None:
    indexes: list[Index] = [HashIndex(100), SortedIndex(100)]
    for batch in batches:
        for index in indexes:
            index.add(codes_of(batch))
    by_hash, by_order = (found(index, wanted) for index in indexes)
    assert by_hash == by_order


def test_levels_stay_few() -> None:
    index = SortedIndex(100_000)
    random = np.random.default_rng(0)
    for _ in range(1000):
        index.add(random.integers(0, 2**63, 100).astype(np.uint64))
    assert len(index.levels) <= 11
    sizes = [level.stop - level.start for level in index.levels]
    assert all(before >= 2 * after for before, after in pairwise(sizes))


def test_ranges_that_end_before_they_begin_hold_nothing() -> None:
    index = SortedIndex(10)
    index.add(codes_of([3, 4, 5]))
    assert found(index, [5, 4], [3, 4]) == [(1, 1)]


def test_a_hash_index_has_no_ranges() -> None:
    index = HashIndex(10)
    index.add(codes_of([1]))
    with pytest.raises(AssertionError, match="order"):
        found(index, [0], [2])
