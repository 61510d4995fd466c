"""The relations of section 6.1, written to files that the joins then read.

A record has 100 bytes: a key of 4, the value that is summed up, and a payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.reproduce.prjoin.settings import SSD_PARTITIONS, Case, Parameters, Relations
from watersmeet.rows.schema import JoinSchema
from watersmeet.sim.delays import zipf_probabilities

SCHEMA = pa.schema([("key", pa.int32()), ("val", pa.float64()), ("payload", pa.binary(88))])
VALUE = SCHEMA.names.index("val")
PARETO = 1.5
RESULTS_OF_SKEW = 4
"""How many results a row has where keys are skewed (section 6.1, handling data skews)."""

Keys = NDArray[np.int32]


def join_schema() -> JoinSchema:
    return JoinSchema.resolve(SCHEMA, SCHEMA, "key", "inner")


def write_relations(parameters: Parameters, directory: Path) -> dict[Relations, int]:
    """Write both sides of all relations; returns how many results the join of each pair has."""
    exact = {}
    for number, relations in enumerate(Relations):
        rng = np.random.default_rng([parameters.seed, number])
        sides = draw_keys(relations, parameters, rng)
        for side, keys in zip(Side, sides, strict=True):
            path = file_of(relations, side, directory)
            _write(keys, path, batch_rows=parameters.batch_rows, rng=rng)
        exact[relations] = join_size(*sides)
    return exact


def read_relations(
    case: Case, parameters: Parameters, directory: Path
) -> Iterator[tuple[Side, pa.RecordBatch]]:
    """Batches of both sides in turn, in proportion to their sizes.

    Two-way DBO fills half of memory from one side before it turns to the other (section 3.2.4).
    """
    files = [file_of(case.relations, side, directory) for side in Side]
    readers = [pa.ipc.open_file(pa.OSFile(str(path))) for path in files]
    left = right = 1
    if case.relations is Relations.DOUBLE:
        right = 2
    if case.algorithm == "dbo":
        left = right = max(parameters.memory_rows // 2 // parameters.batch_rows, 1)
    done = [0, 0]
    while any(done[side] < readers[side].num_record_batches for side in Side):
        for side, count in zip(Side, (left, right), strict=True):
            stop = min(done[side] + count, readers[side].num_record_batches)
            for number in range(done[side], stop):
                yield side, readers[side].get_batch(number)
            done[side] = stop


def file_of(relations: Relations, side: Side, directory: Path) -> Path:
    return directory / f"{relations}-{side.name.lower()}.arrow"


def draw_keys(
    relations: Relations, parameters: Parameters, rng: np.random.Generator
) -> tuple[Keys, Keys]:
    rows = parameters.rows
    if relations is Relations.SKEWED:
        members = _members(parameters)
        left, right = (_skewed(members, rows, rng) for _ in Side)
        return left, right
    larger = 2 * rows if relations is Relations.DOUBLE else rows
    right = rng.permutation(larger).astype(np.int32)
    return rng.permutation(right)[:rows], right


def join_size(left: Keys, right: Keys) -> int:
    """How many pairs of equal keys there are, by counting keys."""
    size = int(max(left.max(), right.max())) + 1
    return int(np.dot(np.bincount(left, minlength=size), np.bincount(right, minlength=size)))


def _members(parameters: Parameters) -> list[Keys]:
    """Keys for every partition, with Zipf-distributed numbers: "for the particular hash function
    used in PR-Join, we generate a skewed key input according to Zipf distribution"."""
    schema = join_schema()
    partitions = parameters.partitions(Case("pr-join", partitions=SSD_PARTITIONS))
    shares = zipf_probabilities(partitions, 1.0)
    wanted = np.maximum(np.rint(shares * parameters.rows / RESULTS_OF_SKEW), 1).astype(np.int64)
    np.random.default_rng(parameters.seed).shuffle(wanted)
    members: list[list[Keys]] = [[] for _ in range(partitions)]
    missing, first = wanted.copy(), 0
    while missing.any():
        candidates = np.arange(first, first + 2**19, dtype=np.int32)
        first += len(candidates)
        nothing = pa.nulls(len(candidates), pa.float64()), pa.nulls(len(candidates), pa.binary(88))
        batch = pa.RecordBatch.from_arrays([pa.array(candidates), *nothing], schema=SCHEMA)
        partition = partition_of(schema.encode(Side.LEFT, batch).codes, partitions)
        order = np.argsort(partition, kind="stable")
        starts = np.searchsorted(partition[order], np.arange(partitions + 1))
        for p in np.flatnonzero(missing):
            some = candidates[order[starts[p] : starts[p + 1]]][: missing[p]]
            members[p].append(some)
            missing[p] -= len(some)
    return [np.concatenate(keys) for keys in members]


def _skewed(members: list[Keys], rows: int, rng: np.random.Generator) -> Keys:
    """Random keys. To choose a partition by its number of keys, and then one of its keys, is to
    choose any of all keys."""
    return rng.choice(np.concatenate(members), size=rows)


def _write(keys: Keys, path: Path, *, batch_rows: int, rng: np.random.Generator) -> None:
    values = 1.0 + rng.pareto(PARETO, len(keys))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for start in range(0, len(keys), batch_rows):
            some = slice(start, min(start + batch_rows, len(keys)))
            count = some.stop - some.start
            payload = pa.Array.from_buffers(
                pa.binary(88), count, [None, pa.py_buffer(rng.bytes(88 * count))]
            )
            arrays = [pa.array(keys[some]), pa.array(values[some]), payload]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
