"""What two rows must have to do with each other, resolved for the columns of their inputs.

A predicate stands between two inputs. A row has one *code* for each predicate that it takes part
in, an unsigned 64-bit number: a hash of its key for `EqualKeys`, a number that rises with its value
for `ValuesInBand`, the class and the start of its interval for `IntervalsOverlap`. All partners of
a row have codes within its `reach`, but not all rows with such codes are partners: an index finds
candidates by their codes, and values decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.rows.address import Rows
from watersmeet.rows.band_codecs import BandCodec
from watersmeet.rows.encoded import Codes, Encoded
from watersmeet.rows.interval_codecs import Interval, OverlapCodec
from watersmeet.rows.keys import KeyCodec, equal_keys
from watersmeet.rows.leaves import Mask
from watersmeet.rows.output import KeyPair
from watersmeet.rows.types import as_bytes


class Columns(Protocol):
    """Rows of an input, column by column: a record batch, or rows that are copied as needed."""

    @property
    def num_rows(self) -> int: ...

    def column(self, number: int) -> pa.Array: ...


Encode = Callable[[Columns], Encoded]
Verify = Callable[[Rows, Rows], Mask]


class Predicate(Protocol):
    """A condition between the rows of two inputs, `ends[0]` and `ends[1]`."""

    @property
    def ends(self) -> tuple[int, int]: ...

    @property
    def hidden(self) -> pa.DataType | None:
        """Type of the hidden column that rows of both ends are stored with, if one is needed."""
        ...

    @property
    def codes_decide(self) -> bool:
        """Whether two values of one side are the same exactly if their codes are."""
        ...

    @property
    def reach_decides(self) -> bool:
        """Whether all rows whose codes are within reach of each other are partners."""
        ...

    def describe(self) -> list[str]:
        """The predicate in words. The same predicate has the same words."""
        ...

    def encoder(self, end: Side) -> Encode:
        """A function from a batch of one end to its codes."""
        ...

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        """For each code of one end, the first and the last code that partners at the other end can
        have; there are no partners if the first is above the last."""
        ...

    def verifier(self, hidden: tuple[int, int]) -> Verify | None:
        """A function that says which candidate pairs are partners; None if all of them are.

        `hidden` is the position of the hidden column in the stored rows of each end.
        """
        ...


@dataclass(frozen=True, slots=True)
class EqualKeys:
    """Rows whose key columns are pairwise equal, in the types in which Spark compares them."""

    ends: tuple[int, int]
    keys: tuple[KeyPair, ...]
    codec: KeyCodec

    @property
    def hidden(self) -> pa.DataType | None:
        return self.codec.hidden

    @property
    def codes_decide(self) -> bool:
        """Whether keys are equal exactly when their codes are."""
        return self.hidden is None and any(self.codec.payload(end) is None for end in Side)

    @property
    def reach_decides(self) -> bool:
        return self.codes_decide

    def describe(self) -> list[str]:
        return [f"{key.left} = {key.right}" for key in self.keys]

    def encoder(self, end: Side) -> Encode:
        return partial(self.codec.encode, end)

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        return codes, codes

    def verifier(self, hidden: tuple[int, int]) -> Verify | None:
        if self.codes_decide:
            return None
        mine, others = (self.exact(end, hidden[end]) for end in Side)
        return partial(_equal, mine, others)

    def keys_of(self, end: Side, encoded: Encoded, batch: Columns) -> pa.Array | None:
        """The keys of encoded rows as bytes, which both ends have in common; None where codes
        decide."""
        if self.codes_decide:
            return None
        payload = self.codec.payload(end)
        keys = encoded.hidden if payload is None else batch.column(payload)
        return as_bytes(keys)

    def exact(self, end: Side, hidden: int) -> int:
        """The stored column that holds the exact key, where codes do not decide."""
        payload = self.codec.payload(end)
        return hidden if payload is None else payload


def _equal(mine: int, others: int, left: Rows, right: Rows) -> Mask:
    """Whether column `mine` of the left rows equals column `others` of the right rows."""
    return equal_keys(left, mine, right, others)


@dataclass(frozen=True, slots=True)
class ValuesInBand:
    """Rows of two inputs whose values differ by no less and no more than a band allows."""

    ends: tuple[int, int]
    columns: tuple[int, int]
    codec: BandCodec
    words: str
    hidden: None = None
    codes_decide: bool = True

    @property
    def reach_decides(self) -> bool:
        return self.codec.reach_decides

    def describe(self) -> list[str]:
        return [self.words]

    def encoder(self, end: Side) -> Encode:
        return partial(self._encode, end)

    def _encode(self, end: Side, batch: Columns) -> Encoded:
        return self.codec.encode(end, batch.column(self.columns[end]))

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        return self.codec.reach(end, codes)

    def verifier(self, hidden: tuple[int, int]) -> Verify:
        return self._holds

    def _holds(self, left: Rows, right: Rows) -> Mask:
        mine, others = (
            _taken(rows, column) for rows, column in zip((left, right), self.columns, strict=True)
        )
        return self.codec.holds(mine, others)


@dataclass(frozen=True, slots=True)
class IntervalsOverlap:
    """Rows of two inputs whose intervals overlap; one side, or both, may have points instead."""

    ends: tuple[int, int]
    columns: tuple[tuple[int, int], tuple[int, int]]
    """Of each side, the columns of start and end; twice the same for a point."""
    codec: OverlapCodec
    words: str
    hidden: None = None
    codes_decide: bool = False
    reach_decides: bool = False

    def describe(self) -> list[str]:
        return [self.words]

    def encoder(self, end: Side) -> Encode:
        return partial(self._encode, end)

    def _encode(self, end: Side, batch: Columns) -> Encoded:
        return self.codec.encode(_interval(self.columns[end], batch.column))

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        """All codes: ByKeyThenClass (rows/interval_order.py) knows smaller ranges."""
        return np.zeros_like(codes), np.full_like(codes, 2**64 - 1)

    def verifier(self, hidden: tuple[int, int]) -> Verify:
        return self._holds

    def _holds(self, left: Rows, right: Rows) -> Mask:
        mine, others = (
            _interval(columns, partial(_taken, rows))
            for rows, columns in zip((left, right), self.columns, strict=True)
        )
        return self.codec.holds(mine, others)


def _taken(rows: Rows, column: int) -> pa.Array:
    return rows.source.take(column, rows.index)


def _interval(columns: tuple[int, int], column: Callable[[int], pa.Array]) -> Interval:
    start = column(columns[0])
    return start, start if columns[0] == columns[1] else column(columns[1])
