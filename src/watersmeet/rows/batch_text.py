"""A batch as text, for JSON: Arrow's stream in base 64."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pyarrow as pa


def batch_to_text(rows: pa.RecordBatch) -> str:
    """
    >>> batch_from_text(batch_to_text(pa.record_batch({"n": [1, None]}))).to_pydict()
    {'n': [1, None]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return b64encode(sink.getvalue()).decode()


def batch_from_text(text: str) -> pa.RecordBatch:
    return pa.ipc.open_stream(b64decode(text)).read_next_batch()
