"""Rows of a batch are copied out by position as Arrow does it, whatever the type and the slice."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.rows.batch import BatchRows

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, -2, 3, 4]),
    (pa.uint16(), [1, 2, 65535, 4]),
    (pa.float32(), [0.5, -0.0, 2.5, float("inf")]),
    (pa.int64(), [2**62, -1, 0, 5]),
    (pa.date32(), [date(2020, 1, day) for day in (1, 2, 3, 4)]),
    (pa.timestamp("us", tz="UTC"), [datetime(2020, 1, day) for day in (1, 2, 3, 4)]),
    (pa.decimal128(20, 2), [Decimal(n) for n in (1, -2, 3, 4)]),
    (pa.binary(3), [b"abc", b"def", b"ghi", b"jkl"]),
    (pa.bool_(), [True, False, False, True]),
    (pa.string(), ["a", "", "ccc", "dd"]),
    (pa.list_(pa.int32()), [[1], [], [2, 3], [4]]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda each: str(each)[:24])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("nulls", [False, True])
def test_rows_are_copied_as_arrow_does_it(
    kind: pa.DataType, values: list[Any], first: int, nulls: bool
) -> None:
    array = pa.array([None if nulls and n == 2 else value for n, value in enumerate(values)], kind)
    batch = pa.record_batch({"x": array}).slice(first)
    index = np.array([2, 0, 0, 1], np.int64)
    taken = BatchRows(batch).take(0, index)
    assert taken.type == kind
    assert taken.to_pylist() == batch.column(0).take(pa.array(index)).to_pylist()
    taken.validate(full=True)


def test_positions_need_not_be_side_by_side_in_memory() -> None:
    batch = pa.record_batch({"x": pa.array([10, 20, 30])})
    pairs = np.array([[2, 0], [1, 0], [1, 0]])
    assert BatchRows(batch).take(0, pairs[:, 0]).to_pylist() == [30, 20, 20]


def test_no_rows_are_copied_of_a_batch_without_any() -> None:
    batch = pa.record_batch({"x": pa.array([], pa.int64())})
    assert BatchRows(batch).take(0, np.empty(0, np.int64)).to_pylist() == []
