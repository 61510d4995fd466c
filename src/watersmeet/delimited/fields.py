"""Lines of separated fields, as in CSV files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.delimited.layout import Bytes, Cutter, Places, can_read
from watersmeet.kernels import delimited as kernels

# Without these no line could be cut, or not as Spark cuts it.
_NO_SEPARATORS = '\0\n\r"\\'
# As many columns as Spark reads if it is not told otherwise (maxColumns).
MOST_FIELDS = 20_480
_FAULTS = {
    kernels.WIDTH: "has more or fewer fields than there are columns",
    kernels.QUOTED: "has a quote or a backslash in a quoted field, or does not end that",
    kernels.RETURN: "has a carriage return that does not end it",
    kernels.BEHIND: "has something behind a quoted field, or a zero byte",
    kernels.MARK: "begins with a byte order mark",
    kernels.LONG: f"has more than {kernels.LONGEST:,} bytes",
}


@dataclass(frozen=True)
class FieldLayout:
    """Fields of a line, and which of them are read as what.

    Fixed are `"` as quote, `\\` as escape, and that nothing is trimmed and there are no comments.
    """

    kinds: tuple[pa.DataType | None, ...]
    """One for each field of a line; one that is None is not read, but must be there."""
    separator: str = ","
    """One ASCII character."""
    null_value: str = ""
    """Spark's `nullValue`; an empty field is null, too."""
    empty_value: str = ""
    """Spark's `emptyValue`: what a field of two quotes is."""

    def __post_init__(self) -> None:
        if not can_separate(self.separator):
            raise ValueError(f"{self.separator!r} cannot separate fields")
        if not 0 < len(self.kinds) <= MOST_FIELDS:
            raise ValueError(f"a line cannot have {len(self.kinds)} fields")
        for kind in self.kinds:
            if kind is not None and not can_read(kind):
                raise ValueError(f"no field can be read as {kind}")

    @property
    def empty_is_null(self) -> bool:
        return self.empty_value == self.null_value

    def cutter(self) -> Cutter:
        is_read = np.array([kind is not None for kind in self.kinds])
        slots = np.where(is_read, np.cumsum(is_read) - 1, -1).astype(np.int32)
        tables = *kernels.classes(ord(self.separator)), slots

        def cut(
            data: Bytes,
            at: int,
            most: int,
            starts: Places,
            sizes: Places,
            found: NDArray[np.int64],
        ) -> int:
            return int(kernels.cut(data, at, most, *tables, starts, sizes, found))

        return cut

    def fault(self, number: int) -> str:
        return _FAULTS[number]


def can_separate(separator: str) -> bool:
    """Whether lines can be cut at it."""
    return len(separator) == 1 and separator.isascii() and separator not in _NO_SEPARATORS
