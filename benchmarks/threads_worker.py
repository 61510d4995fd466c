"""One process that enriches a stream, or joins many inputs, in so many threads, on so many cores.

python -m benchmarks.threads_worker     (an order as JSON on its input, what was measured as JSON)
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm

SEED = 1
_BATCH_ROWS = 20_000
_NAMES = ("a", "b", "c")


def enrichment(order: dict[str, Any]) -> tuple[Any, int]:
    """A stream whose keys come by chance, and a master with each key once; and what their numbers
    add up to."""
    rows, keys = order["rows"], order["rows"] // 2
    random = np.random.default_rng(SEED)
    asked = random.integers(0, keys, rows)
    numbers = random.permutation(keys)
    master = pa.table({"key": np.arange(keys), "number": numbers, "text": ["x" * 80] * keys})
    stream = pa.table({"key": asked, "row": np.arange(rows)})
    run = wm.local.enrich(
        _batches(stream), master, "key",
        memory=order["memory"], spill_dir=order["scratch"], threads=order["threads"],
    )  # fmt: skip
    return run, int(numbers[asked].sum())


def star(order: dict[str, Any]) -> tuple[Any, int]:
    """Three inputs that have each key once, in another order each."""
    rows = order["rows"]
    random = np.random.default_rng(SEED)
    tables = [pa.table({"key": random.permutation(rows), name: np.arange(rows)}) for name in _NAMES]
    run = wm.local.join_many(
        dict(zip(_NAMES, map(_batches, tables), strict=True)), "key",
        memory=order["memory"], spill_dir=order["scratch"], threads=order["threads"],
    )  # fmt: skip
    return run, rows * (rows - 1) // 2


KINDS = {"enrich": (enrichment, "number"), "join_many": (star, "a")}


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=_BATCH_ROWS))


def _measured(order: dict[str, Any]) -> dict[str, Any]:
    make, column = KINDS[order["kind"]]
    run, wanted = make(order)
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    first, found, rows = None, 0, 0
    with run:
        for batch in run:
            first = first or time.perf_counter() - began
            rows += len(batch)
            found += int(batch.column(column).to_numpy().sum())
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": order["rows"],
        "seconds": seconds,
        "first": first,
        "cpu": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime,
        "exact": (rows, found) == (order["rows"], wanted),
    }


def main() -> None:
    order = json.loads(sys.stdin.readline())
    cores = sorted(os.sched_getaffinity(0))[: order["cores"]]
    os.sched_setaffinity(0, cores)
    # Arrow counted the cores when it was imported.
    pa.set_cpu_count(len(cores))
    _measured(order | {"rows": 10_000, "memory": 64 * 2**20})  # Kernels are loaded then.
    print(json.dumps(_measured(order)), flush=True)


if __name__ == "__main__":
    main()
