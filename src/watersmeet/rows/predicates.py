"""What two rows must have to do with each other, resolved for the columns of their inputs.

A predicate stands between two inputs. A row has one *code* for each predicate that it takes part
in, an unsigned 64-bit number: a hash of its key for `EqualKeys`, a number that rises with its value
for `ValuesInBand`. Codes only have to be right in one direction: the partners of a row have codes
within its `reach`. What an index finds there are candidates, and `holds` decides on values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.rows.address import Rows
from watersmeet.rows.bands import BandCodec
from watersmeet.rows.keys import KeyCodec, equal_keys
from watersmeet.rows.leaves import Mask
from watersmeet.rows.output import KeyPair

Codes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Encoded:
    """`valid` is None when every row has a code that counts; the others match nothing.

    `hidden` is a column that must be stored with each row, because values are decided by it.
    """

    codes: Codes
    valid: Mask | None
    hidden: pa.Array | None


class Predicate(Protocol):
    """A condition between the rows of two inputs, `ends[0]` and `ends[1]`."""

    @property
    def ends(self) -> tuple[int, int]: ...

    @property
    def hidden(self) -> pa.DataType | None:
        """Type of the hidden column that rows of both ends are stored with, if one is needed."""
        ...

    def encode(self, end: Side, batch: pa.RecordBatch) -> Encoded: ...

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        """For each code of one end, the first and the last at which the other end can have
        partners; none if the first is above the last."""
        ...

    def holds(self, left: Rows, right: Rows, hidden: tuple[int, int]) -> Mask | None:
        """Which pairs of candidates are partners; None for all of them.

        `hidden` is where the stored rows of each end have the hidden column.
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

    def encode(self, end: Side, batch: pa.RecordBatch) -> Encoded:
        keys = self.codec.encode(end, batch)
        return Encoded(keys.hashes, keys.valid, keys.hidden)

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        return codes, codes

    def holds(self, left: Rows, right: Rows, hidden: tuple[int, int]) -> Mask | None:
        if self.codes_decide:
            return None
        mine, others = (self.exact(end, hidden[end]) for end in Side)
        return equal_keys(left, mine, right, others)

    def exact(self, end: Side, hidden: int) -> int:
        """The stored column that holds the exact key, where codes do not decide."""
        payload = self.codec.payload(end)
        return hidden if payload is None else payload


@dataclass(frozen=True, slots=True)
class ValuesInBand:
    """Rows of which one's value lies in a band around the other's."""

    ends: tuple[int, int]
    columns: tuple[int, int]
    codec: BandCodec
    hidden: None = None

    def encode(self, end: Side, batch: pa.RecordBatch) -> Encoded:
        values = self.codec.encode(end, batch.column(self.columns[end]))
        return Encoded(values.codes, values.valid, None)

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        return self.codec.reach(end, codes)

    def holds(self, left: Rows, right: Rows, hidden: tuple[int, int]) -> Mask:
        mine, others = (
            rows.source.take(column, rows.index)
            for rows, column in zip((left, right), self.columns, strict=True)
        )
        return self.codec.holds(mine, others)
