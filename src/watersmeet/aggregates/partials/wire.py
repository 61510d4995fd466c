"""Totals on their way from a task to whoever adds them up: one Arrow batch, nothing pickled."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregates.partials.sums import Sums
from watersmeet.aggregates.partials.totals import BlockTotals, GroupTotals, Traits
from watersmeet.estimators.tails import TailSketch
from watersmeet.expressions.numbers import Numbers

_NOTES = b"watersmeet"


def pack(totals: BlockTotals) -> bytes:
    part = totals.part
    columns: dict[str, pa.Array] = {
        f"group{place}": values for place, values in enumerate(part.groups)
    }
    columns |= {"pairs": pa.array(part.pairs), "rows": pa.array(part.rows)}
    scales = []
    for number, sums in enumerate(part.sums):
        values = sums.total.values
        columns[f"count{number}"] = pa.array(sums.count)
        # More than 64 bits travel as text.
        wide = values.dtype == object
        columns[f"total{number}"] = pa.array(list(map(str, values)) if wide else values)
        if sums.error is not None:
            columns[f"error{number}"] = pa.array(sums.error)
        if sums.squares is not None:
            columns[f"squares{number}"] = pa.array(sums.squares)
        if sums.ends is not None:
            columns[f"least{number}"] = pa.array(sums.ends[:, 0])
            columns[f"most{number}"] = pa.array(sums.ends[:, 1])
        scales.append(sums.total.scale)
    notes = {
        "block": totals.block,
        "rows": totals.rows,
        "partners": totals.partners,
        "scales": scales,
        "traits": [_pack_traits(traits) for traits in totals.traits],
    }
    batch = pa.RecordBatch.from_pydict(columns, metadata={_NOTES: json.dumps(notes).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(message: bytes) -> BlockTotals:
    with pa.ipc.open_stream(message) as reader:
        batch = reader.read_next_batch()
    notes = json.loads(batch.schema.metadata[_NOTES])
    names = batch.schema.names
    sums = []
    for number, scale in enumerate(notes["scales"]):
        error, squares = f"error{number}", f"squares{number}"
        sums.append(
            Sums(
                _array(batch, f"count{number}"),
                _numbers(batch.column(f"total{number}"), scale),
                _array(batch, error) if error in names else None,
                _array(batch, squares) if squares in names else None,
                _ends(batch, number),
            )
        )
    groups = [batch.column(name) for name in names if name.startswith("group")]
    part = GroupTotals(tuple(groups), _array(batch, "pairs"), _array(batch, "rows"), tuple(sums))
    traits = tuple(map(_unpack_traits, notes["traits"]))
    met, there = notes["partners"]
    return BlockTotals(notes["block"], notes["rows"], part, traits, (met, there))


def _array(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name).to_numpy(zero_copy_only=False)


def _ends(batch: pa.RecordBatch, number: int) -> Any:
    if f"least{number}" not in batch.schema.names:
        return None
    return np.stack([_array(batch, f"{end}{number}") for end in ("least", "most")], axis=1)


def _numbers(values: pa.Array, scale: int) -> Numbers:
    if pa.types.is_floating(values.type):
        return Numbers(values.to_numpy(zero_copy_only=False), None)
    wide = np.array([int(value) for value in values.to_pylist()], object)
    return Numbers(wide, None, scale).tight()


def _pack_traits(traits: Traits) -> dict[str, Any]:
    tail = None if traits.tail is None else traits.tail.describe()
    return {
        "centre": traits.centre, "least": traits.least, "most": traits.most, "tail": tail,
    }  # fmt: skip


def _unpack_traits(described: dict[str, Any]) -> Traits:
    tail = described["tail"]
    sketch = None if tail is None else TailSketch.from_description(tail)
    return Traits(described["centre"], described["least"], described["most"], sketch)
