"""Where rows lie that are joined on close values or intervals, so that they can be divided by it.

A row lies from a *start* to an *end*, two codes that rise with values: of a band both are the code
of its value. Rows of the owner are divided by their starts, and for a row of the other side there
is a range of starts in which all its partners are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.predicates import IntervalsOverlap, ValuesInBand
from watersmeet.rows.schema import JoinSchema


@dataclass(frozen=True, slots=True)
class Extent:
    """Where each of some rows lies; `valid`: which of them have a value, None if all have."""

    starts: Codes
    ends: Codes
    valid: Mask | None


class Placing(Protocol):
    """How the rows of a join are placed by one of its predicates."""

    def columns(self, side: Side) -> tuple[int, ...]:
        """The columns that say where a row of a side lies."""
        ...

    def extent(self, side: Side, columns: Sequence[pa.Array]) -> Extent: ...

    def reach(self, side: Side, starts: Codes, ends: Codes) -> tuple[Codes, Codes]:
        """The first and the last start that partners of rows of a side can have; there are none
        if the first is above the last."""
        ...

    def met(self, side: Side, starts: Codes, ends: Codes) -> tuple[Codes, Codes]:
        """From where to where rows of a side meet others: those that lie there, if only in part."""
        ...

    def text(self, code: int) -> str:
        """The value that has a code, for a person to read."""
        ...


@dataclass(frozen=True, slots=True)
class BandPlacing:
    """By the values of a band."""

    band: ValuesInBand

    def columns(self, side: Side) -> tuple[int, ...]:
        return (self.band.columns[side],)

    def extent(self, side: Side, columns: Sequence[pa.Array]) -> Extent:
        encoded = self.band.codec.encode(side, columns[0])
        return Extent(encoded.codes, encoded.codes, encoded.valid)

    def reach(self, side: Side, starts: Codes, ends: Codes) -> tuple[Codes, Codes]:
        return self.band.codec.reach(side, starts)

    def met(self, side: Side, starts: Codes, ends: Codes) -> tuple[Codes, Codes]:
        return self.reach(side, starts, ends)

    def text(self, code: int) -> str:
        return self.band.codec.text(code)


@dataclass(frozen=True, slots=True)
class IntervalPlacing:
    """By intervals, or points, that overlap.

    Points that lie in a row's interval are from its start to its end. Intervals that overlap it
    start before its end, and there is no saying how long before: they may be of any length.
    """

    overlap: IntervalsOverlap

    def columns(self, side: Side) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.overlap.columns[side]))

    def extent(self, side: Side, columns: Sequence[pa.Array]) -> Extent:
        codec = self.overlap.codec
        starts, valid = codec.codes(columns[0])
        ends, also = (starts, None) if len(columns) == 1 else codec.codes(columns[1])
        if valid is not None and also is not None:
            valid = valid & also
        return Extent(starts, ends, also if valid is None else valid)

    def reach(self, side: Side, starts: Codes, ends: Codes) -> tuple[Codes, Codes]:
        if len(self.columns(side.other)) == 1:
            return starts, ends
        return np.zeros_like(ends), ends

    def met(self, side: Side, starts: Codes, ends: Codes) -> tuple[Codes, Codes]:
        return starts, ends

    def text(self, code: int) -> str:
        return self.overlap.codec.text(code)


def placings_of(join: JoinSchema) -> list[Placing]:
    """All ways to place the rows of a join, the best first: where the fewest rows are copied."""
    bands = [each for each in join.predicates if isinstance(each, ValuesInBand)]
    closed = [each for each in bands if None not in (each.codec.low, each.codec.high)]
    overlaps = [IntervalPlacing(o) for o in join.predicates if isinstance(o, IntervalsOverlap)]
    points = [each for each in overlaps if any(len(each.columns(side)) == 1 for side in Side)]
    return [
        *map(BandPlacing, closed),
        *points,
        *(BandPlacing(each) for each in bands if each not in closed),
        *(each for each in overlaps if each not in points),
    ]


def placing_of(join: JoinSchema) -> Placing | None:
    """How rows are divided; None if that is by equal keys.

    What it leaves open, and all other predicates, the operators decide.
    """
    return None if join.keys else placings_of(join)[0]
