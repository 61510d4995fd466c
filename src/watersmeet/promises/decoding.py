"""From codes back to values: what was promised in codes is told to whoever reads the result.

Values of one column have codes that rise with them (promises/axes.py), and a key of several columns
that fits 64 bits has a hash that is a bijection (rows/keys.py): both can be undone. A text can be
read from its code if it has at most seven bytes, all of which are in the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.kernels.promised import TEXT_BYTES
from watersmeet.kernels.unhashing import unhashed
from watersmeet.rows.band_codecs import float_of
from watersmeet.rows.encoded import Codes
from watersmeet.rows.keys import CodeKeys
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import LAST_CODE
from watersmeet.rows.types import plain

_SIGN = np.uint64(2**63)


class Decoded(Protocol):
    """Values of one or several columns that codes stand for."""

    def values(self, codes: Codes) -> tuple[list[pa.Array], Mask]:
        """The values of each column, and which codes stand for values that all columns can have."""
        ...


@dataclass(frozen=True, slots=True)
class OneColumn:
    """Values that were compared as `kind`, in the type `wanted` of an output column."""

    kind: pa.DataType
    wanted: pa.DataType
    towards: float | None = None
    """Where a value goes that the narrower type of the column does not have: -inf for the next
    smaller one, inf for the next larger one, None for nowhere."""

    def values(self, codes: Codes) -> tuple[list[pa.Array], Mask]:
        if pt.is_floating(self.kind):
            found, fits = self._floats(codes)
        elif pt.is_string(self.kind) or pt.is_binary(self.kind):
            found, fits = _texts(codes)
        else:
            is_unsigned = pt.is_unsigned_integer(self.kind) or pt.is_boolean(self.kind)
            found, fits = _typed(codes if is_unsigned else (codes ^ _SIGN).view("<i8"), self.kind)
        found, same = as_type(found, self.wanted)
        return [found], fits & same

    def _floats(self, codes: Codes) -> tuple[pa.Array, Mask]:
        floats = float_of(codes)
        floats[codes == LAST_CODE] = np.nan
        if pt.is_floating(self.wanted) and self.wanted.bit_width < 64:
            narrow = np.dtype(f"f{self.wanted.bit_width // 8}")
            with np.errstate(over="ignore"):
                near = floats.astype(narrow)
            if self.towards is not None:
                beyond = near > floats if self.towards < 0 else near < floats
                near = np.where(beyond, np.nextafter(near, narrow.type(self.towards)), near)
            fits = (near.astype(np.float64) == floats) | np.isnan(floats)
            return pa.array(near), fits | (self.towards is not None)
        return pa.array(floats), np.ones(len(codes), np.bool_)


@dataclass(frozen=True, slots=True)
class WholeKey:
    """Keys of several columns, by their hash."""

    codec: CodeKeys
    wanted: tuple[pa.DataType, ...]

    def values(self, codes: Codes) -> tuple[list[pa.Array], Mask]:
        packed: Codes = unhashed(codes)
        fits = np.ones(len(codes), np.bool_)
        columns: list[pa.Array] = []
        for key, bits, wanted in zip(self.codec.columns, self.codec.bits, self.wanted, strict=True):
            # The first column has the lowest bits.
            part = packed << np.uint64(64 - bits)
            found, there = _typed(_of_bits(part, bits, key.kind), key.kind)
            found, same = as_type(found, wanted)
            columns.append(found)
            fits &= there & same
            packed = packed >> np.uint64(bits) if bits < 64 else packed
        return columns, fits


def _of_bits(part: Codes, bits: int, kind: pa.DataType) -> NDArray[Any]:
    """Values whose bits are the highest of 64."""
    low = np.uint64(64 - bits)
    if pt.is_floating(kind):
        return (part >> low).astype(f"<u{bits // 8}").view(f"<f{bits // 8}")
    if pt.is_unsigned_integer(kind) or pt.is_boolean(kind):
        return part >> low
    return part.view("<i8") >> low.astype(np.int64)


def _typed(numbers: NDArray[Any], kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Whole numbers of steps as values of a type, and which of them it has."""
    fits = np.ones(len(numbers), np.bool_)
    if pt.is_floating(kind):
        return pa.array(numbers), fits
    if pt.is_boolean(kind):
        return pa.array(numbers == 1), numbers <= 1
    if pt.is_decimal(kind):
        # Two's complement, low word first.
        words = np.column_stack([numbers, np.where(numbers < 0, -1, 0)]).astype("<i8")
        wide = pa.decimal128(38, kind.scale)
        buffers = [None, pa.py_buffer(np.ascontiguousarray(words))]
        most = 10**kind.precision
        fits = (numbers < most) & (numbers > -most)
        return pa.Array.from_buffers(wide, len(numbers), buffers), fits
    letter = "u" if pt.is_unsigned_integer(kind) else "i"
    narrow = np.dtype(f"<{letter}{kind.bit_width // 8}")
    fits = (numbers >= np.iinfo(narrow).min) & (numbers <= np.iinfo(narrow).max)
    whole = pa.array(np.where(fits, numbers, 0).astype(narrow))
    return whole if pt.is_integer(kind) else whole.view(kind), fits


def _texts(codes: Codes) -> tuple[pa.Array, Mask]:
    """Texts of up to seven bytes: their bytes, and in the last byte how many they are."""
    lengths = (codes & np.uint64(255)).astype(np.int64)
    fits: Mask = lengths <= TEXT_BYTES
    lengths = np.where(fits, lengths, 0)
    wide = codes.astype(">u8").view(np.uint8).reshape(-1, 8)
    taken = np.arange(8)[None, :] < lengths[:, None]
    offsets = np.zeros(len(codes) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(wide[taken]))]
    return pa.Array.from_buffers(pa.binary(), len(codes), buffers), fits


def as_type(values: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask]:
    """The values in the type of an output column, and which of them it has."""
    if isinstance(wanted, pa.BaseExtensionType):
        stored, fits = as_type(values, wanted.storage_type)
        return pa.ExtensionArray.from_storage(wanted, stored), fits
    if values.type == wanted:
        return values, np.ones(len(values), np.bool_)
    found = values.cast(wanted, safe=False)
    back = found.cast(values.type, safe=False)
    same: Mask = pc.equal(back, values).to_numpy(zero_copy_only=False)
    return found, same


def can_decode(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values that are compared as `kind` can be written in a column of type `wanted`."""
    try:
        OneColumn(plain(kind), wanted).values(np.empty(0, np.uint64))
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError):
        return False
    return True
