"""Lines of objects in JSON, each with its members in an order of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.delimited.layout import Bytes, Cutter, Places, can_read
from watersmeet.kernels import objects as kernels

# As members have these only behind a backslash, none would be found.
_ESCAPED = {'"', "\\", *map(chr, range(32))}
_FAULTS = {
    kernels.SHAPE: "is not one object of plain members",
    kernels.ESCAPED: "has a backslash in a name, or before what is no plain character",
    kernels.TWICE: "has a member twice",
    kernels.KIND: "has a value that is of another kind than its column",
    kernels.RETURN: "has a carriage return that does not end it",
    kernels.BEHIND: "has something behind its object",
    kernels.MARK: "begins with a byte order mark",
    kernels.LONG: f"has more than {kernels.LONGEST:,} bytes",
}


@dataclass(frozen=True)
class ObjectLayout:
    """Members of an object, by their names, and what they are read as. Others are passed over."""

    names: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]

    null_value = empty_value = ""
    empty_is_null = False

    def __post_init__(self) -> None:
        if not 0 < len(self.names) == len(self.kinds) == len(set(self.names)):
            raise ValueError(f"no members can be read by the names {self.names}")
        for name, kind in zip(self.names, self.kinds, strict=True):
            if not can_name(name):
                raise ValueError(f"no member is found by the name {name!r}")
            if not can_read(kind):
                raise ValueError(f"no member can be read as {kind}")

    def cutter(self) -> Cutter:
        encoded = [name.encode() for name in self.names]
        names = np.frombuffer(b"".join(encoded), np.uint8)
        ends = np.cumsum([len(name) for name in encoded]).astype(np.int32)
        table = np.full(1 << (2 * len(encoded)).bit_length(), -1, np.int32)
        kernels.lay_table(names, ends, table)
        wanted = np.array([_wanted(kind) for kind in self.kinds], np.int32)
        # At first, that members come as columns do.
        after = np.roll(np.arange(len(encoded) + 1, dtype=np.int32), -1)
        after[-2:] = 0

        def cut(
            data: Bytes,
            at: int,
            most: int,
            starts: Places,
            sizes: Places,
            found: NDArray[np.int64],
        ) -> int:
            members = names, ends, table, wanted, after
            return int(kernels.cut(data, at, most, *members, starts, sizes, found))

        return cut

    def fault(self, number: int) -> str:
        return _FAULTS[number]


def can_name(name: str) -> bool:
    """Whether a plain line can have a member of this name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return size <= kernels.LONGEST_NAME and _ESCAPED.isdisjoint(name)


def _wanted(kind: pa.DataType) -> int:
    if pt.is_signed_integer(kind):
        return kernels.WHOLE
    if pt.is_floating(kind):
        return kernels.FLOAT
    if pt.is_decimal128(kind):
        return kernels.DECIMAL
    if pt.is_boolean(kind):
        return kernels.TRUTH
    return kernels.TEXT if pt.is_string(kind) else kernels.BARE_TEXT
