"""How bands are written: widths as numbers, spans and text, and what is refused."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.errors import InvalidArgument, SchemaError, WatersmeetError
from watersmeet.rows.bands import Band
from watersmeet.rows.spans import parse_width, together

SECOND = timedelta(seconds=1)

TEXTS = {
    "5 seconds": 5 * SECOND,
    "1 second": SECOND,
    "5s": 5 * SECOND,
    "5 sec": 5 * SECOND,
    "  5   Seconds ": 5 * SECOND,
    "250 ms": timedelta(milliseconds=250),
    "250 milliseconds": timedelta(milliseconds=250),
    "7 us": timedelta(microseconds=7),
    "7 µs": timedelta(microseconds=7),
    "1 hour 30 minutes": timedelta(minutes=90),
    "1 hour, 30 minutes": timedelta(minutes=90),
    "1h30min": timedelta(minutes=90),
    "1.5 hours": timedelta(minutes=90),
    "2 d": timedelta(days=2),
    "2 weeks": timedelta(days=14),
    "1 w -1 day": timedelta(days=6),
    "-3 minutes": timedelta(minutes=-3),
    "0 seconds": timedelta(0),
    "0.000001 seconds": timedelta(microseconds=1),
}


@pytest.mark.parametrize("text", TEXTS)
def test_spans_of_time_as_text(text: str) -> None:
    assert parse_width(text) == TEXTS[text]


@given(st.integers(-(10**15), 10**15))
def test_text_is_exact_to_the_microsecond(microseconds: int) -> None:
    seconds = Decimal(microseconds) / 10**6
    assert parse_width(f"{seconds:f} seconds") == timedelta(microseconds=microseconds)


@pytest.mark.parametrize("width", [5, -5, 0.25, Decimal("0.05"), timedelta(1)], ids=str)
def test_numbers_and_spans_are_what_they_are(width: Any) -> None:
    assert parse_width(width) == width
    assert type(parse_width(width)) is type(width)


BAD_WIDTHS: dict[str, tuple[Any, str]] = {
    "no unit": ("5", "no span of time.*Write numbers and units.*without a unit is a number"),
    "no number": ("seconds", "no span of time"),
    "nothing": ("", "no span of time"),
    "a word behind": ("5 seconds or so", "no span of time|no unit of time"),
    "a number behind": ("5 seconds 3", "no span of time"),
    "months": ("1 month", "not always the same time.*30 days"),
    "years": ("2 days 1 year", "not always the same time"),
    "a unit there is not": ("5 parsecs", "'parsecs' in '5 parsecs' is no unit of time.*seconds"),
    "too fine": ("0.1 us", "finer than a microsecond"),
    "too long": ("999999999999 weeks", "longer than 2.7 million years"),
    "a flag": (True, "True is no width.*5 seconds"),
    "nothing at all": (None, "None is no width"),
    "a list": ([5], "is no width"),
}


@pytest.mark.parametrize("what", BAD_WIDTHS)
def test_widths_that_are_none(what: str) -> None:
    width, said = BAD_WIDTHS[what]
    with pytest.raises(InvalidArgument, match=said):
        wm.within("t", width)
    if width is not None:
        with pytest.raises(InvalidArgument, match=said):
            wm.band("t", low=width)


@pytest.mark.parametrize(
    "width", [-1, -0.5, Decimal("-0.01"), timedelta(-1), "-5 seconds"], ids=str
)
def test_a_width_is_not_negative(width: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"is negative.*wm\.band"):
        wm.within("t", width)


@pytest.mark.parametrize(
    "width", [math.nan, math.inf, Decimal("NaN"), Decimal("Infinity")], ids=str
)
def test_a_width_is_finite(width: Any) -> None:
    with pytest.raises(InvalidArgument, match="ends at"):
        wm.within("t", width)
    with pytest.raises(InvalidArgument, match="ends at"):
        wm.band("t", high=width)


@pytest.mark.parametrize("columns", [None, 3, (), ("a",), ("a", "b", "c"), ("a", 3), {"a": "b"}])
def test_columns_are_a_name_or_a_pair(columns: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"names no columns.*Give a name"):
        wm.within(columns, 5)
    with pytest.raises(InvalidArgument, match=r"names no columns.*Give a name"):
        wm.band(columns, low=5)


def test_within_is_a_band_around_zero() -> None:
    assert wm.within("t", 5) == Band("t", "t", low=-5, high=5)
    assert wm.within(("sent", "read"), "5 s", open=True) == Band(
        "sent", "read", -5 * SECOND, 5 * SECOND, low_open=True, high_open=True
    )
    assert wm.within("t", 0) == Band("t", "t", low=0, high=0)


def test_a_band_has_the_ends_that_are_given() -> None:
    assert wm.band("t", low=1) == Band("t", "t", low=1)
    assert wm.band(("a", "b"), "0 s", "1 day", high_open=True) == Band(
        "a", "b", timedelta(0), timedelta(1), high_open=True
    )
    with pytest.raises(InvalidArgument, match="neither a lower nor an upper end"):
        wm.band("t")


@pytest.mark.parametrize(
    ("low", "high", "opened"),
    [
        (2, 1, {}),
        ("1 minute", "59 seconds", {}),
        (Decimal("0.2"), 0.1, {}),
        (1, 1, {"low_open": True}),
        (timedelta(0), "0 s", {"high_open": True}),
    ],
)
def test_a_band_in_which_nothing_lies(low: Any, high: Any, opened: dict[str, bool]) -> None:
    with pytest.raises(InvalidArgument, match=r"no difference lies between.*exchange the ends"):
        wm.band("t", low, high, **opened)


def test_one_value_is_enough_for_a_band() -> None:
    assert wm.band("t", 1, 1) == Band("t", "t", low=1, high=1)


def test_a_number_beside_a_span_is_found_out_by_the_columns() -> None:
    asked = wm.band("t", 0, "5 seconds")
    for kind in (pa.int64(), pa.timestamp("us")):
        with pytest.raises(SchemaError, match="Give a"):
            asked.resolve(pa.field("t", kind), pa.field("t", kind))


@pytest.mark.parametrize("what", BAD_WIDTHS)
def test_errors_have_a_cause_and_a_remedy(what: str) -> None:
    with pytest.raises(WatersmeetError) as caught:
        wm.within("t", BAD_WIDTHS[what][0])
    assert caught.value.cause.endswith(".")
    assert caught.value.remedy.endswith(".")


def test_bands_of_one_pair_of_columns_are_one() -> None:
    asked = [wm.band("t", low=0), wm.band("v", low=1), wm.band("t", high=5, high_open=True)]
    assert together(asked) == [wm.band("t", 0, 5, high_open=True), wm.band("v", low=1)]


@pytest.mark.parametrize(
    ("bands", "one"),
    [
        ([wm.band("t", 0, 9), wm.band("t", 3, 12)], wm.band("t", 3, 9)),
        ([wm.band("t", 3, 12), wm.band("t", 0, 9)], wm.band("t", 3, 9)),
        ([wm.band("t", low=3), wm.band("t", low=3, low_open=True)], wm.band("t", 3, low_open=True)),
        ([wm.band("t", high=3, high_open=True), wm.band("t", high=3)],
         wm.band("t", high=3, high_open=True)),
    ],
)  # fmt: skip
def test_the_narrower_end_holds(bands: list[Band], one: Band) -> None:
    assert together(bands) == [one]


def test_bands_that_contradict_each_other_are_refused() -> None:
    inputs = pa.table({"t": [1]}), pa.table({"t": [1]})
    contradicting = [wm.band("t", low=5), wm.band("t", high=3)]
    with pytest.raises(InvalidArgument, match="contradict each other"):
        wm.local.join(*inputs, on=contradicting)


def test_a_number_and_a_span_of_time_are_left_to_their_columns() -> None:
    asked = [wm.band("t", low=1), wm.band("t", low="1 second")]
    assert together(asked) == asked
