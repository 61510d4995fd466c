"""How a local join is asked: what must be equal, and what else must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm

BIDS = pa.table({"ad": [1, 1, 2, 3], "bid": [5, 9, 4, None], "day": ["mo", "tu", "mo", "we"]})
ASKS = pa.table({"ad": [1, 2, 3], "ask": [6, 6, 1], "day": ["tu", "mo", "we"]})


def test_on_and_how_may_be_given_by_position() -> None:
    assert wm.local.join(BIDS, ASKS, "ad").read_all().num_rows == 4
    assert wm.local.join(BIDS, ASKS, ["ad", "day"], "anti").read_all().num_rows == 1
    run = wm.local.aggregate(BIDS, ASKS, "ad", "left", n=wm.count())
    assert run.exact().answer.to_pylist() == [{"n": 4}]


def test_a_name_that_differs_by_case_is_named() -> None:
    for join in (wm.local.join, wm.local.aggregate):
        with pytest.raises(wm.errors.SchemaError, match="has no column 'AD', but 'ad'"):
            join(BIDS, ASKS, "AD")
    with pytest.raises(wm.errors.SchemaError, match="right input has no column 'Ad', but 'ad'"):
        wm.local.join(iter(BIDS.to_batches()), ASKS, {"ad": "Ad"})


CONDITIONS = {
    "bid >= ask": [9],
    "bid >= ask OR day = 'mo' AND day_right = 'mo'": [4, 9],
    "bid IS NULL": [None],
    "NOT (bid >= ask)": [4, 5],
    "abs(bid - ask) BETWEEN 1 AND 2": [4, 5],
    "day IN ('mo', 'we') AND bid + 1 < ask * 2": [4, 5],
    "BID >= Ask": [9],
}


@pytest.mark.parametrize(("text", "bids"), CONDITIONS.items())
def test_a_condition_in_sql(text: str, bids: list[int | None]) -> None:
    joined = wm.local.join(BIDS, ASKS, "ad", condition=text).read_all()
    assert sorted(joined["bid"].to_pylist(), key=str) == sorted(bids, key=str)


def test_a_condition_in_sql_is_part_of_an_outer_join() -> None:
    joined = wm.local.join(BIDS, ASKS, "ad", "left", condition="bid >= ask").read_all()
    assert joined.sort_by("bid")["ask"].to_pylist() == [None, None, 6, None]
    semi = wm.local.join(BIDS, ASKS, "ad", "semi", condition="bid >= ask").read_all()
    assert semi["bid"].to_pylist() == [9]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bid >= cost", "There is no column 'cost'. The columns are ad, bid, day, ask, day_right"),
        ("bid + 1", "neither true nor"),
        ("bid >=", "no SQL expression"),
        ("bid REGEXP 'x'", "."),
        ("", "no SQL expression"),
        (7, "is no filter"),
        (pc.field("cost") > 1, "there is no column 'cost'"),
    ],
)
def test_a_condition_that_cannot_be_computed_is_refused_at_the_call(text: Any, told: str) -> None:
    with pytest.raises(wm.errors.WatersmeetError, match=told) as caught:
        wm.local.join(BIDS, ASKS, "ad", condition=text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("answer", [None, True, pa.scalar(True), [1, 2], pa.array([True])])
def test_a_condition_that_answers_with_something_else(answer: Any) -> None:
    run = wm.local.join(BIDS, ASKS, "ad", condition=lambda batch: answer)
    with pytest.raises(wm.errors.InvalidArgument, match="The condition returned"):
        run.read_all()


class Broken(Exception):
    pass


def broken(batch: pa.RecordBatch) -> pa.Array:
    raise Broken("no such luck")


FAILING: dict[str, tuple[Any, type[Exception], str]] = {
    "function": (broken, Broken, "Broken: no such luck"),
    "expression": (pc.divide(pc.field("bid"), 0) > 0, pa.ArrowInvalid, "divide by zero"),
}


@pytest.mark.parametrize(("condition", "kind", "told"), FAILING.values(), ids=FAILING.keys())
def test_a_condition_that_raises_is_the_cause_of_the_error(
    condition: Any, kind: type[Exception], told: str
) -> None:
    run = wm.local.join(BIDS, ASKS, "ad", condition=condition)
    with pytest.raises(wm.errors.ConditionFailed, match=told) as caught:
        run.read_all()
    assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize("seed", ["x", 1.5, None, True])
def test_a_seed_that_is_no_number_is_refused_at_the_call(seed: Any) -> None:
    aggregate: Callable[..., Any] = wm.local.aggregate
    with pytest.raises(wm.errors.InvalidArgument, match="is no whole number"):
        aggregate(BIDS, ASKS, "ad", n=wm.count(), seed=seed)
