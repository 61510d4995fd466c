"""Waves cover every row once, begin small and never split more than they must."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

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
    waves = cut(parts, ends, seed=seed)
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
    waves = cut(parts, ends, seed=seed)
    pieces = sum(map(len, waves))
    assert pieces <= sum(size > 0 for size in parts) + len(ends) - 1
    total, read = sum(parts), 0
    for wave, end in zip(waves, ends, strict=True):
        read += sum(piece.rows for piece in wave)
        assert read == round(total * end)
