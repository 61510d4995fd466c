"""Does what is remembered stay small, and is it what was promised?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model import Side
from watersmeet.promises.boxes import Boxes
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.promises.values import Scale
from watersmeet.rows.promises import Promises
from watersmeet.rows.schema import JoinSchema

ROWS = pa.schema({"k": pa.int64(), "is_marker": pa.bool_(), "place": pa.string()})
BATCH = 20_000


def keeper_of(*promises: Any, on: Any = "k", **more: Any) -> PromiseKeeper:
    return PromiseKeeper(JoinSchema.resolve(ROWS, ROWS, on), promises, **more)


def rows(keys: Any, *, marker: bool | None = None, place: str | None = None) -> pa.RecordBatch:
    keys = pa.array(keys, pa.int64())
    marks = pa.repeat(pa.scalar(marker, pa.bool_()), len(keys))
    places = pa.repeat(pa.scalar(place, pa.string()), len(keys))
    return pa.RecordBatch.from_arrays([keys, marks, places], schema=ROWS)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_million_punctuations_of_rising_keys_are_one_range(shuffled: bool) -> None:
    random = np.random.default_rng(7)
    keeper = keeper_of(wm.punctuated("right", "is_marker", {"k": "equal"}))
    told = Promises()
    most = 0
    keys = np.arange(1_000_000)
    if shuffled:  # each moves by up to a window
        keys = np.argsort(keys + random.integers(0, 50, len(keys)), kind="stable")
    for start in range(0, len(keys), BATCH):
        heard = keeper.take(Side.RIGHT, rows(keys[start : start + BATCH], marker=True))
        for side, promise in heard.promises:
            told.accept(side, promise)
        most = max(most, len(json.dumps(keeper.save())))
    assert most < 4096
    assert len(json.dumps(keeper.save())) < 300
    assert len(told.of(Side.RIGHT, 1)) == 1


def test_unique_keys_that_rise_need_no_memory() -> None:
    keeper = keeper_of(wm.unique("left"), wm.ordered("left", "k", slack=100))
    for start in range(0, 100_000, 5_000):
        keeper.take(Side.LEFT, rows(np.arange(start, start + 5_000) * 7))
        assert len(json.dumps(keeper.save())) < 2048
    assert not keeper.forgotten


def test_what_there_is_no_room_for_is_forgotten_oldest_first_and_counted() -> None:
    keeper = keeper_of(wm.unique("left"), on_broken="drop", remember=100)
    for start in range(0, 1000, 10):
        keeper.take(Side.LEFT, rows(np.arange(start, start + 10) * 2))
    assert keeper.forgotten == {"unique(the key)": 900}
    heard = keeper.take(Side.LEFT, rows([0, 1990, 1998]))
    assert heard.rows.column("k").to_pylist() == [0]


def test_texts_are_bounded_by_their_bytes() -> None:
    keeper = keeper_of(wm.unique("left", "place"), on="place", on_broken="drop")
    for number in range(5):
        text = f"{number}" * 400_000
        keeper.take(Side.LEFT, rows([1], place=text))
        assert len(json.dumps(keeper.save())) < 2**20
    assert keeper.take(Side.LEFT, rows([1], place="4" * 400_000)).broken is not None
    assert keeper.take(Side.LEFT, rows([1], place="0" * 400_000)).broken is None


def test_punctuations_about_two_columns_merge_along_one() -> None:
    keeper = keeper_of(
        wm.punctuated("right", "is_marker", {"k": "equal", "place": "equal"}), on_broken="drop"
    )
    for start in range(0, 2_000, 100):
        for place in ("north", "south"):
            keeper.take(Side.RIGHT, rows(np.arange(start, start + 100), marker=True, place=place))
    assert len(json.dumps(keeper.save())) < 16_384
    assert keeper.take(Side.RIGHT, rows([1_999], place="north")).broken is not None
    assert keeper.take(Side.RIGHT, rows([1_999], place="east")).broken is None
    assert keeper.take(Side.RIGHT, rows([2_000], place="north")).broken is None


def test_boxes_that_do_not_touch_stay_apart() -> None:
    scale = Scale.of(pa.int64())
    assert scale is not None
    boxes = Boxes([scale, scale], 1000)

    def ends(low: list[int], high: list[int]) -> tuple[pa.Array, pa.Array]:
        kind = pa.int64()
        return scale.plain(pa.array(low, kind)), scale.plain(pa.array(high, kind))

    numbers = list(range(40))
    boxes.add([ends(numbers, numbers), ends([1] * 20 + [3] * 20, [2] * 20 + [4] * 20)])
    assert len(boxes) == 2
    points = [
        scale.plain(pa.array(values, pa.int64())) for values in ([0, 25, 25, 40], [1, 3, 2, 3])
    ]
    assert boxes.covers(points).tolist() == [True, True, False, False]
