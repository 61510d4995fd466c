"""Values as promises are checked by them: exactly, in their own order, or for equality alone.

Promises are checked by values, and not by the codes under which rows are joined: those of two texts
may be the same. What a keeper remembers are *plain* values: codes for all types whose values have
codes of their own, bytes for texts, wide decimals as they are. All of them can be written as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.model import Side
from watersmeet.promises.axes import Axis
from watersmeet.rows.bands import Width
from watersmeet.rows.encoded import Codes
from watersmeet.rows.keys import KeyColumn, PackedKeys
from watersmeet.rows.leaves import Mask, slots_of
from watersmeet.rows.types import (
    Incomparable,
    as_bytes,
    common_type,
    converted,
    is_bytes,
    padded,
    plain,
)
from watersmeet.rows.types import unwrapped as _unwrapped

_CODES = pa.uint64()
_BYTES = pa.large_binary()


@dataclass(frozen=True, slots=True)
class Scale:
    """How the values of one column are compared with each other: as Spark orders them."""

    kind: pa.DataType
    """The type of the column."""
    axis: Axis | None
    """None for texts and wide decimals, which have no codes of their own."""
    padding: int = 0

    @classmethod
    def of(cls, kind: pa.DataType, padding: int = 0) -> Scale | None:
        """None for types without an order."""
        kind = plain(kind)
        if is_bytes(kind) or (pt.is_decimal(kind) and Axis.of(kind, kind) is None):
            return cls(kind, None, padding)
        axis = Axis.of(kind, kind)
        return None if axis is None else cls(kind, axis)

    @property
    def plain_type(self) -> pa.DataType:
        if self.axis is not None:
            return _CODES
        return _BYTES if is_bytes(self.kind) else self.kind

    def plain(self, values: pa.Array) -> pa.Array:
        """The values as they are remembered; null stays null."""
        if self.axis is not None:
            coded = self.axis.encode(values)
            return pa.array(coded.codes, mask=None if coded.valid is None else ~coded.valid)
        values = _unwrapped(values)
        if pt.is_decimal(self.kind):
            return converted(values, self.kind)
        if self.padding:
            values = padded(values, self.padding)
        return as_bytes(values)

    def moved(self, codes: Codes, slack: Width | None, *, up: bool) -> Codes:
        """Codes of values less a slack, or plus it. Without a slack nothing moves."""
        return codes if self.axis is None else self.axis.moved(codes, slack, up=up)

    def check_slack(self, slack: Width) -> None:
        """Raise `Incomparable` if values of this type do not differ by such a slack."""
        if self.axis is None:
            raise Incomparable(
                f"differences of {self.kind} are not known here", "Leave the slack out."
            )
        self.axis.check_slack(slack)


def comparable(*arrays: pa.Array) -> list[Codes]:
    """Plain values of one scale as codes that have their order and equality, in this call only. The
    codes of different texts never touch. Null has any code."""
    if arrays[0].type == _CODES:
        return [_filled(array) for array in arrays]
    everything = pa.concat_arrays(arrays)
    ranks = pc.rank(everything, sort_keys="ascending", tiebreaker="dense").to_numpy()
    ranks = ranks.astype(np.uint64) * np.uint64(2)
    ends = np.cumsum([len(array) for array in arrays])
    return list(np.split(ranks, ends[:-1]))


def _filled(array: pa.Array) -> Codes:
    if array.null_count:
        array = array.fill_null(0)
    codes: Codes = array.to_numpy(zero_copy_only=False)
    return codes


def present(array: pa.Array) -> Mask:
    """Which values are not null."""
    mask: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def to_json(array: pa.Array) -> list[Any]:
    """
    >>> to_json(pa.array([b"ab", None], pa.large_binary()))
    ['ab', None]
    """
    if array.type == _BYTES:
        return [None if each is None else each.decode("latin-1") for each in array.to_pylist()]
    if pt.is_decimal(array.type):
        return list(array.cast(pa.string()).to_pylist())
    return list(array.to_pylist())


def from_json(saved: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == _BYTES:
        values = [None if each is None else each.encode("latin-1") for each in saved]
        return pa.array(values, kind)
    if pt.is_decimal(kind):
        return pa.array(saved, pa.string()).cast(kind)
    return pa.array(saved, kind)


# ---- several columns together -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Together:
    """The values of several columns, or of one without an order, as bytes that are the same exactly
    if all values are."""

    columns: tuple[int, ...]
    kinds: tuple[pa.DataType, ...]
    paddings: tuple[int, ...]

    def plain(self, columns: list[pa.Array]) -> pa.Array:
        """One value for each row; null if one of them is. `columns` are in the order of ours."""
        scale = Scale.of(self.kinds[0], self.paddings[0])
        if len(columns) == 1 and scale is not None and scale.plain_type == _BYTES:
            return scale.plain(columns[0])
        keys = tuple(
            KeyColumn(place, place, kind, (padding, padding))
            for place, (kind, padding) in enumerate(zip(self.kinds, self.paddings, strict=True))
        )
        slots = [slot for kind in self.kinds for slot in slots_of(kind)]
        names = [str(place) for place in range(len(columns))]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        encoded = PackedKeys(keys, slots, None).encode(Side.LEFT, batch)
        packed = encoded.hidden
        assert packed is not None
        packed = as_bytes(packed)
        if encoded.valid is None:
            return packed
        return pc.if_else(pa.array(encoded.valid), packed, pa.scalar(None, _BYTES))


def is_comparable(kind: pa.DataType) -> bool:
    """Whether values of a type can be equal."""
    try:
        common_type(kind, kind)
    except Incomparable:
        return False
    return not pt.is_null(plain(kind))
