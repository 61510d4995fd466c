"""Is it said which state promises bound, why, and what is missing?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.promises.bounds import bounds_in_words, missing_bound
from watersmeet.rows.schema import JoinSchema

CLICKS = pa.schema(
    {"id": pa.int64(), "at": pa.timestamp("us"), "name": pa.string(), "over": pa.bool_()}
)


def words(on: Any, *promises: Any) -> dict[str, str]:
    return dict(bounds_in_words(JoinSchema.resolve(CLICKS, CLICKS, on), promises))


def missing(on: Any, how: str, *promises: Any) -> Any:
    return missing_bound(JoinSchema.resolve(CLICKS, CLICKS, on), how, promises)


def test_without_promises_all_state_is_unbounded_and_a_remedy_is_named() -> None:
    said = words("id")
    assert said["left rows"].startswith("unbounded: all of them stay, because nothing is promised")
    assert "about the right input" in said["left rows"]
    assert "wm.punctuated('right', ...)" in said["left rows"]
    assert "wm.ordered('left', 'id')" in said["right rows"]


def test_order_bounds_the_other_side() -> None:
    said = words("id", wm.ordered("left", "id"))
    assert said["right rows"].startswith("bounded by ordered(id) of the left input")
    assert said["left rows"].startswith("unbounded")
    assert said["right rows"].endswith("the largest 'id' of the left input is above its own")
    falling = words("id", wm.ordered("left", "id", ascending=False, slack=3))["right rows"]
    assert falling.endswith(
        "below its own, and by more than the 3 that left rows may be out of order"
    )


def test_times_that_are_close_are_bounded_by_band_and_delay() -> None:
    near = wm.within("at", "5 minutes")
    said = words(["id", near], wm.watermark("right", "at", "90 seconds"))
    assert said["left rows"] == (
        "bounded by watermark(at, 1 minute 30 seconds) of the right input: a left row goes once "
        "the latest 'at' of the right input is past all that it could meet (at within 5 minutes), "
        "and by more than the 1 minute 30 seconds that right rows may be late"
    )
    marked = words(["id", near], wm.punctuated("right", "over", {"at": "equal", "id": "equal"}))
    assert "come with any 'at' that it could meet or its 'id'" in marked["left rows"]


def test_a_band_without_an_end_is_not_bounded_by_a_watermark_that_goes_there() -> None:
    after = wm.band("at", low="0 seconds")  # left comes after right, however much
    right = wm.watermark("right", "at", "1 hour")
    left = wm.watermark("left", "at", "1 hour")
    assert words(["id", after], right)["left rows"].startswith("bounded")
    said = words(["id", after], left)
    assert said["right rows"].startswith("unbounded")
    assert "the band has no end there" in said["left watermark(at, 1 hour)"]


def test_unique_keys_bound_rows_that_meet_their_partner() -> None:
    said = words("id", wm.unique("left"))
    assert said["right rows"].startswith("bounded for rows that find a partner")
    assert "met its one partner" in said["right rows"]


def test_what_is_only_checked_is_said_with_a_reason() -> None:
    two = wm.punctuated("left", "over", {"id": "equal", "at": "equal"})
    together = words(["id", "at", "name"], two)
    assert "'id' or its 'at'" in together["right rows"]  # each alone, when the other is null
    other = words("id", wm.punctuated("left", "over", {"name": "equal"}))
    assert "the join is not on it" in other["left punctuated(when over)"]


@pytest.mark.parametrize("on", [["name"], ["id", "at"], ["id", "name"]])
def test_keys_of_which_several_have_the_same_code_bound_rows_all_the_same(on: list[str]) -> None:
    assert "met its one partner" in words(on, wm.unique("left"))["right rows"]
    said = words(on, wm.clustered("left"))["right rows"]
    assert said.startswith("bounded for rows that find a partner")
    assert "the latest 16,384 such keys" in said
    over = wm.punctuated("left", "over", dict.fromkeys(on, "equal"))
    said = words(on, over)["right rows"]
    assert said.startswith("bounded by")
    assert "the latest 16,384 such keys" in said
    assert missing(on, "right", over) is None


def test_columns_that_are_a_part_of_the_key_bound_rows_too() -> None:
    for names in (["name"], ["name", "at"]):
        over = wm.punctuated("left", "over", dict.fromkeys(names, "equal"))
        said = words(["id", "name", "at"], over)["right rows"]
        assert said.startswith("bounded by")
        assert ("'name' and 'at' together" in said) == (len(names) == 2)
        assert "the latest 16,384 such keys" in said
        assert missing(["id", "name", "at"], "right", over) is None
    ranges = wm.punctuated("left", "over", {"name": ("name", None)})
    assert "texts of up to seven bytes" in words(["id", "name"], ranges)["right rows"]


def test_numbers_that_become_one_key_are_not_unique_keys() -> None:
    doubles = pa.schema({"id": pa.float64()})
    schema = JoinSchema.resolve(CLICKS, doubles, "id")
    said = dict(bounds_in_words(schema, [wm.unique("left")]))
    assert said["right rows"].startswith("unbounded")
    assert "compared as doubles" in said["left unique(the key)"]
    doubles = pa.schema({"id": pa.float64(), "name": pa.string()})
    both = JoinSchema.resolve(CLICKS, doubles, ["id", "name"])
    said = dict(bounds_in_words(both, [wm.clustered("left")]))
    assert "compared as doubles" in said["left clustered(the key)"]


@pytest.mark.parametrize(
    ("how", "about", "lacks"),
    [
        ("inner", [], None),
        ("left", ["right"], None),
        ("left", ["left"], "left"),
        ("anti", ["right"], None),
        ("semi", [], "left"),
        ("right", ["right"], "right"),
        ("full", ["right"], "right"),
        ("full", ["left", "right"], None),
    ],
)
def test_an_outer_join_lacks_what_bounds_the_rows_that_it_keeps(
    how: str, about: list[str], lacks: str | None
) -> None:
    promises = [wm.punctuated(side, "over", {"id": "equal"}) for side in about]
    found = missing("id", how, *promises)
    if lacks is None:
        assert found is None
    else:
        assert found.side.name.lower() == lacks
        other = {"left": "right", "right": "left"}[lacks]
        assert f"wm.punctuated('{other}', ...)" in found.remedy


def test_unique_keys_do_not_tell_who_never_finds_a_partner() -> None:
    found = missing("id", "left", wm.unique("right"))
    assert "unique(the key) does not say it" in found.cause


def test_an_end_of_an_interval_is_no_reason_to_drop_beside_equal_keys_either() -> None:
    within = wm.between("at", "since", "until")
    offers = pa.schema({"id": pa.int64(), "since": pa.timestamp("us"), "until": pa.timestamp("us")})
    schema = JoinSchema.resolve(CLICKS, offers, ["id", within])
    said = dict(bounds_in_words(schema, [wm.ordered("left", "at")]))
    assert "not dropped by one of their ends, at" in said["left ordered(at)"]
