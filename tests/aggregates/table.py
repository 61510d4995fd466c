"""A small table with every type of number, nulls, and the values that break arithmetic."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa

NAN, INF = float("nan"), float("inf")


def _decimals(texts: list[str | None]) -> list[Decimal | None]:
    return [None if text is None else Decimal(text) for text in texts]


TABLE = pa.table(
    {
        "i8": pa.array([1, -2, None, 100, 0, 7], pa.int8()),
        "i16": pa.array([3, None, -300, 300, 0, 7], pa.int16()),
        "i32": pa.array([5, -70_000, 12, 2_000_000, None, 7], pa.int32()),
        "i64": pa.array([11, 2**40, -(2**53) - 1, None, 0, 7], pa.int64()),
        "nonzero": pa.array([2, -3, 7, None, 11, -1], pa.int32()),
        "f32": pa.array([0.1, -2.5, None, 1e10, -0.0, NAN], pa.float32()),
        "f64": pa.array([0.1, INF, -2.5, None, 0.0, NAN], pa.float64()),
        "d5": pa.array(_decimals(["1.25", "-999.99", None, "0.05", "0.00", "3.00"]),
                       pa.decimal128(5, 2)),
        "d15": pa.array(_decimals(["20.50", "-1234567890123.45", "0.01", None, "0.00", "7.77"]),
                        pa.decimal128(15, 2)),
        "d0": pa.array(_decimals(["3", "-4", "5", "6", None, "999999"]), pa.decimal128(6, 0)),
        "d30": pa.array(
            _decimals(["12345678901234567890123456.1234", "-2.5000", None, "0.0001", "1.0000",
                       "-12345678901234567890.9999"]),
            pa.decimal128(30, 4),
        ),
        "nonzero_decimal": pa.array(_decimals(["0.07", "-3.00", "2.50", None, "9.99", "-0.01"]),
                                    pa.decimal128(4, 2)),
        "text": pa.array(["a", "bb", None, "a'b", "", "a"]),
        "day": pa.array([date(1995, 3, 15), None, date(1996, 1, 1), date(1969, 12, 31),
                         date(1995, 3, 14), date(2024, 2, 29)]),
        "flag": pa.array([True, False, None, True, None, False]),
        "odd name": pa.array([1, 2, 3, 4, None, 6], pa.int32()),
    }
)  # fmt: skip
