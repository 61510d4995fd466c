"""What a person reads: every cell with its error, every doubt with its reason."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.answer.estimate import Estimate, Progress, Unseen
from watersmeet.aggregates.answer.layout import in_order, show
from watersmeet.estimators import Cells

HALF = Progress(look=2, rows_read=500, rows=1_000, bytes_read=1_550_000_000, nbytes=3_100_000_000,
                seconds=4.2)  # fmt: skip


def estimate(
    value: Any,
    half: Any = 0.0,
    *,
    names: tuple[str, ...] = ("total",),
    groups: dict[str, list[Any]] | None = None,
    reason: Any = "",
    columns: list[pa.Array] | None = None,
    unseen: Unseen | None = None,
) -> Estimate:
    """Of a look at half; with `columns`, of the last."""
    exact = columns is not None
    values = np.array(value, float).reshape(len(names), -1)
    halves = np.broadcast_to(np.array(half, float), values.shape)
    reasons = np.broadcast_to(np.array(reason, object), values.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = halves / np.abs(values)
    cells = Cells(
        values, values - halves, values + halves, relative,
        np.full(values.shape, exact), reasons == "", reasons,
    )  # fmt: skip
    groups = groups or {}
    return Estimate(
        names, tuple(groups), tuple(pa.array(each) for each in groups.values()), cells, HALF, 0.95,
        exact, tuple(columns or ()), unseen,
    )  # fmt: skip


def test_a_line_for_each_group_in_an_order_that_stays() -> None:
    shown = show(estimate([[30.0, 10.0, 20.0]], 1.0, groups={"kind": ["c", None, "a"]}))
    assert shown.splitlines() == [
        "after 4.2 s: read 1.6 GB of 3.1 GB, 50.0% of 1,000 rows; 95% intervals within ± 10.00%",
        "",
        "  kind  total",
        "  a        20   ± 5.00%",
        "  c        30   ± 3.33%",
        "  null     10  ± 10.00%",
    ]


def test_one_row_without_groups_lies_on_its_side() -> None:
    shown = show(estimate([[1234567.0], [0.5]], [[1234.567], [0.1]], names=("total", "share")))
    assert shown.splitlines()[2:] == [
        "  total  1,234,567   ± 0.10%",
        "  share        0.5  ± 20.00%",
    ]


def test_doubts_are_marked_and_explained_once() -> None:
    shown = show(
        estimate(
            [[1.0, 2.0, 3.0]], 0.1, groups={"k": [1, 2, 3]}, reason=[["few rows", "", "few rows"]]
        )
    )
    assert "95% intervals within ± 5.00%, 2 of 3 not to trust" in shown
    lines = shown.splitlines()[3:]
    assert [line[-1] for line in lines[:3]] == ["*", "%", "*"]
    assert lines[3:] == ["  * few rows"]


def test_each_reason_has_its_own_mark_and_a_flood_of_them_is_cut() -> None:
    reasons = [[f"reason {n}" for n in range(9)]]
    shown = show(estimate([np.ones(9)], 0.1, groups={"k": list(range(9))}, reason=reasons))
    assert "no 95% intervals to trust yet" in shown
    assert "  † reason 1" in shown
    assert "  (6) reason 5" in shown
    assert "reason 6" not in shown
    assert "  and 3 reasons more" in shown
    # Not those of groups that are not shown.
    few = show(estimate([np.ones(9)], 0.1, groups={"k": list(range(9))}, reason=reasons), groups=2)
    assert few.splitlines()[-3:] == ["  and 7 groups more", "  * reason 0", "  † reason 1"]


def test_what_is_zero_unbounded_or_null_is_not_given_a_percentage() -> None:
    shown = show(
        estimate(
            [[0.0, np.nan, 7.0, 0.0]], [[3.0, 1.0, np.inf, 2.0]], groups={"k": [1, 2, 3, 4]},
            reason=[["", "too little", "", ""]],
        )
    )  # fmt: skip
    rows = [line.split() for line in shown.splitlines()[3:7]]
    assert rows == [["1", "0", "±", "3"], ["2", "null", "*"], ["3", "7", "±", "?"],
                    ["4", "0", "±", "2"]]  # fmt: skip
    at_most = estimate([[0.0]], [[2.0]])
    none = at_most.cells._replace(low=np.zeros((1, 1)))
    assert "≤ 2" in show(Estimate(**{**vars(at_most), "cells": none}))


def test_the_exact_answer_has_every_digit_and_no_errors() -> None:
    columns = [pa.array([Decimal("43671766822.2219"), None]), pa.array([1_201_581, 0])]
    shown = show(
        estimate(
            [[43671766822.2219, np.nan], [1_201_581, 0]], names=("revenue", "n"),
            groups={"k": ["x", "y"]}, columns=columns,
        )
    )  # fmt: skip
    assert shown.splitlines() == [
        "exact after 4.2 s: 1,000 rows read",
        "",
        "  k              revenue          n",
        "  x  43,671,766,822.2219  1,201,581",
        "  y                 null          0",
    ]


def test_groups_that_may_still_come_are_announced() -> None:
    shown = show(estimate([[5.0]], 1.0, groups={"k": ["x"]}, unseen=Unseen(0.013, 0.05)))
    assert "groups not seen yet: about 1.30% of all rows, at most 5.00%" in shown
    none = show(estimate(np.zeros((1, 0)), groups={"k": []}, unseen=Unseen(1.0, 1.0)))
    assert "no group so far" in none
    assert "not seen yet" not in none


@given(
    st.integers(24, 120),
    st.integers(1, 6),
    st.lists(st.text(st.characters(codec="ascii", categories=["L"]), max_size=9), unique=True,
             min_size=1, max_size=5),
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_lost(
    width: int, aggregates: int, kinds: list[str]
) -> None:
    names = tuple(f"a{number}" for number in range(aggregates))
    value = np.arange(aggregates * len(kinds)).reshape(aggregates, -1) + 1001.0
    shown = show(estimate(value, 0.5, names=names, groups={"kind": list(kinds)}), width=width)
    lines = shown.splitlines()
    # A column, its error and the group are up to 32 wide: one of them is always shown.
    assert all(len(line) <= max(width, 32) for line in lines)
    words = shown.split()
    assert all(f"{cell:,.0f}" in words for cell in value.ravel())
    assert all(words.count(name) == 1 for name in names if name not in kinds)


@pytest.mark.parametrize("values", [[3, None, 1], [b"b", b"a", None], [True, False, None]])
def test_groups_of_any_type_are_ordered(values: list[Any]) -> None:
    places = in_order(estimate([np.ones(3)], groups={"k": values}))
    found = [values[place] for place in places]
    assert found[-1] is None
    assert found[0] < found[1]
