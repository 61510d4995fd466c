"""Where benchmark rows come from: seeded batches, held in memory, in files, or made on the fly."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.cases import Case, Input, Places

LEFT, RIGHT = 0, 1
NAMES = ("left", "right")

Keys = NDArray[np.int64]


def generate(given: Input, side: int) -> Iterator[tuple[Keys, pa.RecordBatch]]:
    """One side's batches with their keys as numbers in `1..distinct`; the same at every call."""
    for number, start in enumerate(range(0, given.rows, given.batch_rows)):
        rows = np.arange(start, min(start + given.batch_rows, given.rows), dtype=np.int64)
        rng = np.random.default_rng([given.seed, side, number])
        keys = rng.integers(1, given.distinct + 1, len(rows))
        yield keys, _batch(keys, rows, side=side, given=given)


def batches(given: Input, side: int) -> Iterator[pa.RecordBatch]:
    for _, batch in generate(given, side):
        yield batch


def number_of(keys: Keys, given: Input) -> Keys:
    """The number that stands for a key in the data.

    String keys are spread over nine digits, so that neighbours in `1..distinct` share no prefix;
    the factor and the modulus have no common divisor, so no two keys become one.
    """
    if given.key == "int64":
        return keys
    return keys * 2_654_435_761 % 999_000_000 + 1_000_000


def schema(given: Input, side: int) -> pa.Schema:
    return next(batches(replace(given, rows=1), side)).schema


def tiny(case: Case) -> Case:
    """The same columns from the same kind of source, small enough to warm an engine up with."""
    return replace(case, memory=None, input=replace(case.input, rows=200, distinct=100))


def write(case: Case, places: Places) -> None:
    """Make the files this case reads, unless an earlier case has."""
    if case.source not in ("csv", "parquet"):
        return
    for side in (LEFT, RIGHT):
        path = file_of(case, side, places)
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        table_schema = schema(case.input, side)
        unfinished = path.with_suffix(".part")
        writer: Any
        if case.source == "csv":
            writer = csv.CSVWriter(unfinished, table_schema)
        else:
            writer = pq.ParquetWriter(unfinished, table_schema)
        with writer:
            # Row groups of twenty batches: near what engines write, small beside any memory cap.
            waiting: list[pa.RecordBatch] = []
            for batch in batches(case.input, side):
                waiting.append(batch)
                if len(waiting) == 20:
                    writer.write_table(pa.Table.from_batches(waiting).combine_chunks())
                    waiting = []
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting).combine_chunks())
        unfinished.rename(path)


def file_of(case: Case, side: int, places: Places) -> Path:
    identity = repr(sorted(asdict(case.input).items()))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return places.file(f"{NAMES[side]}-{digest}.{case.source}")


def _batch(keys: Keys, rows: Keys, *, side: int, given: Input) -> pa.RecordBatch:
    name = NAMES[side]
    columns: dict[str, Any] = {"key": _key_column(keys, given), f"{name}_row": pa.array(rows)}
    for number in range(given.extra_ints):
        columns[f"{name}_{number}"] = pa.array(rows * (2 * number + 3))
    if given.text_bytes:
        columns[f"{name}_text"] = _texts(rows, given.text_bytes)
    return pa.record_batch(columns)


def _key_column(keys: Keys, given: Input) -> pa.Array:
    numbers = number_of(keys, given)
    if given.key == "int64":
        return pa.array(numbers)
    return pa.array(np.char.add("id-", numbers.astype("U9")))


def _texts(rows: Keys, text_bytes: int) -> pa.Array:
    if text_bytes % 8:
        raise ValueError("text_bytes must be a multiple of 8.")
    places = np.arange(1, text_bytes // 8 + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = (rows.view(np.uint64)[:, None] + np.uint64(1)) * places
    words ^= words >> np.uint64(29)
    # Six bits a byte, moved to 0x20..0x5f: plain ASCII, hard to compress.
    words &= np.uint64(0x3F3F3F3F3F3F3F3F)
    words += np.uint64(0x2020202020202020)
    offsets = np.arange(0, (len(rows) + 1) * text_bytes, text_bytes, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.string(), len(rows), buffers)
