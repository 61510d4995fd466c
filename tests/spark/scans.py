"""What the tests of plain scans share: a DataFrame read by us and by Spark, row for row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame

from watersmeet.spark.scans.relation import (
    PlainScan,
    Split,
    StagedRows,
    TextRelation,
    TextScan,
    UnionScan,
    open_relation,
)


def plain(frame: DataFrame) -> PlainScan:
    scan = open_relation(frame, argument="left")
    assert isinstance(scan, PlainScan), scan
    return scan


def text_scan(frame: DataFrame) -> TextScan:
    scan = open_relation(frame, argument="left")
    assert isinstance(scan, TextScan), scan
    return scan


def union_scan(frame: DataFrame) -> UnionScan:
    scan = open_relation(frame, argument="left")
    assert isinstance(scan, UnionScan), scan
    return scan


def refused(frame: DataFrame) -> str:
    """Why it is not read from its files."""
    staged = open_relation(frame, argument="left")
    assert isinstance(staged, StagedRows), staged.describe()
    return staged.reason


def read(scan: PlainScan, *, batch_rows: int = 1_000) -> pa.Table:
    batches = [
        batch
        for group in scan.row_groups
        for batch in scan.read(
            Split(group.file, group.number, 0, group.rows), batch_rows=batch_rows
        )
    ]
    return pa.Table.from_batches(batches, scan.schema)


def read_text(relation: TextRelation, *, many: int = 7) -> pa.Table:
    """In this process; all lines must be plain."""

    def strange(text: pa.Buffer, reason: str) -> None:
        raise AssertionError((reason, text.to_pybytes()))

    scan = UnionScan.of(relation)
    pieces = [piece for partition in scan.cut(many) for piece in partition]
    batches = [batch for piece in pieces for batch in scan.read(piece, strange)]
    return pa.Table.from_batches(batches, scan.schema)


def rows(table: pa.Table) -> Counter[str]:
    """Rows as a multiset of texts, which tell -0.0 from 0.0 and find NaN equal to NaN."""
    columns = [_values(table.column(place)) for place in range(table.num_columns)]
    return Counter(map(repr, zip(*columns, strict=True)))


def _values(column: pa.ChunkedArray) -> list[Any]:
    # Spark's years go further than Python's.
    if pt.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pt.is_date(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values


def assert_read_alike(frame: DataFrame) -> PlainScan:
    scan = plain(frame)
    ours, theirs = read(scan), frame.toArrow()
    assert ours.schema.names == theirs.schema.names
    assert ours.schema.types == theirs.schema.types
    assert rows(ours) == rows(theirs)
    return scan
