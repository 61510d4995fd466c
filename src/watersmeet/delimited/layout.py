"""How a line is cut into the texts of columns, and what these are read as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

Places = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Cutter = Callable[[Bytes, int, int, Places, Places, NDArray[np.int64]], int]
"""Is given the text, where to begin, the most lines, and what it fills: for each column that is
read, where texts start behind the first byte, and how many bytes they have; where the next line
begins, what is wrong with it, or 0, and the bytes of texts together by OR. Returns how many lines
it has cut. Of sizes, 0 is no text, -1 an empty one, and one with JSON's backslashes has as many
bytes as its size is below -1."""


class Layout(Protocol):
    """Lines end with a line feed, with or without a carriage return before it."""

    @property
    def kinds(self) -> tuple[pa.DataType | None, ...]:
        """One for each column of a line; one that is None is not read."""

    @property
    def null_value(self) -> str:
        """A text that is null, and is none if it is empty."""

    @property
    def empty_value(self) -> str:
        """What an empty text is."""

    @property
    def empty_is_null(self) -> bool: ...

    def cutter(self) -> Cutter:
        """For one text: it may remember what it has seen of the lines."""

    def fault(self, number: int) -> str:
        """What is wrong with a line, by what the cutter has left; completes "a line ..."."""


def can_read(kind: pa.DataType) -> bool:
    """Whether a text can be read as this type, with Spark's values."""
    return bool(
        pt.is_signed_integer(kind)
        or pt.is_float32(kind)
        or pt.is_float64(kind)
        or (pt.is_decimal128(kind) and 0 <= kind.scale <= kind.precision)
        or pt.is_string(kind)
        or pt.is_boolean(kind)
        or pt.is_date32(kind)
    )
