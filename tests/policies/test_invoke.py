"""When partitions are joined and what leaves memory, on small arrays (PR-Join 4.4 and 5)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.policies import invoke
from watersmeet.policies.invoke import Growth, Invocation, Resident

counts = st.lists(st.integers(0, 50), min_size=1, max_size=8)


NEVER = np.zeros(3, np.int64)


def invocations(
    *, gamma: float, partitions: int, memory: int, total: int, expected: int | None = None
) -> list[list[int]]:
    """At which sizes each partition is joined, when all grow by a row at a time."""
    old = np.full(partitions, memory)
    joins, found = np.zeros(partitions, np.int64), [list[int]() for _ in range(partitions)]
    for size in range(memory + 1, total + 1):
        growth = Growth(np.full(partitions, size), old, joins, expected)
        for p in invoke.expanding(growth, Invocation(gamma)):
            found[p].append(size)
            old[p], joins[p] = size, joins[p] + 1
    return found


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_joins_come_when_eq_11_says(gamma: float) -> None:
    """The j-th join of partition i at (1 + gamma)^(j + i/n) times what memory held of it."""
    partitions, memory, total = 8, 1_000, 16_000
    found = invocations(gamma=gamma, partitions=partitions, memory=memory, total=total)
    for i, sizes in enumerate(found):
        due = [memory * (1 + gamma) ** (j + i / partitions) for j in range(1, 9)]
        assert sizes == pytest.approx([size for size in due if size <= total], rel=2e-3)
    every = sorted(size for sizes in found for size in sizes)
    assert np.diff(np.log(every)) == pytest.approx(np.log(1 + gamma) / partitions, abs=4e-3), (
        "joins are not spread evenly"
    )


def test_no_join_that_the_end_would_soon_repeat() -> None:
    """The stop constraint: none when the whole input is less than 1 + gamma times what came."""
    free = invocations(gamma=1.0, partitions=4, memory=100, total=1600)
    held = invocations(gamma=1.0, partitions=4, memory=100, total=1600, expected=4 * 1600)
    assert [sizes[-1] > 800 for sizes in free] == [True] * 4
    assert held == [[size for size in sizes if size <= 800] for sizes in free]
    growth = Growth(np.array([900]), np.array([100]), np.array([1]), 1600)
    assert invoke.expanding(growth, Invocation()).size == 0
    assert invoke.expanding(growth, Invocation(stops=False)).size == 1


def test_no_join_before_the_user_wants_to_see_one() -> None:
    rule = Invocation(not_before=0.3)
    for rows, due in ((29, 0), (30, 1), (40, 1)):
        growth = Growth(np.array([rows]), np.array([5]), np.array([0]), 100)
        assert invoke.expanding(growth, rule).size == due


def test_a_partition_without_new_rows_is_never_due() -> None:
    growth = Growth(np.array([0, 7, 1]), np.array([0, 7, 0]), np.array([0, 1, 0]))
    assert invoke.expanding(growth, Invocation()).tolist() == [2]


def test_a_stall_goes_to_the_partition_with_most_new_rows() -> None:
    assert invoke.most_new(Growth(np.array([9, 8, 7]), np.array([7, 2, 2]), NEVER)) == 1
    assert invoke.most_new(Growth(np.array([9, 8]), np.array([9, 8]), NEVER)) is None


# ---- what leaves memory -------------------------------------------------------------------------


def resident(left: list[int], right: list[int], **more: object) -> Resident:
    rows = np.array([left, right])
    kept = np.zeros(len(left), np.int64)
    return Resident(rows, (1.0, 1.0), **{"kept": kept, **more})  # type: ignore[arg-type]


def test_a_partition_that_has_filled_its_2s_spills_s_from_its_larger_side() -> None:
    taken = invoke.larger_halves(resident([70, 40, 100, 0], [30, 60, 0, 100]))
    assert taken.tolist() == [[50, 0, 50, 0], [0, 50, 0, 50]]


def test_partitions_that_are_uneven_go_down_to_s() -> None:
    # 320 rows in four partitions: S is 40.
    taken = invoke.larger_halves(resident([110, 50, 30, 5], [90, 10, 10, 15]))
    assert taken.tolist() == [[110, 20, 0, 0], [50, 0, 0, 0]]


@given(left=counts, data=st.data(), sizes=st.tuples(*[st.sampled_from([1.0, 7.0, 80.0])] * 2))
def test_at_least_half_of_memory_comes_free(
    left: list[int], data: st.DataObject, sizes: tuple[float, float]
) -> None:
    right = data.draw(st.lists(st.integers(0, 50), min_size=len(left), max_size=len(left)))
    rows = np.array([left, right])
    held = Resident(rows, sizes, kept=np.zeros(len(left), np.int64))
    taken = invoke.larger_halves(held)
    assert ((taken >= 0) & (taken <= rows)).all()
    weights = np.array(sizes)[:, None]
    total, each = (rows * weights).sum(), ((rows - taken) * weights).sum(axis=0)
    assert (taken * weights).sum() >= total / 2 - 1e-6
    # And not more than need be: what is left of a partition is S, or all it had, or a row less.
    share = total / (2 * len(left))
    before = (rows * weights).sum(axis=0)
    assert (each >= np.minimum(before, share) - 2 * max(sizes)).all()


def test_dbo_gives_up_one_side_after_the_other() -> None:
    rows = resident([3, 4], [5, 6], turn=0)
    assert invoke.in_turn(rows).tolist() == [[3, 4], [0, 0]]
    assert invoke.in_turn(resident([3, 4], [5, 6], turn=1)).tolist() == [[0, 0], [5, 6]]
    assert invoke.in_turn(resident([0, 0], [5, 6], turn=0)).tolist() == [[0, 0], [5, 6]]


def test_hash_ripple_keeps_its_right_rows_while_anything_else_is_there() -> None:
    kept = np.array([5, 2])
    assert invoke.all_but_kept(resident([1, 0], [5, 4], kept=kept)).tolist() == [[1, 0], [0, 2]]
    assert invoke.all_but_kept(resident([0, 0], [5, 2], kept=kept)).tolist() == [[0, 0], [5, 2]]


def test_everything_is_everything() -> None:
    assert invoke.everything(resident([1, 2], [0, 4])).tolist() == [[1, 2], [0, 4]]


# ---- skew ---------------------------------------------------------------------------------------


def loads(rows: list[int], partitions: int) -> list[float]:
    slots = invoke.even_slots(np.array(rows), partitions)
    counted: list[float] = np.bincount(slots, rows, minlength=partitions).tolist()
    return counted


def test_a_heavy_slot_gets_a_partition_of_its_own() -> None:
    rows = [5] * 64
    rows[17] = 400
    slots = invoke.even_slots(np.array(rows), 4)
    assert (slots == slots[17]).sum() == 1
    others = [load for load in loads(rows, 4) if load != 400]
    assert max(others) - min(others) <= 5


def test_zipf_slots_are_made_even() -> None:
    rows = [int(10_000 / rank) for rank in range(4, 516)]
    ranges = np.bincount(invoke.ranged_slots(512, 8), rows)
    assert ranges.max() / ranges.mean() > 3
    even = np.array(loads(rows, 8))
    assert even.max() / even.mean() < 1.05


@given(rows=st.lists(st.integers(0, 1000), min_size=1, max_size=100), partitions=st.integers(1, 9))
def test_even_slots_are_the_same_every_time_and_no_partition_is_idle(
    rows: list[int], partitions: int
) -> None:
    slots = invoke.even_slots(np.array(rows), partitions)
    assert (slots == invoke.even_slots(np.array(rows), partitions)).all()
    assert len(np.unique(slots)) == min(partitions, len(rows))


def test_ranges_are_equal_and_in_order() -> None:
    slots = invoke.ranged_slots(192, 3)
    assert np.bincount(slots).tolist() == [64, 64, 64]
    assert (np.diff(slots.astype(int)) >= 0).all()
