"""A join of one key with itself, a million rows a side, of which only the first results are asked.

Run by `test_resident.py` in a process of its own; speaks JSON lines with `benchmarks.outside`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import watersmeet as wm

BATCH_ROWS = 10_000


def rows_of_one_key(name: str, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, BATCH_ROWS):
        numbers = np.arange(start, min(start + BATCH_ROWS, rows), dtype=np.int64)
        yield pa.record_batch({"key": np.full(len(numbers), 7), name: numbers})


def main() -> None:
    order = json.loads(sys.stdin.readline())
    rows, wanted = order["rows"], order["results"]
    settings = {key: order[key] for key in ("algorithm", "memory", "spill_dir")}
    with wm.local.join(
        rows_of_one_key("left", 100), rows_of_one_key("right", 100), on="key", **settings
    ) as tiny:
        assert sum(batch.num_rows for batch in tiny) == 100 * 100
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()

    results, largest_batch, distinct = 0, 0, True
    with wm.local.join(
        rows_of_one_key("left", rows), rows_of_one_key("right", rows), on="key", **settings
    ) as joined:
        for batch in joined:
            results += batch.num_rows
            largest_batch = max(largest_batch, batch.num_rows)
            pairs = batch.column("left").to_numpy() * rows + batch.column("right").to_numpy()
            distinct &= len(np.unique(pairs)) == len(pairs)
            if results >= wanted:
                break
        read = list(joined.metrics.rows_in)
    said = {
        "results": results,
        "largest_batch": largest_batch,
        "distinct": bool(distinct),
        "rows_in": read,
    }
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
