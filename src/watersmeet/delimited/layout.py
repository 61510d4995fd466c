"""How a line is cut into fields, and what these are read as."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

# Without these no line could be cut, or not as Spark cuts it.
_NO_SEPARATORS = '\0\n\r"\\'
# As many columns as Spark reads if it is not told otherwise (maxColumns).
MOST_FIELDS = 20_480


@dataclass(frozen=True)
class Layout:
    """Fields of a line, and which of them are read as what.

    Fixed are `"` as quote, `\\` as escape, that nothing is trimmed and there are no comments, and
    that lines end with a line feed, with or without a carriage return before it.
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


def can_separate(separator: str) -> bool:
    """Whether lines can be cut at it."""
    return len(separator) == 1 and separator.isascii() and separator not in _NO_SEPARATORS


def can_read(kind: pa.DataType) -> bool:
    """Whether a field's text can be read as this type, with Spark's values."""
    return bool(
        pt.is_signed_integer(kind)
        or pt.is_float32(kind)
        or pt.is_float64(kind)
        or (pt.is_decimal128(kind) and 0 <= kind.scale <= kind.precision)
        or pt.is_string(kind)
        or pt.is_boolean(kind)
        or pt.is_date32(kind)
    )
