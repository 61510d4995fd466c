"""How the key of a row becomes one 64-bit hash, and when keys of equal hash must be compared.

A key that fits 64 bits (an integer, a date, two ints) is hashed by a bijection, so equal hashes are
equal keys. A single column of text or bytes is hashed, and compared where the rows are stored.
Any other key is packed: its leaves (`rows/leaves.py`) are laid end to end in a hidden column that
is stored with the rows, and hashed and compared there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import SchemaError
from watersmeet.kernels import hashing, packing
from watersmeet.model import Side
from watersmeet.rows.address import KeyBuffers, Rows
from watersmeet.rows.batch import key_buffers
from watersmeet.rows.encoded import Encoded
from watersmeet.rows.leaves import Fixed, LeafType, Leaves, Mask, slots_of
from watersmeet.rows.types import is_bytes, is_whole

Hashes = NDArray[np.uint64]
Rehash = Callable[[Hashes], Hashes]
"""Replaces every hash by another. For tests that need keys to collide."""

_CODE_BITS = 64
# Lengths inside a packed key are written as 32-bit numbers.
_LONGEST_PART = 2**32 - 1


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One pair of key columns by position, and the type in which they are compared.

    `padding`: to how many characters Spark pads each side's texts first, 0 if it does not.
    """

    left: int
    right: int
    kind: pa.DataType
    padding: tuple[int, int] = (0, 0)

    def of(self, side: Side) -> int:
        return self.left if side is Side.LEFT else self.right


class KeyCodec(Protocol):
    @property
    def hidden(self) -> pa.DataType | None:
        """Type of the hidden column that must be stored with each row, if one is needed."""
        ...

    def payload(self, side: Side) -> int | None:
        """The column of the input that is the exact key; None if no single column is."""
        ...

    def encode(self, side: Side, batch: pa.RecordBatch) -> Encoded: ...


def codec_for(
    columns: Sequence[KeyColumn], schemas: tuple[pa.Schema, pa.Schema], *, rehash: Rehash | None
) -> KeyCodec:
    """The cheapest codec that is exact for these key columns."""
    if len(columns) == 1:
        (column,) = columns
        types = [schemas[side].field(column.of(side)).type for side in Side]
        if all(is_bytes(kind) for kind in types) and not any(column.padding):
            return PayloadKeys(column, rehash)
    slots = [slot for column in columns for slot in slots_of(column.kind)]
    bits = [slot.bits for slot in slots]
    if rehash is None and None not in bits and sum(b or 0 for b in bits) <= _CODE_BITS:
        plain = all(_compared_as_stored(column, schemas) for column in columns)
        return CodeKeys(tuple(columns), tuple(b or 0 for b in bits), plain)
    return PackedKeys(tuple(columns), slots, rehash)


def _compared_as_stored(column: KeyColumn, schemas: tuple[pa.Schema, pa.Schema]) -> bool:
    """Whether two values are equal exactly if their bytes in the stored rows are. Floating-point
    numbers have several zeros, and booleans are bits."""
    kind = column.kind
    if not is_whole(kind):
        return False
    return all(schemas[side].field(column.of(side)).type == kind for side in Side)


def _leaves(columns: Sequence[KeyColumn], side: Side, batch: pa.RecordBatch) -> Leaves:
    leaves = Leaves()
    for column in columns:
        leaves.add(batch.column(column.of(side)), column.kind, padding=column.padding[side])
    return leaves


@dataclass(frozen=True, slots=True)
class CodeKeys:
    """Keys of at most 64 bits. Equal hashes are equal keys; nothing is stored."""

    columns: tuple[KeyColumn, ...]
    bits: tuple[int, ...]
    bytes_decide: bool
    """Whether keys are equal exactly if the bytes of their columns are, where rows are stored."""
    hidden: None = None

    def payload(self, side: Side) -> None:
        return None

    def encode(self, side: Side, batch: pa.RecordBatch) -> Encoded:
        plain = self.plain(side, batch)
        return Encoded(hashing.hash_codes(plain.codes), plain.valid, None)

    def plain(self, side: Side, batch: pa.RecordBatch) -> Encoded:
        """The bits of each key, in place of their hash."""
        leaves = _leaves(self.columns, side, batch)
        return Encoded(self._codes(leaves.fixed), leaves.valid, None)

    def _codes(self, fixed: list[Fixed]) -> Hashes:
        codes = _unsigned(fixed[0])
        shift = self.bits[0]
        for bits, values in zip(self.bits[1:], fixed[1:], strict=True):
            codes = codes | (_unsigned(values) << np.uint64(shift))
            shift += bits
        return codes


