"""Columns of numbers as files have them: what Arrow reads, or nothing."""

from __future__ import annotations

import io
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.parquet.numbered import StoredColumn, read_numbered

KINDS = [
    *(pa.int32(), pa.int64(), pa.date32(), pa.float64(), pa.decimal128(15, 2)),
    *(pa.string(), pa.binary()),
]


def _written(column: pa.Array, *, nullable: bool = True, **settings: Any) -> bytes:
    schema = pa.schema([pa.field("x", column.type, nullable=nullable)])
    out = io.BytesIO()
    settings = {"store_decimal_as_integer": True, **settings}
    pq.write_table(pa.table([column], schema=schema), out, **settings)
    return out.getvalue()


def _stored(file: bytes) -> StoredColumn | None:
    metadata = pq.read_metadata(io.BytesIO(file))
    return StoredColumn.of(metadata, 0, 0, metadata.schema.to_arrow_schema().field(0).type)


def _read(file: bytes) -> pa.DictionaryArray | None:
    stored = _stored(file)
    if stored is None:
        return None
    return read_numbered(file[stored.offset : stored.offset + stored.stored], stored)


def _values(numbers: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    match kind:
        case pa.Decimal128Type():
            return pa.array([Decimal(int(n)).scaleb(-2) for n in numbers], kind)
        case _ if kind in (pa.string(), pa.binary()):
            return pa.array([str(n) * (n % 4) for n in numbers.tolist()], pa.string()).cast(kind)
        case _ if kind == pa.date32():
            return pa.array([date(2000, 1, 1) + timedelta(days=int(n)) for n in numbers], kind)
        case _:
            return pa.array(numbers, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "optional"])
def test_the_values_are_those_that_arrow_reads(
    kind: pa.DataType, codec: str, nullable: bool
) -> None:
    numbers = np.random.default_rng(7).integers(-300, 300, 5000)
    column = _values(np.concatenate([numbers, np.full(1000, 5), numbers]), kind)
    file = _written(column, nullable=nullable, compression=codec, data_page_size=1000)
    found = _read(file)
    assert found is not None
    assert found.cast(kind).equals(column)
    assert len(found.dictionary) == len(column.unique())


@given(
    runs=st.lists(st.tuples(st.integers(0, 1100), st.integers(1, 40)), min_size=1, max_size=60),
    page=st.integers(1, 400),
)
def test_runs_of_any_length_and_width(runs: list[tuple[int, int]], page: int) -> None:
    column = pa.array([value for value, times in runs for _ in range(times)], pa.int64())
    found = _read(_written(column, data_page_size=page, write_batch_size=8))
    assert found is not None
    assert found.cast(pa.int64()).equals(column)


def test_one_value_takes_no_bits() -> None:
    found = _read(_written(pa.array([3] * 1000, pa.int64())))
    assert found is not None
    assert found.to_pylist() == [3] * 1000


@pytest.mark.parametrize(
    "file",
    [
        _written(pa.array([1, None, 2], pa.int64())),
        _written(pa.array([1, None, 2], pa.int64()), write_statistics=False),
        _written(pa.array([1, 2], pa.int64()), use_dictionary=False),
        # The dictionary is full at some time, and plain values follow.
        _written(
            pa.array(range(10_000), pa.int64()), dictionary_pagesize_limit=4096, data_page_size=4096
        ),
        _written(pa.array([1, 2], pa.int64()), data_page_version="2.0"),
        _written(pa.array(["a", None, "b"])),
        _written(pa.array(["a", "b"], pa.large_string())),
        _written(pa.array([1, 2], pa.int16())),
        _written(pa.array([1, 2], pa.timestamp("us"))),
        _written(pa.array([Decimal(1)], pa.decimal128(30, 2))),
        _written(pa.array([Decimal(1)], pa.decimal128(15, 2)), store_decimal_as_integer=False),
        _written(pa.array([[1], [2]], pa.list_(pa.int64()))),
    ],
    ids=[
        *("nulls", "perhaps nulls", "no dictionary", "a dictionary that is full", "new pages"),
        *(
            "text with nulls",
            "large text",
            "short",
            "instants",
            "wide decimals",
            "decimals in bytes",
            "lists",
        ),
    ],
)
def test_what_is_not_so_is_left_to_arrow(file: bytes) -> None:
    assert _read(file) is None


@given(st.data())
def test_damaged_bytes_are_numbers_of_the_dictionary_or_nothing(data: st.DataObject) -> None:
    """Whatever is in them: nothing beyond their end is read, and no number is too large."""
    codec = data.draw(st.sampled_from(["none", "snappy"]))
    column = pa.array([n % 97 for n in range(2000)], pa.int64())
    file = _written(column, compression=codec, data_page_size=500)
    stored = _stored(file)
    assert stored is not None
    chunk = bytearray(file[stored.offset : stored.offset + stored.stored])
    for _ in range(data.draw(st.integers(1, 4))):
        chunk[data.draw(st.integers(0, len(chunk) - 1))] = data.draw(st.integers(0, 255))
    chunk = chunk[: data.draw(st.integers(1, len(chunk)))]
    try:
        found = read_numbered(bytes(chunk), stored)
    except pa.ArrowException:
        return
    if found is not None:
        found.validate(full=True)
        assert len(found) == stored.rows
