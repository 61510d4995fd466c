"""What tests do with lines: read all that are plain, and know which are not."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from watersmeet.delimited.layout import Layout
from watersmeet.delimited.reading import NotPlain, columns_of


class Read(NamedTuple):
    rows: pa.Table
    refused: list[tuple[str, bytes]]
    """Why, and the line."""


def read_plain(text: bytes, layout: Layout, *, batch_rows: int = 100) -> Read:
    """The rows of all lines that are plain, and the other lines."""
    kinds = [kind for kind in layout.kinds if kind is not None]
    schema = pa.schema([(str(number), kind) for number, kind in enumerate(kinds)])
    batches = []
    refused: list[tuple[str, bytes]] = []

    def refuse(error: NotPlain) -> None:
        refused.append((error.reason, text[error.start : error.stop]))

    read = columns_of(pa.py_buffer(text), layout, batch_rows=batch_rows, refuse=refuse)
    for columns, rows in read:
        assert 0 < rows <= batch_rows
        for column in columns:
            column.validate(full=True)
            assert len(column) == rows
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    assert all(line.find(b"\n") in (-1, len(line) - 1) and line for _, line in refused)
    return Read(pa.Table.from_batches(batches, schema), refused)