def _unsigned(values: Fixed) -> Hashes:
    return values.view(f"<u{values.itemsize}").astype(np.uint64, copy=False)


@dataclass(frozen=True, slots=True)
class PayloadKeys:
    """One column of text or bytes: the stored rows hold the exact key already."""

    column: KeyColumn
    rehash: Rehash | None
    hidden: None = None

    def payload(self, side: Side) -> int:
        return self.column.of(side)

    def encode(self, side: Side, batch: pa.RecordBatch) -> Encoded:
        array = batch.column(self.column.of(side))
        valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
        hashes = hash_buffers(key_buffers(array), len(array))
        return Encoded(_rehashed(hashes, self.rehash), valid, None)


class PackedKeys:
    """Keys as rows of bytes: fixed leaves, lengths of all variable leaves but the last, texts.

    The encoding is unambiguous: the fixed part has the same width in every row, and the last
    length follows from the length of the whole.
    """

    def __init__(
        self, columns: tuple[KeyColumn, ...], slots: list[LeafType], rehash: Rehash | None
    ) -> None:
        self.columns = columns
        self.rehash = rehash
        fixed: list[Any] = [slot.dtype for slot in slots if slot.dtype is not None]
        self._variable = sum(slot.dtype is None for slot in slots)
        fixed += [np.dtype("<u4")] * max(self._variable - 1, 0)
        self._dtype = np.dtype([(f"leaf{i}", dtype) for i, dtype in enumerate(fixed)])
        self.hidden: pa.DataType = (
            pa.large_binary() if self._variable else pa.binary(self._dtype.itemsize)
        )

    def payload(self, side: Side) -> None:
        return None

    def encode(self, side: Side, batch: pa.RecordBatch) -> Encoded:
        leaves = _leaves(self.columns, side, batch)
        rows = batch.num_rows
        fixed = leaves.fixed + [self._lengths(offsets) for _, offsets in leaves.variable[:-1]]
        packed = np.empty(rows, self._dtype)
        for name, values in zip(self._dtype.names or (), fixed, strict=True):
            packed[name] = values
        if not self._variable:
            hidden = pa.Array.from_buffers(self.hidden, rows, [None, pa.py_buffer(packed)])
        else:
            hidden = self._joined(packed.view(np.uint8), rows, leaves)
        hashes = hash_buffers(key_buffers(hidden), rows)
        return Encoded(_rehashed(hashes, self.rehash), leaves.valid, hidden)

    def _joined(self, fixed: NDArray[np.uint8], rows: int, leaves: Leaves) -> pa.Array:
        lengths = np.full(rows, self._dtype.itemsize, np.int64)
        for _, offsets in leaves.variable:
            lengths += np.diff(offsets)
        ends = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        joined = np.empty(ends[-1], np.uint8)
        cursor = ends[:-1].copy()
        packing.place_fixed(joined, cursor, fixed, self._dtype.itemsize)
        for data, offsets in leaves.variable:
            packing.place_bytes(joined, cursor, data, offsets)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(joined)]
        return pa.Array.from_buffers(self.hidden, rows, buffers)

    def _lengths(self, offsets: NDArray[Any]) -> NDArray[np.uint32]:
        lengths = np.diff(offsets)
        if lengths.size and lengths.max() > _LONGEST_PART:
            raise SchemaError(
                f"A key value of {lengths.max()} bytes is part of a composite key.",
                remedy="Join on a digest of that column; parts of composite keys end at 4 GiB.",
            )
        return lengths.astype(np.uint32)


def _rehashed(hashes: Hashes, rehash: Rehash | None) -> Hashes:
    return hashes if rehash is None else np.ascontiguousarray(rehash(hashes), np.uint64)


def hash_buffers(keys: KeyBuffers, rows: int) -> Hashes:
    hashes: Hashes
    if len(keys.offsets):
        hashes = hashing.hash_bytes(keys.data, keys.offsets)
    else:
        hashes = hashing.hash_fixed(keys.data, keys.width, rows)
    return hashes


def equal_keys(left: Rows, left_column: int, right: Rows, right_column: int) -> Mask:
    """Whether the exact keys of `left[i]` and `right[i]` are equal, byte by byte."""
    arguments: list[Any] = []
    for rows, column in ((left, left_column), (right, right_column)):
        keys = rows.source.key_buffers(column)
        index = np.ascontiguousarray(rows.index, np.int64)
        arguments += [keys.data, keys.offsets, keys.width, index]
    equal: Mask = hashing.equal_bytes(*arguments)
    return equal
