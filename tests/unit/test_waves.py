"""Waves cover every row once, begin small and never split more than they must."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from watersmeet.policies.order import random_order
from watersmeet.spark.tables.order import order_by_key
from watersmeet.spark.tables.waves import cut, shares

PARTS = st.lists(st.integers(0, 500), max_size=30)
ENDS = st.lists(st.floats(0, 1), max_size=6).map(lambda ends: [*sorted(ends), 1.0])


def test_shares_grow_to_the_whole() -> None:
    ends = shares()
    assert ends[-1] == 1
    assert ends[0] < 0.05
    assert all(early < late for early, late in pairwise(ends))


@given(parts=PARTS, ends=ENDS, seed=st.integers(0, 9))
def test_every_row_is_in_one_wave(parts: list[int], ends: list[float], seed: int) -> None:
    waves = cut(parts, ends, order=random_order(len(parts), seed=seed))
    rows = Counter(
        (piece.number, row)
        for wave in waves
        for piece in wave
        for row in range(piece.start, piece.stop)
    )
    assert rows == Counter(
        (number, row) for number, size in enumerate(parts) for row in range(size)
    )
    assert len(waves) == len(ends)


@given(parts=PARTS, ends=ENDS, seed=st.integers(0, 9))
def test_parts_are_cut_only_where_waves_end(parts: list[int], ends: list[float], seed: int) -> None:
    waves = cut(parts, ends, order=random_order(len(parts), seed=seed))
    pieces = sum(map(len, waves))
    assert pieces <= sum(size > 0 for size in parts) + len(ends) - 1
    total, read = sum(parts), 0
    for wave, end in zip(waves, ends, strict=True):
        read += sum(piece.rows for piece in wave)
        assert read == round(total * end)


@given(
    cuts=st.tuples(*[st.sets(st.integers(1, 999), min_size=5, max_size=40)] * 2),
    seed=st.integers(0, 99),
)
def test_tables_in_key_order_are_read_by_stretches_of_keys(
    cuts: tuple[set[int], set[int]], seed: int
) -> None:
    """Whatever part of the left side has been read, most of its keys' partners have been too."""
    sides = [
        [(start, stop - 1) for start, stop in pairwise([0, *sorted(side), 1000])] for side in cuts
    ]
    orders = order_by_key(sides[0], sides[1], seed=seed)
    assert orders is not None
    for side, order in zip(sides, orders, strict=True):
        assert sorted(order) == list(range(len(side)))


def test_clustered_tables_have_rows_in_proportion_after_each_wave() -> None:
    left = [(n * 10, n * 10 + 9) for n in range(100)]
    right = [(n * 25, n * 25 + 24) for n in range(40)]
    orders = order_by_key(left, right, seed=3)
    assert orders is not None
    waves = [
        cut([most - least + 1 for least, most in side], shares(), order=order)
        for side, order in zip((left, right), orders, strict=True)
    ]
    for done in range(1, len(shares()) + 1):
        keys = [
            {
                side[piece.number][0] + row
                for wave in pieces[:done]
                for piece in wave
                for row in range(piece.start, piece.stop)
            }
            for side, pieces in zip((left, right), waves, strict=True)
        ]
        assert len(keys[0] & keys[1]) > 0.6 * len(keys[0])


def test_tables_in_no_order_are_read_at_random() -> None:
    mixed = [(0, 990 + n) for n in range(10)]
    ordered = [(n * 100, n * 100 + 99) for n in range(10)]
    assert order_by_key(mixed, ordered, seed=1) is None
    assert order_by_key(ordered, [*ordered, None], seed=1) is None
    assert order_by_key(ordered[:2], ordered, seed=1) is None
