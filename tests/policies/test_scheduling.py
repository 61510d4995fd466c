"""MJoin's rules for inputs and tuples: each of them, and turns beside one tuple at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.policies.scheduling import (
    PriorityStreams,
    RandomStreams,
    Sequential,
    StreamSchedule,
    Turn,
    ValueOriented,
)


def values(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


# ---- from which input (4.1, 5.3) ----------------------------------------------------------------


def test_random_scheduling_treats_both_inputs_alike() -> None:
    streams = RandomStreams(seed=1, rows=(1, 1))
    taken = [streams.turn([5, 5]) for _ in range(2_000)]
    assert 900 < sum(turn == Turn(0, 1) for turn in taken) < 1_100


def test_the_same_seed_gives_the_same_turns() -> None:
    both = [RandomStreams(seed=7, rows=(2, 3)) for _ in range(2)]
    first, second = ([each.turn([9, 9]) for _ in range(50)] for each in both)
    assert first == second


@pytest.mark.parametrize("streams", [RandomStreams(seed=1, rows=(4, 4)), PriorityStreams((4, 4))])
def test_an_empty_input_is_passed_over(streams: StreamSchedule) -> None:
    assert {streams.turn([0, 9]) for _ in range(20)} == {Turn(1, 4)}
    assert {streams.turn([2, 0]) for _ in range(20)} == {Turn(0, 2)}
    assert streams.turn([0, 0]) is None


def test_inputs_alternate_by_their_quotas_and_the_first_begins() -> None:
    streams = PriorityStreams((10, 100))
    assert [streams.turn([500, 500]) for _ in range(4)] == [Turn(0, 10), Turn(1, 100)] * 2


def test_an_input_that_was_empty_goes_on_first_when_both_are_within_their_quotas() -> None:
    """ "If the iterators of both queues are within the range [0, retrieval quota) and neither queue
    is empty, the head tuple of Qa will be retrieved" (5.3)."""
    streams = PriorityStreams((10, 100))
    assert streams.turn([4, 30]) == Turn(0, 4)
    assert streams.turn([0, 30]) == Turn(1, 30), "Qa is empty"
    assert streams.turn([50, 50]) == Turn(0, 6), "what is left of its quota"
    assert streams.turn([44, 50]) == Turn(1, 50), "its quota was reset when Qa reached its own"


def test_an_input_that_has_reached_its_quota_goes_on_if_the_other_stays_empty() -> None:
    streams = PriorityStreams((10, 100))
    assert [streams.turn([0, 500]) for _ in range(3)] == [Turn(1, 100)] * 3
    assert [streams.turn([25, 0]) for _ in range(2)] == [Turn(0, 10), Turn(0, 10)]


def one_at_a_time(quotas: tuple[int, int], queues: Sequence[int]) -> Iterator[int]:
    """The paragraph of 5.3 word for word, for queues into which nothing comes any more."""
    waiting, taken = list(queues), [0, 0]
    while any(waiting):
        if all(waiting) and all(t < quota for t, quota in zip(taken, quotas, strict=True)):
            input = 0
        elif not all(waiting):
            input = 0 if waiting[0] else 1
        else:
            input = 1 if taken[0] >= quotas[0] else 0
        waiting[input] -= 1
        taken[input] += 1
        if taken[input] >= quotas[input]:
            taken[1 - input] = 0
            if not waiting[1 - input]:
                taken[input] = 0
        yield input


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_turns_take_what_one_tuple_at_a_time_takes(
    quotas: tuple[int, int], queues: tuple[int, int]
) -> None:
    streams, waiting, order = PriorityStreams(quotas), list(queues), list[int]()
    while (turn := streams.turn(waiting)) is not None:
        assert 0 < turn.rows <= min(waiting[turn.input], quotas[turn.input])
        waiting[turn.input] -= turn.rows
        order += [turn.input] * turn.rows
    assert order == list(one_at_a_time(quotas, queues))


# ---- in which order (4.2) -----------------------------------------------------------------------


def test_sequential_scheduling_keeps_the_order() -> None:
    scheduled = Sequential()
    scheduled.punctuated(1, values(3))
    assert scheduled.arrange(0, values(5, 3, 4)).order.tolist() == [0, 1, 2]


def test_rows_are_processed_in_order_until_a_punctuation_arrives() -> None:
    scheduled = ValueOriented()
    assert scheduled.arrange(1, values(5, 3, 4)).order.tolist() == [0, 1, 2]
    scheduled.punctuated(0, values(4))
    assert scheduled.arrange(1, values(5, 3, 4)).order.tolist() == [2, 0, 1]


def test_a_punctuation_hurries_the_other_input_and_not_its_own() -> None:
    scheduled = ValueOriented()
    scheduled.punctuated(0, values(4))
    assert scheduled.arrange(0, values(5, 4)).hurried == 0
    assert scheduled.arrange(1, values(5, 4)).hurried == 1


def test_many_to_many_a_punctuation_expires_when_the_other_input_says_the_same() -> None:
    scheduled = ValueOriented()
    scheduled.punctuated(0, values(4, 6))
    scheduled.arrange(1, values(4))
    assert scheduled.valid(1) == [4, 6], "more rows with 4 may come"
    scheduled.punctuated(1, values(4))
    assert scheduled.valid(1) == [6]
    assert scheduled.valid(0) == [], "and it waits for nothing of the first input"
    scheduled.punctuated(1, values(6))
    assert scheduled.arrange(1, values(5, 6)).hurried == 0


def test_one_to_many_a_punctuation_expires_with_the_one_row() -> None:
    scheduled = ValueOriented(unique=[0])
    scheduled.punctuated(1, values(3))
    assert scheduled.arrange(0, values(8, 3)).hurried == 1
    assert scheduled.valid(0) == []


def test_one_to_many_a_punctuation_whose_one_row_came_before_is_never_valid() -> None:
    scheduled = ValueOriented(unique=[0])
    scheduled.arrange(0, values(8, 3))
    scheduled.punctuated(1, values(3, 4))
    assert scheduled.valid(0) == [4]
    assert scheduled.valid(1) == [], "that a value is unique is no punctuation"


def pooled(awaited: set[int], rows: Sequence[int]) -> list[int]:
    """A turn of the one side, one tuple at a time, with a waiting pool."""
    done, pool = list[int](), list[int]()
    for place, value in enumerate(rows):
        if awaited and value not in awaited:
            pool.append(place)
            continue
        done.append(place)
        awaited.discard(value)
        if not awaited:  # sequential again: the pool is cleaned out
            done += pool
            pool.clear()
    return done + pool  # the stream schedule goes to the other input


@given(
    st.lists(st.sets(st.integers(0, 30), max_size=4), max_size=4),
    st.lists(st.integers(0, 30), unique=True),
    st.integers(1, 7),
)
def test_turns_process_in_the_order_of_the_waiting_pool(
    punctuations: list[set[int]], one_side: list[int], size: int
) -> None:
    scheduled = ValueOriented(unique=[0])
    awaited, came = set[int](), set[int]()
    for turn in range(0, len(one_side), size):
        if punctuations:
            new = punctuations.pop() - awaited - came
            scheduled.punctuated(1, values(*sorted(new)))
            awaited |= new
        rows = one_side[turn : turn + size]
        expected = pooled(awaited, rows)
        came |= set(rows)
        assert scheduled.arrange(0, values(*rows)).order.tolist() == expected
        assert scheduled.valid(0) == sorted(awaited)
