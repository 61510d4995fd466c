"""What a keeper of promises hands on: rows, promises in codes, broken rows, marker rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.rows.promises import Promise


@dataclass(frozen=True, slots=True)
class Broken:
    """Rows that came although they had been promised not to, and were left out of the join."""

    side: Side
    rows: pa.RecordBatch
    causes: NDArray[np.int64]
    """For each row, the position of the promise that it broke among all promises."""
    words: tuple[str, ...]
    """What each of all promises is called, by position."""

    def counts(self) -> dict[str, int]:
        """How many rows broke which promise."""
        found = np.bincount(self.causes, minlength=len(self.words))
        return {words: int(n) for words, n in zip(self.words, found, strict=True) if n}


class Limits(NamedTuple):
    """What marker rows say about one column: values from `low` to `high`, both included; null for
    no such end, both null for any value."""

    column: str
    low: pa.Array
    high: pa.Array
    """The very same array as `low`, if the pattern gives values and no ranges."""

    def where(self, mask: NDArray[np.bool_]) -> Limits:
        kept = pa.array(mask)
        low = self.low.filter(kept)
        return Limits(self.column, low, low if self.high is self.low else self.high.filter(kept))


@dataclass(frozen=True, slots=True)
class Markers:
    """Punctuations that came in one batch, in the order in which they came. One marker row with a
    list of values is several punctuations, one for each value."""

    side: Side
    rows: pa.RecordBatch
    """The marker row of each punctuation."""
    limits: tuple[Limits, ...]
    """For each column that a pattern speaks of, the values that will not come any more. A row is
    promised away if it is inside of the limits of every column."""


class Heard(NamedTuple):
    """What is to be done after a batch: join `rows`, then apply `promises`."""

    rows: pa.RecordBatch
    promises: list[tuple[Side, Promise]]
    broken: Broken | None
    markers: list[Markers]
