"""An aggregate over files, in a process of its own that is watched from outside.

Run by `test_aggregates.py`; speaks JSON lines with `benchmarks.outside`. What it reads is written
by the test, so that only reading and joining are in the measured process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from tests.aggregates.readings import blocks_of
from watersmeet.aggregates.run import AggregateRun
from watersmeet.errors import MemoryTooSmall
from watersmeet.local.streaming import StreamReading

MILLION = 1_000_000


def texts(numbers: np.ndarray, width: int = 0) -> pa.Array:
    return pa.array([f"group {number:08}".ljust(width, "x") for number in numbers.tolist()])


def scattered(rows: int, keys: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, keys, rows)


def written(shape: str, folder: Path) -> dict[str, Any]:
    """Write two tables; what is asked of them, and the count that must come out."""
    left, right, question = SHAPES[shape]()
    for name, (table, group_rows) in {"left": left, "right": right}.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=group_rows)
    asked: dict[str, Any] = question
    return asked


def _narrow(rows: int, keys: int, *, row_group: int = 50_000) -> tuple[pa.Table, int]:
    random = np.random.default_rng(rows)
    columns = {"k": random.integers(0, keys, rows), "x": random.random(rows)}
    return pa.table(columns), row_group


def _unique(rows: int, *, row_group: int = 50_000, **more: Any) -> tuple[pa.Table, int]:
    return pa.table({"k": np.random.default_rng(1).permutation(rows), **more}), row_group


def _large_other_side() -> Any:
    rows = 4 * MILLION
    right = _unique(rows, y=np.arange(rows) / 7)
    return _narrow(2 * MILLION, rows), right, {"sum": "x * y", "rows": 2 * MILLION}


def _some_other_side() -> Any:
    """Fits, but barely: building it is what takes most."""
    rows = 300_000
    right = _unique(rows, y=np.arange(rows) / 7)
    return _narrow(2 * MILLION, rows), right, {"sum": "x * y", "rows": 2 * MILLION}


def _text_groups() -> Any:
    rows = MILLION
    table = pa.table({"k": scattered(rows, 1000), "g": texts(np.arange(rows) % 500_000)})
    return (table, 50_000), _unique(1000), {"group_by": "g", "rows": rows}


def _one_row_group() -> Any:
    table, _ = _narrow(6 * MILLION, 1000)
    wide = {f"c{n}": table["x"] for n in range(3)}
    for name, column in wide.items():
        table = table.append_column(name, column)
    expression = "x + c0 + c1 + c2"
    return (table, len(table)), _unique(1000), {"sum": expression, "rows": len(table)}


def _wide_texts() -> Any:
    """A long text is grouped by, few of them: a file holds each once, memory one for every row."""
    rows = 400_000
    words = texts(np.arange(20), 2_000)
    column = pa.DictionaryArray.from_arrays(pa.array(scattered(rows, 20).astype(np.int32)), words)
    table = pa.table({"k": scattered(rows, 1000), "g": column.cast(pa.string())})
    return (table, 200_000), _unique(1000), {"group_by": "g", "rows": rows}


def _wide_texts_aside() -> Any:
    """The same on the side that is kept."""
    rows = 60_000
    words = texts(np.arange(20), 2_000)
    column = pa.DictionaryArray.from_arrays(pa.array(scattered(rows, 20).astype(np.int32)), words)
    right = (pa.table({"k": np.arange(rows), "g": column.cast(pa.string())}), 20_000)
    return _narrow(MILLION, rows), right, {"group_by": "g", "rows": MILLION}


def _sorted_alike() -> Any:
    """Both follow the key, in large row groups: read by ranges."""
    rows = 4 * MILLION
    left = pa.table({"k": np.arange(rows), "x": np.arange(rows) / 3})
    right = pa.table({"k": np.arange(rows), "y": np.arange(rows) / 7})
    return (left, 500_000), (right, 500_000), {"sum": "x * y", "rows": rows}


def _pairs() -> Any:
    """A hundred partners each, looked at one by one."""
    right = pa.table({"k": np.arange(100_000) % 1000, "y": np.arange(100_000) / 7})
    return _narrow(100_000, 1000), (right, 10_000), {"sum": "x + y", "rows": 100 * 100_000}


def _hot_key() -> Any:
    """One key has almost all rows of both sides, more than memory holds."""
    keys = np.where(np.arange(MILLION) % 100 == 0, np.arange(MILLION), 7)
    right = pa.table({"k": keys, "y": np.arange(MILLION)})
    left = pa.table({"k": np.arange(200_000), "x": np.arange(200_000)})
    return (left, 20_000), (right, 50_000), {"sum": "x * y", "rows": 990_000 + 2_000}


SHAPES = {
    "large other side": _large_other_side,
    "some other side": _some_other_side,
    "text groups": _text_groups,
    "one row group": _one_row_group,
    "wide texts": _wide_texts,
    "wide texts aside": _wide_texts_aside,
    "sorted alike": _sorted_alike,
    "pairs": _pairs,
    "hot key": _hot_key,
}


def ask(left: Any, right: Any, order: dict[str, Any], **options: Any) -> dict[str, Any]:
    question = order["question"]
    asked: dict[str, Any] = {"n": wm.count()}
    if "sum" in question:
        asked["s"] = wm.sum(question["sum"])
    try:
        with wm.local.aggregate(
            left, right, on="k", group_by=question.get("group_by"), **options, **asked
        ) as run:
            looks = 0
            if order["looks"]:
                looks = sum(1 for _ in run)
            answer = run.exact().answer
            return {
                "rows": sum(answer["n"].to_pylist()),
                "groups": answer.num_rows,
                "looks": looks,
                "design": _design(run),
            }
    except MemoryTooSmall as error:
        return {"refused": str(error)}


def _design(run: AggregateRun) -> str:
    if isinstance(run._reading, StreamReading):
        return "stream"
    return str(blocks_of(run).plan.design)


def streamed(path: Path) -> Iterator[pa.RecordBatch]:
    """Rows of a file as something that can only be read once."""
    yield from pq.ParquetFile(path, pre_buffer=False).iter_batches(10_000, use_threads=False)


def main() -> None:
    order = json.loads(sys.stdin.readline())
    folder = Path(order["folder"])
    tiny = [
        next(pq.ParquetFile(folder / f"{side}.parquet").iter_batches(100))
        for side in ("left", "right")
    ]
    for side, table in zip(("left", "right"), tiny, strict=True):
        pq.write_table(pa.Table.from_batches([table]), folder / f"tiny-{side}.parquet")
    del tiny
    ask(folder / "tiny-left.parquet", folder / "tiny-right.parquet", order)
    pa.default_memory_pool().release_unused()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    paths = [folder / f"{side}.parquet" for side in ("left", "right")]
    inputs: list[Any] = [streamed(path) for path in paths] if order.get("streams") else paths
    said = ask(inputs[0], inputs[1], order, memory=order["memory"], spill_dir=str(folder))
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
