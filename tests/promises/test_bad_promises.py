"""Are promises that cannot be meant refused at the call, with a cause and a remedy?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model import Side
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.rows.schema import JoinSchema

LEFT = pa.schema(
    {
        "id": pa.int64(), "name": pa.string(), "at": pa.timestamp("us"), "is_marker": pa.bool_(),
        "ids": pa.list_(pa.int64()), "words": pa.list_(pa.string()), "big": pa.decimal128(38, 0),
        "pair": pa.struct({"x": pa.int32(), "y": pa.int32()}),
    }
)  # fmt: skip
RIGHT = pa.schema({"id": pa.int64(), "name": pa.string(), "seen": pa.timestamp("us")})
ANYTHING: list[Any] = [3, "down"]
NEAR = wm.within(("at", "seen"), "5 minutes")


def refused(promises: Any, *, on: Any = ("id", NEAR), **more: Any) -> str:
    schema = JoinSchema.resolve(LEFT, RIGHT, list(on))
    with pytest.raises(wm.errors.WatersmeetError) as raised:
        PromiseKeeper(schema, promises, **more)
    assert raised.value.remedy
    return raised.value.cause


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: wm.unique("middle"), "no input of the join"),
        (lambda: wm.unique("left", []), "no column"),
        (lambda: wm.unique("left", ["a", "a"]), "twice"),
        (lambda: wm.unique("left", ANYTHING[:1]), "no column name"),
        (lambda: wm.clustered("left", ""), "no column name"),
        (lambda: wm.ordered("left", "id", ANYTHING[1]), "neither True nor False"),
        (lambda: wm.ordered("left", "id", slack=-1), "negative"),
        (lambda: wm.ordered("left", "id", slack=float("inf")), "ends at inf"),
        (lambda: wm.ordered("left", "id", slack="soon"), "no span of time"),
        (lambda: wm.punctuated("left", ""), "no condition"),
        (lambda: wm.punctuated("left", "is_marker", {}), "nothing about any column"),
        (lambda: wm.punctuated("left", "is_marker", {"id": 3}), "means nothing"),
        (lambda: wm.punctuated("left", "is_marker", {"id": (None, None)}), "means nothing"),
        (lambda: wm.watermark("left", "at", ANYTHING[0]), "unit"),
        (lambda: wm.watermark("left", "at", "-5 minutes"), "negative"),
    ],
)
def test_what_can_mean_nothing_is_refused_when_it_is_written(make: Any, cause: str) -> None:
    with pytest.raises(wm.errors.InvalidArgument, match=cause):
        make()


@pytest.mark.parametrize(
    ("promises", "cause"),
    [
        ([wm.unique("left", "idd")], "no column 'idd'"),
        ([wm.unique("left", "name")], "not joined on it"),
        ([wm.clustered("right", "at")], "no column 'at'"),
        ([wm.ordered("left", "ID")], "no column 'ID', but 'id'"),
        ([wm.watermark("left", "seen", "1 s")], "no column 'seen'"),
        ([wm.watermark("left", "id", "1 s")], "is of type int64, and a watermark is a time"),
        ([wm.ordered("left", "id", slack="1 s")], "span of time"),
        ([wm.ordered("left", "at", slack=3)], "unit"),
        ([wm.punctuated("left", "is_markr")], "no column 'is_markr'"),
        ([wm.punctuated("left", "id + 1", {"id": "equal"})], "neither true nor false"),
        ([wm.punctuated("left", 7, {"id": "equal"})], "no SQL text"),
        ([wm.punctuated("left", "is_marker", {"idd": "equal"})], "no column 'idd'"),
        ([wm.punctuated("left", "is_marker", {"id": "idds"})], "no column 'idds'"),
        ([wm.punctuated("left", "is_marker", {"id": "name"})], "has no lists"),
        ([wm.punctuated("left", "is_marker", {"id": "words"})], "values of type string"),
        ([wm.punctuated("left", "is_marker", {"id": ("id", "at")})], "values of type timestamp"),
        ([wm.punctuated("left", "is_marker", {"pair": ("pair", None)})], "have no order"),
        ([wm.punctuated("left", "is_marker", {"ids": "equal"})], "are not compared"),
        ([wm.punctuated("left", "is_marker")], "are not compared"),
        ([wm.unique("left"), wm.unique("left")], "given twice"),
        ([wm.ordered("left", "id"), wm.ordered("left", "id", False)], "contradict"),
        ([wm.ordered("left", "id"), wm.ordered("left", "id", slack=1)], "contradict"),
        ([wm.watermark("left", "at", "1 s"), wm.watermark("left", "at", "2 s")], "contradict"),
        (["unique"], "'unique' is no promise"),
        (3, "3 is no promise"),
    ],
)
def test_what_does_not_fit_the_join_is_refused_before_a_row_is_read(
    promises: Any, cause: str
) -> None:
    assert cause in refused(promises)


def test_the_wrong_side_is_named() -> None:
    schema = JoinSchema.resolve(LEFT, RIGHT, [("id", "id"), ("name", "name")])
    swapped = JoinSchema.resolve(LEFT, LEFT, [("id", "id"), ("at", "at")])
    with pytest.raises(wm.errors.SchemaError, match="right input is not joined on it"):
        PromiseKeeper(schema, [wm.ordered("right", "seen")])
    with pytest.raises(wm.errors.SchemaError, match="left input is not joined on it"):
        PromiseKeeper(swapped, [wm.unique("left", "name")])


def test_a_slack_of_text_or_of_wide_decimals_is_refused() -> None:
    assert "differences" in refused([wm.ordered("left", "name", slack=1)], on=["name"])
    big = pa.schema({"big": pa.decimal128(38, 0)})
    schema = JoinSchema.resolve(LEFT, big, "big")
    with pytest.raises(wm.errors.SchemaError, match="differences"):
        PromiseKeeper(schema, [wm.ordered("left", "big", slack=1)])


def test_a_key_is_promised_only_where_there_is_one() -> None:
    assert "has none" in refused([wm.unique("left")], on=[NEAR])
    assert "has none" in refused([wm.clustered("left")], on=[NEAR])


def test_on_broken_is_one_of_three_words() -> None:
    assert "on_broken='ignore'" in refused([wm.unique("left")], on_broken="ignore")


def test_a_state_is_not_loaded_with_other_promises() -> None:
    schema = JoinSchema.resolve(LEFT, RIGHT, "id")
    saved = PromiseKeeper(schema, [wm.unique("left")]).save()
    with pytest.raises(wm.errors.StateError, match="unique"):
        PromiseKeeper(schema, [wm.unique("right")]).load(saved)


def rows(**columns: list[Any]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    every = {name: columns.get(name, [None] * count) for name in LEFT.names}
    return pa.RecordBatch.from_pydict(every, LEFT)


@pytest.mark.parametrize(
    ("promise", "first", "second", "why"),
    [
        (wm.unique("left"), {"id": [1, 2]}, {"id": [3, 1]}, "a row with id = 1 had come before"),
        (wm.unique("left"), {"id": [1, 2]}, {"id": [3, 3]}, "a row with id = 3 had come before"),
        (wm.clustered("left"), {"id": [1, 1, 2]}, {"id": [2, 1]}, "rows with id = 1 had ended"),
        (wm.ordered("left", "id", slack=5), {"id": [1, 9]}, {"id": [4, 3]}, "id = 3 is below 4"),
        (wm.ordered("left", "id"), {"id": [1]}, {"id": [4, 3]}, "id = 3 is below what rows before"),
        (wm.ordered("left", "id", False), {"id": [4]}, {"id": [4, 5]}, "id = 5 is above 4"),
        (
            wm.punctuated("left", "is_marker", {"id": "equal"}),
            {"id": [7, 7], "is_marker": [None, True]},
            {"id": [8, 7]},
            "a marker row had said that no more such rows come",
        ),
        (
            wm.punctuated("left", "is_marker", {"id": "ids"}),
            {"ids": [[3, 7], None], "is_marker": [True, False], "id": [None, 1]},
            {"id": [8, 7]},
            "a marker row had said",
        ),
    ],
)
def test_a_broken_promise_names_the_row_the_promise_and_a_remedy(
    promise: Any, first: dict[str, Any], second: dict[str, Any], why: str
) -> None:
    keeper = PromiseKeeper(JoinSchema.resolve(LEFT, RIGHT, "id"), [promise])
    keeper.take(Side.LEFT, rows(**first))
    before = keeper.save()
    with pytest.raises(wm.errors.PromiseBroken, match=why) as raised:
        keeper.take(Side.LEFT, rows(**second))
    assert raised.value.row["id"] == second["id"][1]
    assert raised.value.side == "left"
    assert raised.value.promise == str(promise)
    assert "quarantine" in raised.value.remedy
    assert keeper.save() == before


def test_a_watermark_rises_after_its_batch() -> None:
    schema = JoinSchema.resolve(LEFT, RIGHT, ["id", NEAR])
    keeper = PromiseKeeper(schema, [wm.watermark("left", "at", "10 s")], on_broken="quarantine")
    noon = pa.scalar(0, pa.timestamp("us")).as_py() + timedelta(hours=12)
    times = [noon + timedelta(seconds=n) for n in (60, 0, 50, 49, 70)]
    heard = keeper.take(Side.LEFT, rows(id=[1, 2], at=times[:2]))
    assert heard.broken is None  # both are of one batch
    heard = keeper.take(Side.LEFT, rows(id=[3, 4, 5], at=times[2:]))
    assert heard.rows.column("id").to_pylist() == [3, 5]
    assert heard.broken is not None
    assert heard.broken.rows.column("id").to_pylist() == [4]
    assert heard.broken.counts() == {"watermark(at, 10 seconds)": 1}
    assert len(heard.promises) == 1
