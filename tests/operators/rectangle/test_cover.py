"""A cover says exactly which pairs have been joined."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import rectangles
from watersmeet.model import Side
from watersmeet.operators.rectangle.cover import Cover

SIZE = 9
Pairs = set[tuple[int, int]]
EVERY: Pairs = {(i, j) for i in range(SIZE) for j in range(SIZE)}


def covered(cover: Cover) -> Pairs:
    """By the kernel that joins use."""
    left, right = np.array(sorted(EVERY)).T.copy()
    numbers = np.arange(SIZE)
    rows = left.copy(), right.copy()
    stamps = 2 * numbers, 2 * numbers + 1
    kept = rectangles.drop_covered(*cover.arrays(), *stamps, *rows, len(left))
    new = set(zip(rows[0][:kept].tolist(), rows[1][:kept].tolist(), strict=True))
    return EVERY - new


corners = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=6)


@given(corners=corners)
def test_corners_add_up(corners: list[tuple[int, int]]) -> None:
    cover, expected = Cover(), Pairs()
    for left, right in corners:
        cover.complete_corner(left, right)
        expected |= {(i, j) for i in range(left) for j in range(right)}
        assert covered(cover) == expected
    if (corner := cover.corner) is not None:
        assert expected == {(i, j) for i in range(corner[0]) for j in range(corner[1])}
    for side in Side:
        for rows in range(SIZE + 1):
            others = cover.met_by(side, rows)
            met = {(i, j) for i in range(rows) for j in range(others)}
            assert met <= (expected if side is Side.LEFT else {(j, i) for i, j in expected})
    assert covered(Cover.load(cover.save())) == expected


def test_an_interrupted_join_is_not_begun_from_its_start() -> None:
    cover = Cover()
    cover.complete_corner(4, 4)
    cover.complete_corner(8, 6)
    assert cover.met_by(Side.LEFT, 8) == 6
    assert cover.met_by(Side.RIGHT, 6) == 8
    cover.complete_corner(9, 2)
    assert cover.met_by(Side.LEFT, 8) == 6
    assert cover.met_by(Side.LEFT, 9) == 2
    assert cover.met_by(Side.RIGHT, 6) == 8
    assert cover.met_by(Side.RIGHT, 2) == 9
    assert cover.corner is None


@given(
    events=st.lists(st.sampled_from(["left", "right", "left departs", "right departs"])),
    reload=st.booleans(),
)
def test_rows_meet_what_is_in_memory_with_them(events: list[str], reload: bool) -> None:
    cover, met = Cover(), Pairs()
    arrived, memory = [0, 0], (set[int](), set[int]())
    for event in events:
        side = Side.LEFT if event.startswith("left") else Side.RIGHT
        if event.endswith("departs"):
            (cover.left_departs if side is Side.LEFT else cover.right_departs)(
                (arrived[0], arrived[1])
            )
            memory[side].clear()
        elif arrived[side] < SIZE:
            row = arrived[side]
            met |= {(row, o) if side is Side.LEFT else (o, row) for o in memory[side.other]}
            memory[side].add(row)
            arrived[side] += 1
        if reload:
            cover = Cover.load(cover.save())
    seen = Cover()
    seen.strips = cover.strips_at((arrived[0], arrived[1]))
    assert covered(seen) == met
    cover.left_departs((arrived[0], arrived[1]))
    assert covered(cover) == met
