"""Marks remember which rows have found a partner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.store.marks import Marks

STAMPS = st.lists(st.integers(0, 60), max_size=20)


@given(steps=st.lists(st.tuples(st.booleans(), STAMPS), max_size=6), asked=STAMPS)
def test_marks_are_a_set_of_stamps(steps: list[tuple[bool, list[int]]], asked: list[int]) -> None:
    marks, known = Marks(), set[int]()
    for tells, stamps in steps:
        if tells:
            fresh = marks.mark_new(np.array(stamps, np.int64))
            first = [s not in known and s not in stamps[:n] for n, s in enumerate(stamps)]
            assert fresh.tolist() == first
        else:
            marks.mark(np.array(stamps, np.int64))
        known.update(stamps)
    assert marks.unmarked(np.array(asked, np.int64)).tolist() == [s not in known for s in asked]


def test_marks_stay_when_more_are_covered() -> None:
    marks = Marks()
    old = np.array([0, 7, 8, 8191])
    marks.cover(8192)
    marks.mark(old)
    marks.cover(200_001)
    assert marks.nbytes * 8 >= 200_001
    every = np.arange(200_001)
    assert np.flatnonzero(~marks.unmarked(every)).tolist() == old.tolist()


def test_covering_what_is_covered_costs_nothing() -> None:
    marks = Marks()
    before = marks.nbytes
    marks.cover(before * 8)
    assert marks.nbytes == before
    marks.cover(before * 8 + 1)
    assert before < marks.nbytes <= 2 * before


@given(
    steps=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 30_000)), max_size=12),
    restored=st.booleans(),
)
def test_rows_that_are_gone_count_as_marked_and_the_others_keep_their_marks(
    steps: list[tuple[int, int]], restored: bool
) -> None:
    marks, known, oldest = Marks(), set[int](), 0
    marks.cover(30_001)
    for stamp, gone in steps:
        if stamp >= oldest:
            marks.mark(np.array([stamp]))
            known.add(stamp)
        oldest = max(oldest, gone)
        marks.forget(oldest)
        assert marks.base + 8 * marks.nbytes >= 30_001, "what was covered stays covered"
        if restored:
            marks = Marks.load(marks.base, marks.to_save())
            marks.cover(30_001)
    assert marks.base <= oldest
    live = np.arange(oldest, 30_001)
    assert np.flatnonzero(~marks.unmarked(live)).tolist() == sorted(
        stamp - oldest for stamp in known if stamp >= oldest
    )
    dead = np.array([stamp for stamp in known if stamp < oldest], np.int64)
    assert not marks.unmarked(dead).any()


def test_marks_take_what_the_rows_that_are_there_need_however_many_have_come() -> None:
    marks, sizes, saved = Marks(), [], []
    for stamp in range(0, 10_000_000, 10_000):
        marks.cover(stamp + 10_000)
        marks.mark(np.arange(stamp, stamp + 10_000, 3))
        marks.forget(stamp - 20_000)
        sizes.append(marks.nbytes)
        saved.append(len(marks.to_save()))
    assert max(sizes) < 16_000
    assert max(saved) < 16_000
    marks.forget(10_000_000)
    assert not len(marks.to_save())


def test_rows_behind_the_last_mark_that_was_saved_can_be_marked_and_asked_for() -> None:
    """A restored join may join rows before another one arrives."""
    marks = Marks()
    marks.cover(100_000)
    marks.mark(np.array([5]))
    restored = Marks.load(marks.base, marks.to_save())
    assert restored.unmarked(np.array([5, 99_999])).tolist() == [False, True]
    restored.mark(np.array([99_999]))
    assert restored.unmarked(np.array([99_998, 99_999])).tolist() == [True, False]
    assert restored.mark_new(np.array([200_000, 200_000])).tolist() == [True, False]
    assert 8 * restored.nbytes > 200_000


@pytest.mark.parametrize("new", [False, True])
def test_a_mark_behind_the_last_saved_one_is_kept(new: bool) -> None:
    """It went into the array that had just been replaced by a longer one."""
    marks = Marks.load(0, np.ones(1, np.uint8))
    if new:
        assert marks.mark_new(np.array([90_000])).tolist() == [True]
    else:
        marks.mark(np.array([90_000]))
    assert marks.unmarked(np.array([89_999, 90_000])).tolist() == [True, False]
