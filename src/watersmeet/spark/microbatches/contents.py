"""What a micro-batch is made of: enough to know it again, whatever the order of its rows.

For each input, and for each promise with marker rows, the number of rows and the sum of their
hashes, and which ends were in it. A sum does not depend on the order, and a row that comes twice
counts twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.kernels import hashing
from watersmeet.spark.microbatches.wire import Tags

Hashes = NDArray[np.uint64]

_NULL = np.uint64(0x9AE16A3B2F90404F)
_SUMS = 2**64


class Contents:
    """Counts and sums of what has come so far."""

    def __init__(self, tags: Tags) -> None:
        self.rows = [0] * tags.inputs
        self.sums = [0] * tags.inputs
        self.ends: set[int] = set()
        self.markers = [[0, 0] for _ in range(tags.markers)]
        """For each promise with marker rows, how many came and the sum of their hashes."""
        self._tags = tags

    def add(self, batch: pa.RecordBatch, kinds: NDArray[np.int32]) -> None:
        """Take in rows as they come on the wire; `kinds` says what each is."""
        hashes = row_hashes(batch.columns[1:], len(batch))
        for input in range(self._tags.inputs):
            mine = hashes if (kinds == input).all() else hashes[kinds == input]
            self.rows[input] += len(mine)
            self.sums[input] = _sum(self.sums[input], mine)
            if (kinds == self._tags.end(input)).any():
                self.ends.add(input)
        for number, marker in enumerate(self.markers):
            mine = hashes[kinds == self._tags.marker(number)]
            marker[:] = marker[0] + len(mine), _sum(marker[1], mine)

    def describe(self) -> dict[str, Any]:
        markers = {"markers": self.markers} if self.markers else {}
        return {"rows": self.rows, "sums": self.sums, "ends": sorted(self.ends), **markers}


def _sum(so_far: int, hashes: Hashes) -> int:
    return (so_far + int(hashes.sum(dtype=np.uint64))) % _SUMS


def row_hashes(columns: list[pa.Array], rows: int) -> Hashes:
    """A hash of each row, over all of its columns."""
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        _fold(hashes, column)
    return hashes


def _fold(hashes: Hashes, column: pa.Array) -> None:
    """Make a column a part of the hashes of its rows."""
    if column.null_count == len(column):
        hashing.fold(hashes, np.full(len(column), _NULL))
        return
    for words in _words(column):
        if column.null_count:
            words = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), _NULL, words)
        hashing.fold(hashes, words)


def _words(column: pa.Array) -> list[Hashes]:
    """Values as words that differ where they do: themselves if they are short, or hashes."""
    kind, rows, start = column.type, len(column), column.offset
    if not rows or pa.types.is_null(kind):
        return [np.full(rows, _NULL)]
    if pa.types.is_boolean(kind):
        return _words(column.cast(pa.uint8()))
    if pa.types.is_struct(kind):
        return [row_hashes([column.field(n) for n in range(kind.num_fields)], rows)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        # Their elements' hashes, one after the other, are a text of eight bytes an element.
        values = column.values if not pa.types.is_map(kind) else _entries(column)
        inside = row_hashes([values], len(values))
        return [hashing.hash_bytes(inside.view(np.uint8), 8 * column.offsets.to_numpy())]
    if _is_text(kind):
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        _, ends, data = column.buffers()
        offsets = np.frombuffer(ends, np.int64 if wide else np.int32)[start : start + rows + 1]
        return [hashing.hash_bytes(np.frombuffer(data or b"", np.uint8), offsets)]
    width = kind.bit_width // 8
    data = np.frombuffer(column.buffers()[1], np.uint8)[start * width : (start + rows) * width]
    if width in (1, 2, 4, 8):
        return [data.view(f"u{width}").astype(np.uint64, copy=False)]
    return [hashing.hash_fixed(data, width, rows)]


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
    )


def _entries(column: pa.MapArray) -> pa.StructArray:
    keys, items = column.keys, column.items
    return pa.StructArray.from_arrays([keys, items], ["key", "value"])
