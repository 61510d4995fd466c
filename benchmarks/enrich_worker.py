"""One process that joins an endless stream with a master table, as an order on its input says.

python -m benchmarks.enrich_worker     (an order as JSON on its input, what was measured as JSON)
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from watersmeet.model import JoinType
from watersmeet.operators.family import make_enricher
from watersmeet.operators.semistream.join import PATIENCE, SemiStreamJoin
from watersmeet.reproduce.ssbj.data import Zipf, opened
from watersmeet.reproduce.ssbj.runs import Rows
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

SEED = 1
# SSBJ fills its cache every third cycle and evicts in the tenth.
_WARM_UP = {"ssbj": 12, "meshjoin": 2, "auto": 4}
_MEASURED_CYCLES = 3
_SHORTEST_S = 1.0


def main() -> None:
    order = json.loads(sys.stdin.readline())
    tables = Zipf(order["rows"], order["skew"], SEED)
    if order["algorithm"] == "duckdb":
        found = _hash_join(tables, order)
    else:
        # Every row has an answer, so that its latency is known.
        stream, master = tables.schema.inputs
        schema = JoinSchema.resolve(stream, master, "key", JoinType.LEFT)
        join = make_enricher(
            order["algorithm"],
            schema,
            master=opened(Path(order["master"])),
            memory=MemoryAccount(order["memory"]),
            spill=SpillArea(Path(order["scratch"])),
        )
        act = _paced if order["rate"] else _as_fast_as_it_goes
        found = act(join, schema, Rows(tables, 0), order)
        join.close()
    print(json.dumps(found), flush=True)


def _as_fast_as_it_goes(
    join: SemiStreamJoin, schema: JoinSchema, rows: Rows, order: dict[str, Any]
) -> dict[str, Any]:
    """Rows are pushed without a pause, and all results copied out."""
    pushed = results = 0
    seconds = cpu = 0.0

    def cycles(count: int, least: float = 0.0) -> None:
        nonlocal pushed, results, seconds, cpu
        pushed, results, seconds, cpu = 0, 0, 0.0, 0.0
        stop = join.metrics.cycles + count
        while join.metrics.cycles < stop or seconds < least:
            for batch in rows.take(order["batch_rows"]):
                began, used = time.perf_counter(), time.thread_time()
                for matches in join.push(0, batch):
                    results += schema.materialise(matches).num_rows
                seconds += time.perf_counter() - began
                cpu += time.thread_time() - used
                pushed += len(batch)

    cycles(_WARM_UP[order["algorithm"]])
    hits, read = join.metrics.cache_hits, join.metrics.bytes_read
    cycles(_MEASURED_CYCLES, _SHORTEST_S)
    return {
        "rows": pushed,
        "seconds": seconds,
        "cpu": cpu,
        "cached": (join.metrics.cache_hits - hits) / pushed,
        "bytes_read": join.metrics.bytes_read - read,
        "cycle": join.metrics.cycle_seconds,
    }


def _paced(
    join: SemiStreamJoin, schema: JoinSchema, rows: Rows, order: dict[str, Any]
) -> dict[str, Any]:
    """Rows arrive at a rate, one after the other, and each carries when that was."""
    began = time.perf_counter()
    stop, rate, arrived = began + order["seconds"], order["rate"], 0
    waited: list[np.ndarray] = []
    longest = 0.0

    def is_next() -> bool:
        return int((time.perf_counter() - began) * rate) > arrived

    def take(results: Any) -> None:
        for matches in results:
            batch = schema.materialise(matches)
            seen = batch.column("seen").to_numpy()
            # Row n arrives when n + 1 rows are due.
            waited.append(time.perf_counter() - began - (seen + 1) / rate)

    while (now := time.perf_counter()) < stop:
        due = int((now - began) * rate) - arrived
        if due > 0:
            for batch in rows.take(due):
                numbers = pa.array(np.arange(arrived, arrived + len(batch)))
                take(join.push(0, batch.set_column(1, "seen", numbers)))
                arrived += len(batch)
            longest = max(longest, join.metrics.cycle_seconds)
        elif join.workspace.waiting:
            take(join.idle(is_next))
            longest = max(longest, join.metrics.cycle_seconds)
        else:
            time.sleep(min(1 / rate, 0.001))
    take(join.finish())
    # The first half warms up.
    half = np.concatenate(waited[len(waited) // 2 :])
    p50, p99, most = np.percentile(half, [50, 99, 100]).tolist()
    return {
        "rows": arrived,
        "p50": p50,
        "p99": p99,
        "most": most,
        "cycle": longest,
        "bound": longest * (1 + PATIENCE) if order["algorithm"] == "auto" else None,
        "cached": join.metrics.cache_hits / max(arrived, 1),
    }


def _hash_join(tables: Zipf, order: dict[str, Any]) -> dict[str, Any]:
    """DuckDB with all of the master table in memory; its hash table is built every time."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    master = pa.Table.from_batches(tables.master())
    stream = pa.Table.from_batches(Rows(tables, 0).take(order["stream_rows"]))
    connection.register("master", master)
    connection.register("stream", stream)
    began = time.perf_counter()
    connection.execute(
        "SELECT count(*), sum(stream.amount), max(master.facts) "
        "FROM stream LEFT JOIN master USING (key)"
    ).fetchall()
    seconds = time.perf_counter() - began
    return {"rows": len(stream), "seconds": seconds, "cpu": seconds, "cached": 1.0}


if __name__ == "__main__":
    main()
