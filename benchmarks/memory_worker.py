"""A join of one kind of source and row in a process of its own, for whoever watches its memory.

Speaks JSON lines with `benchmarks.outside`: makes or opens its inputs, says `ready`, waits for the
word, joins, and says what came out. Files are written by `write`, in another process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SIDES = ("left", "right")
FILES = ("parquet", "parquet-dictionary", "parquet-one-group", "arrow", "arrow-lz4", "csv")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Two inputs of `rows` rows, each key once a side, each row with a payload of `width` bytes.

    `source` says what the join is given; `payload` how the column is laid out; `batch_rows` is
    the size of a batch that is made, or stored in a file. With `spread`, every hundredth row has
    nearly all of the bytes.
    """

    source: str
    rows: int
    width: int
    batch_rows: int
    payload: str = "text"
    spread: bool = False

    @property
    def nbytes(self) -> int:
        return 2 * self.rows * (self.width + 16)

    def identity(self) -> str:
        return "-".join(str(value) for value in asdict(self).values())


def batches(shape: Shape, side: int) -> Iterator[pa.RecordBatch]:
    keys = np.random.default_rng(side).permutation(shape.rows)
    for start in range(0, shape.rows, shape.batch_rows):
        rows = np.arange(start, min(start + shape.batch_rows, shape.rows))
        yield pa.record_batch(
            {
                "key": keys[rows],
                f"{SIDES[side]}_row": rows,
                f"{SIDES[side]}_payload": payload(shape, rows),
            }
        )


def payload(shape: Shape, rows: Any) -> pa.Array:
    lengths = lengths_of(shape, rows)
    if shape.payload == "dictionary":
        words = pa.array(["x" * shape.width, "y" * shape.width])
        return pa.DictionaryArray.from_arrays(pa.array((rows % 2).astype(np.int32)), words)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = np.empty(int(offsets[-1]), np.uint8)
    data[:] = 97 + int(rows[0]) % 26
    if shape.payload == "list":
        values = pa.array(data.view(np.int8))
        return pa.LargeListArray.from_arrays(pa.array(offsets), values)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    text = pa.Array.from_buffers(pa.large_string(), len(rows), buffers)
    if shape.payload == "struct":
        return pa.StructArray.from_arrays([text, pa.array(rows)], ["text", "number"])
    if shape.payload == "map":
        entries = max(shape.width // 400, 1)
        ends = entries * np.arange(len(rows) + 1)
        keys = pa.array([f"key {number}" for number in range(entries)] * len(rows))
        inner = np.linspace(0, int(offsets[-1]), int(ends[-1]) + 1).astype(np.int64)
        buffers = [None, pa.py_buffer(inner), pa.py_buffer(data)]
        items = pa.Array.from_buffers(pa.large_string(), int(ends[-1]), buffers)
        return pa.MapArray.from_arrays(pa.array(ends.astype(np.int32)), keys, items)
    return text.cast(pa.string_view()) if shape.payload == "view" else text


def lengths_of(shape: Shape, rows: Any) -> Any:
    if not shape.spread:
        return np.full(len(rows), shape.width)
    return np.where(rows % 100 == 7, 100 * shape.width, 0)


def write(shape: Shape, side: int, folder: Path) -> Path:
    """The file of one side, unless it is there."""
    kind = shape.source
    suffix = kind.partition("-")[0] if kind in FILES else "parquet"
    path = folder / f"{side}-{shape.identity()}.{suffix}"
    if path.exists():
        return path
    schema = next(batches(shape, side)).schema
    if suffix == "parquet":
        import pyarrow.parquet as pq

        dictionary = kind == "parquet-dictionary"
        group = shape.rows if kind == "parquet-one-group" else shape.batch_rows
        table = pa.Table.from_batches(batches(shape, side))
        pq.write_table(table, path, row_group_size=group, use_dictionary=dictionary)
    elif suffix == "csv":
        import pyarrow.csv as csv

        with csv.CSVWriter(path, schema) as writer:
            for batch in batches(shape, side):
                writer.write_batch(batch)
    else:
        packed = pa.ipc.IpcWriteOptions(compression="lz4" if kind == "arrow-lz4" else None)
        with pa.ipc.new_file(path, schema, options=packed) as file:
            for batch in batches(shape, side):
                file.write_batch(batch)
    return path


def source(shape: Shape, side: int, folder: Path) -> Any:
    """What the join is given. What its caller would hold anyway is held when this returns."""
    if shape.source == "iterator":
        return batches(shape, side)
    if shape.source == "reader":
        schema = next(batches(shape, side)).schema
        return pa.RecordBatchReader.from_batches(schema, batches(shape, side))
    if shape.source == "table":
        return pa.Table.from_batches(batches(shape, side)).combine_chunks()
    if shape.source == "pandas":
        return pa.Table.from_batches(batches(shape, side)).to_pandas(self_destruct=True)
    path = write(shape, side, folder)
    if shape.source == "dataset":
        import pyarrow.dataset as ds

        return ds.dataset(path)
    if shape.source == "duckdb":
        import duckdb

        connection = duckdb.connect(config={"threads": 1, "memory_limit": "64MB"})
        return connection.read_parquet(str(path))
    return path


def _join(
    left: Any, right: Any, third: Iterator[pa.RecordBatch], algorithm: str, **settings: Any
) -> Any:
    """Both inputs; with a third one that has all keys, if the algorithm is for many inputs."""
    import watersmeet as wm
    from watersmeet.operators.family import MANY_INPUTS

    if algorithm not in MANY_INPUTS:
        return wm.local.join(left, right, on="key", algorithm=algorithm, **settings)
    inputs = {"left": left, "right": right, "third": third}
    return wm.local.join_many(inputs, on="key", algorithm=algorithm, **settings)


def _keys(shape: Shape) -> Iterator[pa.RecordBatch]:
    keys = np.random.default_rng(2).permutation(shape.rows)
    for start in range(0, shape.rows, shape.batch_rows):
        yield pa.record_batch({"key": keys[start : start + shape.batch_rows]})


def main() -> None:
    import watersmeet as wm

    order = json.loads(sys.stdin.readline())
    shape, folder = Shape(**order["shape"]), Path(order["folder"])
    tiny = pa.table({"key": [1]})
    assert _join(
        tiny, tiny, iter([tiny.to_batches()[0]]), order["settings"]["algorithm"]
    ).read_all()
    left, right = (source(shape, side, folder) for side in (0, 1))
    pa.default_memory_pool().release_unused()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    said: dict[str, Any] = {"rows": 0, "left": 0, "right": 0, "failure": None}
    try:
        with _join(left, right, _keys(shape), **order["settings"]) as run:
            for batch in run:
                said["rows"] += len(batch)
                for side in SIDES:
                    said[side] += int(batch.column(f"{side}_row").to_numpy().sum())
                del batch
            said["own_peak"] = run.metrics.memory_peak
            said["spilled"] = run.metrics.rows_spilled
    except wm.errors.WatersmeetError as error:
        said["failure"] = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
