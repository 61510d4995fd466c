"""What a join result must add up to, whatever the order of its rows.

The checksum is the sum of `weigh(left row) * weigh(right row)` over all result rows, modulo 2^64.
Summed per key it can be had from the inputs without joining them, so the reference depends on no
join, and it fits in memory for any result size. A lost, doubled, mispaired or altered row
changes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.cases import Input
from benchmarks.inputs import LEFT, RIGHT, generate, number_of

Words = NDArray[np.uint64]

_PIECE = 4_096
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class Tally:
    """Adds up result batches as they come."""

    input: Input
    rows: int = 0
    checksum: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        # In pieces, because weighing copies its columns and memory is what some runs measure.
        for start in range(0, batch.num_rows, _PIECE):
            self._add_piece(batch.slice(start, _PIECE))

    def _add_piece(self, batch: pa.RecordBatch) -> None:
        left = _weigh(batch, LEFT, self.input)
        left ^= _mixed(_key_numbers(batch, self.input))
        right = _weigh(batch, RIGHT, self.input)
        self.rows += batch.num_rows
        self.checksum = (self.checksum + int((left * right).sum(dtype=np.uint64))) % 2**64


def expected(given: Input) -> tuple[int, int]:
    """Rows and checksum of the inner join, from the two inputs alone."""
    counts = np.zeros((2, given.distinct + 1), np.int64)
    weights = np.zeros((2, given.distinct + 1), np.uint64)
    for side in (LEFT, RIGHT):
        for keys, batch in generate(given, side):
            weight = _weigh(batch, side, given)
            if side == LEFT:
                weight ^= _mixed(number_of(keys, given).astype(np.uint64))
            np.add.at(counts[side], keys, 1)
            np.add.at(weights[side], keys, weight)
    rows = int((counts[LEFT] * counts[RIGHT]).sum())
    return rows, int((weights[LEFT] * weights[RIGHT]).sum(dtype=np.uint64))


def _weigh(batch: pa.RecordBatch, side: int, given: Input) -> Words:
    """One word per row that depends on every column of that side but the key."""
    name = ("left", "right")[side]
    weight = _mixed(_numbers(batch.column(f"{name}_row")))
    for number in range(given.extra_ints):
        weight = _mixed(weight ^ _numbers(batch.column(f"{name}_{number}")))
    if given.text_bytes:
        weight = _mixed(weight ^ _text_words(batch.column(f"{name}_text"), given.text_bytes))
    return weight


def _key_numbers(batch: pa.RecordBatch, given: Input) -> Words:
    key = batch.column("key")
    if given.key == "string":
        key = pc.cast(pc.utf8_slice_codeunits(pc.cast(key, pa.string()), 3), pa.int64())
    return _numbers(key)


def _numbers(column: pa.Array) -> Words:
    values: NDArray[np.int64] = np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
    return values.view(np.uint64)


def _text_words(column: pa.Array, text_bytes: int) -> Words:
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]
    if (np.diff(offsets) != text_bytes).any():
        raise ValueError("A text in the result has not the length it had in the input.")
    raw = np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    words = raw.view(np.uint64).reshape(len(column), text_bytes // 8)
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64) * _ODD
    summed: Words = (words * places).sum(axis=1, dtype=np.uint64)
    return summed


def _mixed(words: Words) -> Words:
    """Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014."""
    mixed = words + _ODD
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
