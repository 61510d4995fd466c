"""Files of plain pages are Parquet: Arrow reads from them what was written, Arrow's own writer's
bytes aside."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.parquet.plain import SETTINGS, Layout, PlainWriter

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [0, -128, 127]),
    "smallint": (pa.int16(), [0, -(2**15), 2**15 - 1]),
    "int": (pa.int32(), [0, -(2**31), 2**31 - 1]),
    "bigint": (pa.int64(), [0, -(2**63), 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.5, float("inf")]),
    "double": (pa.float64(), [0.0, -0.1, float("-inf")]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [datetime.datetime(2026, 2, 28, 1, 2, 3, 4)]),
    "decimal(9,2)": (pa.decimal128(9, 2), [decimal.Decimal("-9999999.99"), decimal.Decimal(0)]),
    "decimal(18,0)": (pa.decimal128(18, 0), [decimal.Decimal(10**18 - 1), decimal.Decimal(-1)]),
    "string": (pa.string(), ["", "a", "Žluť 🐎", "x" * 300]),
    "large string": (pa.large_string(), ["", "b" * 5]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
}


def written(batches: Sequence[Sequence[pa.RecordBatch]], schema: pa.Schema) -> bytes:
    """Each of the lists is a row group."""
    layout = Layout.of(schema)
    assert layout is not None
    out = io.BytesIO()
    writer = PlainWriter(out, layout)
    for group in batches:
        writer.write_group(group)
    writer.close()
    return out.getvalue()


def by_arrow(batches: Sequence[Sequence[pa.RecordBatch]], schema: pa.Schema) -> bytes:
    out = io.BytesIO()
    with pq.ParquetWriter(out, schema, **SETTINGS) as writer:
        for group in batches:
            table = pa.Table.from_batches(group, schema)
            if len(table):
                writer.write_table(table)
    return out.getvalue()


@st.composite
def groups(draw: st.DrawFn) -> tuple[pa.Schema, list[list[pa.RecordBatch]]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=20))
    schema = pa.schema(
        [
            pa.field(f"{name}.{n}", KINDS[name][0], nullable=draw(st.booleans()))
            for n, name in enumerate(names)
        ]
    )

    def column(name: str, field: pa.Field, rows: int) -> pa.Array:
        values = st.sampled_from(KINDS[name][1])
        if field.nullable:
            values = st.one_of(st.none(), values) if draw(st.booleans()) else values
        before = draw(st.integers(0, 9))
        found = draw(st.lists(values, min_size=before + rows, max_size=before + rows))
        # A slice: its values do not begin where its buffers do.
        return pa.array(found, field.type)[before:]

    def batch() -> pa.RecordBatch:
        rows = draw(st.integers(0, 40))
        pairs = zip(names, schema, strict=True)
        arrays = [column(name, field, rows) for name, field in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    counts = draw(st.lists(st.integers(0, 3), max_size=3))
    return schema, [[batch() for _ in range(count)] for count in counts]


@given(groups())
def test_arrow_reads_what_was_written(given: tuple[pa.Schema, list[list[pa.RecordBatch]]]) -> None:
    schema, batches = given
    text, other = written(batches, schema), by_arrow(batches, schema)
    file, like = pq.ParquetFile(io.BytesIO(text)), pq.ParquetFile(io.BytesIO(other))
    assert file.schema.equals(like.schema)
    assert file.read().equals(like.read())
    assert file.metadata.num_rows == like.metadata.num_rows
    assert file.metadata.num_row_groups == like.metadata.num_row_groups


def test_a_page_of_many_values_and_of_many_nulls() -> None:
    rows = 300_000
    random = np.random.default_rng(1)
    values = random.integers(0, 2**60, rows)
    some = pa.array(values, mask=random.random(rows) < 0.5)
    texts = pa.array(values % 1000).cast(pa.string())
    batch = pa.record_batch({"all": pa.array(values), "some": some, "texts": texts})
    text = written([[batch.slice(7, 100_000), batch.slice(5)], [batch]], batch.schema)
    found = pq.read_table(io.BytesIO(text))
    parts = [batch.slice(7, 100_000), batch.slice(5), batch]
    assert found.equals(pa.Table.from_batches(parts, batch.schema))


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.decimal128(19, 0),
        pa.timestamp("s"),
        pa.time32("ms"),
        pa.uint32(),
    ],
    ids=str,
)
def test_other_types_are_left_to_arrow(kind: pa.DataType) -> None:
    assert Layout.of(pa.schema([("a", pa.int64()), ("b", kind)])) is None
    assert Layout.of(pa.schema([("b", kind), ("a", pa.int64())])) is None
