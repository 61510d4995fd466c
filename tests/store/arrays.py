"""One kind of every Arrow type family, with values that are easy to get wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 127],
    pa.uint16(): [0, 1, 2**16 - 1],
    pa.int32(): [-(2**31), 7, 2**31 - 1],
    pa.int64(): [-(2**63), 0, 2**63 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.float32(): [0.0, -1.5, float("inf")],
    pa.float64(): [1e-300, -0.0, 2.5],
    pa.bool_(): [True, False],
    pa.decimal128(38, 2): [Decimal("0.01"), Decimal("-123456789012345678901234567890.12")],
    pa.decimal256(60, 1): [Decimal("0.1"), Decimal(-(10**50))],
    pa.binary(3): [b"abc", b"\0\0\0", b"xyz"],
    pa.binary(16): [b"0123456789abcdef", bytes(16)],
    pa.binary(21): [b"x" * 21, bytes(range(21))],
    pa.string(): ["", "a", "ä€", "long " * 40],
    pa.binary(): [b"", b"\0", b"bytes" * 9],
    pa.large_string(): ["", "large", "ß" * 50],
    pa.large_binary(): [b"", b"\xff\xfe"],
    pa.timestamp("us", tz="UTC"): [dt.datetime(1969, 12, 31, tzinfo=dt.UTC)],
    pa.date32(): [dt.date(1970, 1, 1), dt.date(2026, 11, 15)],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, -2, 3]), pa.MonthDayNano([0, 0, 0])],
    pa.list_(pa.int32()): [[], [1], [1, None, 3]],
    pa.list_(pa.int16(), 2): [[1, 2], [None, 4]],
    pa.struct({"x": pa.int8(), "y": pa.string()}): [{"x": 1, "y": None}, {"x": None, "y": "s"}],
    pa.map_(pa.string(), pa.int8()): [[], [("a", 1), ("b", None)]],
    pa.list_(pa.list_(pa.string())): [[], [[]], [["a", None], None, ["bcd", ""]]],
    pa.large_list(pa.struct({"a": pa.bool_(), "b": pa.list_(pa.int8())})): [
        [{"a": True, "b": [1, None, 3]}, None],
        [{"a": None, "b": None}],
    ],
    pa.struct({"list": pa.list_(pa.binary(16), 2), "none": pa.struct([])}): [
        {"list": [b"0123456789abcdef", None], "none": {}},
        {"list": None, "none": None},
    ],
    pa.null(): [],
}


def name_of(kind: pa.DataType) -> str:
    return str(kind)
