"""Texts as values. tests/spark/test_xml_differential.py compares them with Spark's."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.xml.casting import cast, is_castable

BAD = "no value"
MOMENT = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.int8(), {"127": 127, "128": BAD, "+5": 5, " 5\n": 5, "5.0": BAD, "1_0": BAD, "": None}),
        (pa.uint8(), {"255": 255, "256": BAD, "-1": BAD}),
        (pa.int64(), {str(-(2**63)): -(2**63), str(2**63): BAD, "9" * 5000: BAD, "٣": BAD}),
        (
            pa.float32(),
            {"0.1": 0.10000000149011612, "1e39": float("inf"), "-Infinity": -float("inf")},
        ),
        (
            pa.float64(),
            {".5": 0.5, "1.": 1.0, "1e400": float("inf"), "inf": BAD, "1d": BAD, "-": BAD},
        ),
        (pa.bool_(), {"TRUE": True, "0": False, "yes": BAD, "": None}),
        (
            pa.decimal128(5, 2),
            {
                "1.245": Decimal("1.25"),
                "-0.005": Decimal("-0.01"),
                "1e2": 100,
                "999.995": BAD,
                "1e999999999": BAD,
                "0." + "1" * 2000: BAD,
                "1,5": BAD,
            },
        ),
        (
            pa.date32(),
            {"2020-02-29": date(2020, 2, 29), "2020-2-9": BAD, "2021-02-29": BAD, "2020": BAD},
        ),
        (
            pa.timestamp("ms"),
            {
                "2020-01-02": datetime(2020, 1, 2),
                "2020-01-02T03:04:05.6789": datetime(2020, 1, 2, 3, 4, 5, 678000),
                "2020-01-02T03:04:05Z": BAD,
            },
        ),
        (
            MOMENT,
            {
                "2020-07-01T00:00:00": datetime(2020, 6, 30, 22, tzinfo=UTC),
                "2020": datetime(2019, 12, 31, 23, tzinfo=UTC),
                "2020-01-01T00:00:00+19:00": BAD,
                "10:00": BAD,
                "2020-01-01 0:0:0 America/New_York": datetime(2020, 1, 1, 5, tzinfo=UTC),
                "2020-01-01T00:00:00 Moon/Sea": BAD,
                "2020-01-01T00:00:00../../etc": BAD,
            },
        ),
        (pa.string(), {" a b\t": "a b", "": "", "*": "*"}),
    ],
    ids=str,
)
def test_texts_are_values(kind: pa.DataType, texts: dict[str, Any]) -> None:
    found = cast(pa.array([*texts, None], pa.string()), kind, zone="Europe/Berlin")
    assert found.values.type == kind
    bad = [False] * (len(texts) + 1) if found.is_bad is None else found.is_bad.tolist()
    assert bad == [value is BAD for value in texts.values()] + [False]
    assert found.values.to_pylist() == [
        None if value is BAD else value for value in [*texts.values(), None]
    ]


KINDS = {
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1).map(str)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False).map(repr)),
    "decimal": (
        pa.decimal128(9, 3), st.decimals(-999_999, 999_999, allow_nan=False, places=5).map(str),
    ),
    "bool": (pa.bool_(), st.sampled_from(["true", "False", "1", "0"])),
    "date": (pa.date32(), st.dates().map(str)),
    "timestamp": (MOMENT, st.datetimes().map(lambda moment: moment.isoformat())),
}  # fmt: skip


@settings(max_examples=10)
@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_column_is_cast_as_its_texts_are_one_by_one(name: str, data: st.DataObject) -> None:
    """A text that is no value makes the others be read another way, with the same values."""
    kind, texts = KINDS[name]
    column = data.draw(st.lists(texts | st.just(""), min_size=1, max_size=6))
    plain = cast(pa.array(column), kind)
    mixed = cast(pa.array([*column, "x"]), kind)
    assert plain.is_bad is None or not plain.is_bad.any()
    assert mixed.values.to_pylist() == [*plain.values.to_pylist(), None]
    assert mixed.is_bad is not None
    assert mixed.is_bad.tolist() == [False] * len(column) + [True]


def test_what_texts_cannot_be() -> None:
    for kind in (pa.binary(), pa.decimal256(40, 2), pa.timestamp("ns"), pa.time64("us")):
        assert not is_castable(kind)
