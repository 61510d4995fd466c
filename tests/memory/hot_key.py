"""A join in which every row of both sides has the same key, until enough results have come.

Run by `test_hot_key.py` in a process of its own; speaks JSON lines with `benchmarks.outside`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet.local import threaded

BATCH_ROWS = 10_000


def rows_of_one_key(
    name: str, rows: int, *, after: threading.Event | None = None, then: threading.Event
) -> pa.RecordBatchReader:
    """Numbered rows of one key, once `after` is set; sets `then` at their end."""

    def batches() -> Iterator[pa.RecordBatch]:
        if after is not None:
            after.wait()
        for start in range(0, rows, BATCH_ROWS):
            numbers = np.arange(start, min(start + BATCH_ROWS, rows), dtype=np.int64)
            yield pa.record_batch({"key": np.full(len(numbers), 7), name: numbers})
        then.set()

    # With a schema, so that the join can begin although one side is still silent.
    schema = pa.schema({"key": pa.int64(), name: pa.int64()})
    return pa.RecordBatchReader.from_batches(schema, batches())


def join(order: dict[str, Any]) -> wm.local.LocalJoin:
    left_is_done = threading.Event()
    left = rows_of_one_key("left", order["left_rows"], then=left_is_done)
    right = rows_of_one_key(
        "right",
        order["right_rows"],
        after=left_is_done if order["left_first"] else None,
        then=threading.Event(),
    )
    return wm.local.join(left, right, on="key", **order["settings"])


def main() -> None:
    # Threads are used however little memory each has.
    threaded.LEAST_EACH = 2**20
    order = json.loads(sys.stdin.readline())
    with join({**order, "left_rows": 100, "right_rows": 100}) as tiny:
        assert sum(batch.num_rows for batch in tiny) == 100 * 100
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()

    results, largest_batch, checksum = 0, 0, 0
    with join(order) as joined:
        for batch in joined:
            results += batch.num_rows
            largest_batch = max(largest_batch, batch.num_rows)
            left, right = (batch.column(name).to_numpy() for name in ("left", "right"))
            checksum += int((left * order["right_rows"] + right).sum())
            if results >= order["wanted"]:
                break
        spilled = joined.metrics.rows_spilled
    said = {
        "results": results,
        "largest_batch": largest_batch,
        "checksum": checksum,
        "spilled": spilled,
    }
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
