"""The keys of rows as numbers, and what finds the entry that has a key.

A key of at most 64 bits is such a number itself. Where such keys are close together, as in a row
group of a table that follows its key, an entry's place is the key less the smallest: nothing is
hashed and nothing compared. All other keys are found by their hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.expressions.numbers import Mask
from watersmeet.kernels import lookup, pages
from watersmeet.kernels.hashing import hash_codes
from watersmeet.model import Side
from watersmeet.rows.buffers import aligned, fixed_bytes
from watersmeet.rows.keys import CodeKeys
from watersmeet.rows.schema import JoinSchema

Codes = NDArray[np.uint64]
Positions = NDArray[np.int64]

_FEWEST_SLOTS = 1024
# As many as a table of hashes takes with the hashes beside it.
_SLOTS_A_KEY = 6


@dataclass(frozen=True)
class RowKeys:
    """Of a batch: `codes` are the keys themselves if they are `plain`, else their hashes. Rows
    that are not `valid` have no key; None if all have one.

    With `places`, codes are those of distinct keys, and row i has the key at `places[i]`.
    """

    rows: pa.RecordBatch
    codes: Codes
    valid: Mask | None
    plain: bool
    places: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, join: JoinSchema, side: Side, batch: pa.RecordBatch) -> RowKeys:
        codec = join.equal.codec
        if isinstance(codec, CodeKeys):
            numbered = _numbered(codec, side, batch)
            if numbered is not None:
                codes, places = _unsigned(numbered.dictionary), numbered.indices.to_numpy()
                return cls(batch, codes, None, plain=True, places=places)
            if not _has_labels(join, side, batch):
                batch = join.accept(side, batch)
            found = codec.plain(side, batch)
            rows, codes, valid, plain = batch, found.codes, found.valid, True
        else:
            encoded = join.encode(side, batch)
            rows, codes, valid, plain = encoded.rows, encoded.codes, encoded.valid, False
        return cls(rows, codes, None if valid is None or valid.all() else valid, plain)

    def with_keys(self) -> RowKeys:
        """The rows that have a key."""
        if self.valid is None:
            return self
        assert self.places is None, "Keys that have numbers are all valid."
        rows = self.rows.filter(pa.array(self.valid))
        return RowKeys(rows, self.codes[self.valid], None, self.plain)

    @property
    def of_rows(self) -> Codes:
        """The code of each row."""
        return self.codes if self.places is None else self.codes[self.places]

    @cached_property
    def hashes(self) -> Codes:
        return hash_codes(self.codes) if self.plain else self.codes


@dataclass(frozen=True)
class HashIndex:
    """Numbers of distinct hashes."""

    slots: NDArray[np.int32]
    distinct: Codes

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.distinct.nbytes

    def find(self, keys: RowKeys) -> tuple[Positions, Positions]:
        numbers = np.empty(len(keys.codes), np.int64)
        lookup.find(keys.hashes, self.slots, self.distinct, numbers)
        if keys.places is not None:
            rows, found = np.empty(len(keys.places), np.int64), np.empty(len(keys.places), np.int64)
            count = pages.find_numbered(keys.places, numbers, rows, found)
            return rows[:count], found[:count]
        rows = np.flatnonzero(numbers >= 0)
        return rows, (numbers if len(rows) == len(numbers) else numbers[rows])


@dataclass(frozen=True)
class DenseIndex:
    """Numbers of distinct keys from `least` on, -1 for those that are not there."""

    least: np.uint64
    slots: NDArray[np.int32]
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes

    def find(self, keys: RowKeys) -> tuple[Positions, Positions]:
        places, codes = keys.places, keys.codes
        size = len(codes) if places is None else len(places)
        rows, numbers = np.empty(size, np.int64), np.empty(size, np.int64)
        if places is None:
            count = lookup.find_dense(codes, self.least, self.slots, rows, numbers)
        else:
            count = pages.find_numbered_dense(places, codes, self.least, self.slots, rows, numbers)
        return rows[:count], numbers[:count]


Index = HashIndex | DenseIndex


def _numbered(codec: CodeKeys, side: Side, batch: pa.RecordBatch) -> pa.DictionaryArray | None:
    """The key of a batch, if its values have numbers and are compared as they are."""
    if len(codec.columns) > 1:
        return None
    (column,) = codec.columns
    array = batch.column(column.of(side))
    is_numbered = (
        pt.is_dictionary(array.type)
        and pt.is_int32(array.type.index_type)
        and array.type.value_type == column.kind
        and (pt.is_integer(column.kind) or pt.is_date32(column.kind))
        and codec.bytes_decide
        and not array.null_count
        and not array.dictionary.null_count
    )
    return array if is_numbered else None


def _unsigned(values: pa.Array) -> Codes:
    """The codes of keys that are whole numbers or days."""
    width = values.type.bit_width // 8
    found = aligned(fixed_bytes(values, width).view(f"<u{width}"))
    return found.astype(np.uint64, copy=False)


def _has_labels(join: JoinSchema, side: Side, batch: pa.RecordBatch) -> bool:
    """Whether text comes as numbers where it was not declared so: all else is as it is kept."""
    kinds = zip(batch.schema.types, join.inputs[side].types, strict=True)
    return any(pt.is_dictionary(kind) and not pt.is_dictionary(asked) for kind, asked in kinds)


def indexed(codes: Codes, *, plain: bool, room: int) -> tuple[Index, Positions]:
    """An index of keys, and the number of each key in it, in the order in which they come first.

    `room` are slots that may be used however few keys there are.
    """
    numbers = np.empty(len(codes), np.int64)
    if plain and len(codes):
        least, most = codes.min(), codes.max()
        span = int(most) - int(least) + 1
        if span <= max(_SLOTS_A_KEY * len(codes), room):
            slots = np.full(span, -1, np.int32)
            count = lookup.number_dense(codes, least, slots, numbers)
            return DenseIndex(least, slots, count), numbers
    hashes = hash_codes(codes) if plain else codes
    slots = np.full(_slots(len(hashes)), -1, np.int32)
    distinct = np.empty(len(hashes), np.uint64)
    count = lookup.number(hashes, slots, distinct, numbers, 0)
    if count < len(hashes):
        distinct = distinct[:count].copy()
    return HashIndex(slots, distinct), numbers


def _slots(rows: int) -> int:
    size = _FEWEST_SLOTS
    while size < 2 * rows:
        size *= 2
    return size
