"""What files say about a column, block by block, before a row of it is read.

Footers hold the least and the most value of every column in every row group, how many are null,
and how many bytes they take. Blocks that differ in any of these hold something else than the
others do, and a sample should know of that before it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.parquet.footers import Chunk

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Of a text, so many bytes behind what all of them begin with make a number.
_TEXT_BYTES = 6


@dataclass(frozen=True)
class ColumnFacts:
    """A column in each block; NaN where nothing is known.

    Days, times and texts are numbers here that keep their order; only where these are `values`
    can anything be computed from them.
    """

    least: Floats
    most: Floats
    nulls: Floats
    """The share of rows without a value."""
    width: Floats
    """Bytes of a row, as stored."""
    values: bool
    days: bool = False

    @classmethod
    def of(cls, chunks: Sequence[Chunk]) -> ColumnFacts:
        """From what Parquet says of one column in each row group."""
        ends, nulls, width = [], [], []
        for chunk in chunks:
            ends.append(chunk.ends)
            nulls.append(chunk.nulls / max(chunk.rows, 1))
            width.append(chunk.stored / max(chunk.rows, 1))
        return cls.between(ends, nulls=np.array(nulls), width=np.array(width))

    @classmethod
    def between(
        cls, ends: Sequence[tuple[Any, Any] | None], *, nulls: Floats, width: Floats
    ) -> ColumnFacts:
        """From the least and the most value in each block, of whatever type."""
        known = [each for each in ends if each is not None and None not in each]
        values = bool(known) and all(_is_value(end) for each in known for end in each)
        prefix = _common(known)
        places = [(np.nan, np.nan) if each is None else _places(each, prefix) for each in ends]
        least, most = np.array(places, np.float64).reshape(-1, 2).T
        days = bool(known) and all(type(end) is date for each in known for end in each)
        return cls(least, most, nulls, width, values, days)

    def taken(self, index: Integers) -> ColumnFacts:
        """Of some blocks, which may be parts of one."""
        return ColumnFacts(
            self.least[index],
            self.most[index],
            self.nulls[index],
            self.width[index],
            self.values,
            self.days,
        )

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """Least and most; a block of nulls alone has none, and is taken for one like the others."""
        empty = np.isnan(self.least) & (self.nulls == 1)
        if not empty.any() or np.isnan(self.least).all():
            return self.least, self.most
        least, most = (np.where(empty, np.nanmedian(end), end) for end in (self.least, self.most))
        return least, most

    @property
    def extremes(self) -> tuple[float, float] | None:
        """Least and most of all, if they are values and every block knows its own."""
        least, most = self.ends
        if not self.values or not len(least) or np.isnan(least).any():
            return None
        return float(least.min()), float(most.max())


def _is_value(end: Any) -> bool:
    return isinstance(end, int | float | Decimal)


def _places(ends: tuple[Any, Any], prefix: int) -> tuple[float, float]:
    """Where on a line the two ends are."""
    least, most = (_place(end, prefix) for end in ends)
    return least, most


def _place(end: Any, prefix: int) -> float:
    match end:
        case int() | float() | Decimal():
            return float(end)
        case datetime():
            return end.replace(tzinfo=None).toordinal() * 86_400.0 + _seconds(end.time())
        case date():
            return float(end.toordinal())
        case time():
            return _seconds(end)
        case str() | bytes():
            text = _bytes(end)[prefix : prefix + _TEXT_BYTES]
            return float(int.from_bytes(text.ljust(_TEXT_BYTES, b"\0"), "big"))
        case _:
            return float("nan")


def _seconds(moment: time) -> float:
    return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _common(ends: Sequence[tuple[Any, Any]]) -> int:
    """How many bytes all texts begin with together."""
    texts = [_bytes(end) for each in ends for end in each if isinstance(end, str | bytes)]
    # Of the least and the most of all, what begins both begins all.
    if not texts:
        return 0
    pairs = zip(min(texts), max(texts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
