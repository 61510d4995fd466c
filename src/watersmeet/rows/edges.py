"""All that must hold between the rows of two inputs, with one code a row by which rows are ordered.

Mechanisms that keep rows in order of their codes (operators/regions) join two inputs along an edge:
an equality, bands, intervals, or several of them. Under one code all partners of a row are close
together:

* a band orders rows by their value;
* an equality of numbers, dates or times orders them by their value too, any other by a hash;
* an equality and a band with two ends order rows by *bucket*, then by key. Buckets are half as wide
  as the band, so that partners are in the same bucket or in neighbours. "The same symbol within 5
  seconds" is found by looking for the symbol in three buckets, however often the symbol occurs at
  other times, and rows that arrive in order of time are stored and spilled in that order;
* intervals order rows by key, if there is an equality, then by the power of two of their length,
  then by their start (rows/interval_order.py).

Codes only propose candidates. All parts of the edge are decided on values, but for a part that the
codes themselves decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.model import Side
from watersmeet.rows.address import Index, Rows
from watersmeet.rows.encoded import Codes, Encoded
from watersmeet.rows.interval_order import ByKeyThenClass
from watersmeet.rows.keys import CodeKeys, KeyCodec, equal_keys
from watersmeet.rows.leaves import Mask
from watersmeet.rows.predicates import (
    Columns,
    Encode,
    EqualKeys,
    IntervalsOverlap,
    Predicate,
    ValuesInBand,
    Verify,
)

_KEY_BITS = 24
_KEYS = np.uint64(2**_KEY_BITS - 1)
_BUCKETS = np.uint64(2 ** (64 - _KEY_BITS))
_LAST_CODE = np.uint64(2**64 - 1)

ALL_CLASSES = 2**64 - 1

Reach = tuple[Codes, Codes]


class Order(Protocol):
    """How the codes of an edge are made of those of its parts."""

    def code(self, end: Side, codes: Sequence[Codes]) -> Codes: ...

    @property
    def has_classes(self) -> bool:
        """Whether codes are of several classes."""
        ...

    def classes(self, codes: Codes) -> int:
        """Into which classes these codes fall, a bit for each. Ranges to look for partners in
        differ from class to class."""
        ...

    def reaches(self, end: Side, codes: Codes, present: int) -> Iterator[Reach]:
        """Ranges, from a first to a last code, in which all partners are that have these classes;
        no two overlap."""
        ...

    def reach(self, end: Side, codes: Codes) -> Reach:
        """One range around all of them."""
        ...

    def decides(self, part: int) -> bool:
        """Whether a part of the edge holds for all rows that `reaches` finds."""
        ...

    def places(self, codes: Codes) -> Codes:
        """Numbers that are close for rows whose partners are."""
        ...

    def can_meet(self, end: Side, mine: Reach, others: Reach) -> Mask | None:
        """Which blocks of the other end, each with its first and last code, can have partners of
        rows in these blocks; None if that is what `reach` says."""
        ...


class OneClass:
    """What is the same for all orders in which one class has all codes."""

    __slots__ = ()

    @property
    def has_classes(self) -> bool:
        return False

    def classes(self, codes: Codes) -> int:
        return 1

    def places(self, codes: Codes) -> Codes:
        return codes

    def can_meet(self, end: Side, mine: Reach, others: Reach) -> Mask | None:
        return None


@dataclass(frozen=True, slots=True)
class ByPart(OneClass):
    """The code of one part."""

    number: int
    part: Predicate

    def code(self, end: Side, codes: Sequence[Codes]) -> Codes:
        return codes[self.number]

    def reaches(self, end: Side, codes: Codes, present: int) -> Iterator[Reach]:
        yield self.reach(end, codes)

    def reach(self, end: Side, codes: Codes) -> Reach:
        return self.part.reach(end, codes)

    def decides(self, part: int) -> bool:
        return part == self.number and self.part.reach_decides


@dataclass(frozen=True, slots=True)
class ByBucketThenKey(OneClass):
    """The number of a row's bucket, then some bits of the hash of its key.

    The numbers of buckets begin again at 0 after the last, so that any value has one.
    """

    equal: int
    band: int
    part: ValuesInBand

    def code(self, end: Side, codes: Sequence[Codes]) -> Codes:
        buckets = self.part.codec.buckets(end, codes[self.band])
        middle = buckets.view(np.uint64) + _BUCKETS // np.uint64(2)
        return ((middle % _BUCKETS) << np.uint64(_KEY_BITS)) | (codes[self.equal] & _KEYS)

    def reaches(self, end: Side, codes: Codes, present: int) -> Iterator[Reach]:
        bucket, key = codes >> np.uint64(_KEY_BITS), codes & _KEYS
        for apart in (-1, 0, 1):
            near = (bucket + np.uint64(apart % 2**64)) % _BUCKETS
            wanted = (near << np.uint64(_KEY_BITS)) | key
            yield wanted, wanted

    def reach(self, end: Side, codes: Codes) -> Reach:
        bucket = codes >> np.uint64(_KEY_BITS)
        outermost = (bucket == 0) | (bucket == _BUCKETS - np.uint64(1))
        first = (bucket - np.uint64(1)) << np.uint64(_KEY_BITS)
        last = ((bucket + np.uint64(1)) << np.uint64(_KEY_BITS)) | _KEYS
        return np.where(outermost, np.uint64(0), first), np.where(outermost, _LAST_CODE, last)

    def decides(self, part: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Edge:
    """A predicate that consists of others between the same two inputs: at most one equality, bands
    and intervals."""

    ends: tuple[int, int]
    parts: tuple[Predicate, ...]
    order: Order

    @classmethod
    def of(cls, parts: Sequence[Predicate]) -> Edge:
        """The edge of these parts, with the order in which partners are closest together."""
        equal = next((n for n, each in enumerate(parts) if isinstance(each, EqualKeys)), None)
        bands = {n: each for n, each in enumerate(parts) if isinstance(each, ValuesInBand)}
        closed = [n for n, each in bands.items() if each.codec.has_buckets]
        if equal is not None and closed:
            order = ByBucketThenKey(equal, closed[0], bands[closed[0]])
            return cls(parts[0].ends, tuple(parts), order)
        overlaps = {n: each for n, each in enumerate(parts) if isinstance(each, IntervalsOverlap)}
        if overlaps and not closed:
            number = next(iter(overlaps))
            return cls(parts[0].ends, tuple(parts), ByKeyThenClass(number, overlaps[number], equal))
        parts = tuple(_rising(each) if isinstance(each, EqualKeys) else each for each in parts)
        number = equal if equal is not None else (closed or list(bands))[0]
        return cls(parts[0].ends, parts, ByPart(number, parts[number]))

    @property
    def hidden(self) -> pa.DataType | None:
        return next((each.hidden for each in self.parts if each.hidden is not None), None)

    @property
    def codes_decide(self) -> bool:
        """Whether two values of one side are the same exactly if their codes are."""
        return len(self.parts) == 1 and self.parts[0].codes_decide

    @property
    def reach_decides(self) -> bool:
        return len(self.parts) == 1 and self.order.decides(0)

    def describe(self) -> list[str]:
        return [words for each in self.parts for words in each.describe()]

    def encoder(self, end: Side) -> Encode:
        return partial(self._encode, end, tuple(each.encoder(end) for each in self.parts))

    def _encode(self, end: Side, encoders: tuple[Encode, ...], batch: Columns) -> Encoded:
        encoded = [encode(batch) for encode in encoders]
        valid: Mask | None = None
        for each in encoded:
            if each.valid is not None:
                valid = each.valid if valid is None else valid & each.valid
        hidden = next((each.hidden for each in encoded if each.hidden is not None), None)
        return Encoded(self.order.code(end, [each.codes for each in encoded]), valid, hidden)

    def reach(self, end: Side, codes: Codes) -> Reach:
        return self.order.reach(end, codes)

    def reaches(self, end: Side, codes: Codes, present: int = ALL_CLASSES) -> Iterator[Reach]:
        """For each code of one end, several ranges of codes in which all partners at the other end
        are that have these classes. They have fewer other rows than the one range of `reach`."""
        return self.order.reaches(end, codes, present)

    def can_meet(self, end: Side, mine: Reach, others: Reach) -> Mask:
        """Which blocks of the other end, each with its first and last code, can have partners of
        rows in these blocks."""
        meets = self.order.can_meet(end, mine, others)
        if meets is None:
            first, last = self.around(end, np.append(*mine))
            meets = (others[0] <= np.uint64(last)) & (others[1] >= np.uint64(first))
        return meets

    def around(self, end: Side, codes: Codes) -> tuple[int, int]:
        """The first and the last code that partners of rows of one end can have, whose codes lie
        between the smallest and the largest of these."""
        first, last = self.reach(end, np.array([codes.min(), codes.max()]))
        if (first > last).any():
            # The outermost reach nothing: that says nothing about those between them.
            return 0, int(_LAST_CODE)
        return int(first.min()), int(last.max())

    def verifier(self, hidden: tuple[int, int]) -> Verify | None:
        decided = [
            verify
            for number, each in enumerate(self.parts)
            if not self.order.decides(number)
            and (verify := each.verifier(hidden) or _by_codes(each)) is not None
        ]
        if not decided:
            return None
        return decided[0] if len(decided) == 1 else partial(_all_hold, tuple(decided))


def _all_hold(decided: tuple[Verify, ...], left: Rows, right: Rows) -> Mask:
    mask = decided[0](left, right)
    for verify in decided[1:]:
        mask &= verify(left, right)
    return mask


def _by_codes(part: Predicate) -> Verify:
    """Decides a part whose codes are equal exactly if the keys are: by its columns, if their bytes
    are the same exactly if the values are, and else by computing the codes again."""
    codec = part.codec if isinstance(part, EqualKeys) else None
    if isinstance(codec, CodeKeys) and codec.bytes_decide:
        return partial(_same_bytes, [(column.left, column.right) for column in codec.columns])
    return partial(_same_codes, part.encoder(Side.LEFT), part.encoder(Side.RIGHT))


def _same_bytes(columns: Sequence[tuple[int, int]], left: Rows, right: Rows) -> Mask:
    mask = equal_keys(left, columns[0][0], right, columns[0][1])
    for mine, others in columns[1:]:
        mask &= equal_keys(left, mine, right, others)
    return mask


def _same_codes(mine: Encode, others: Encode, left: Rows, right: Rows) -> Mask:
    same: Mask = mine(TakenRows(left)).codes == others(TakenRows(right)).codes
    return same


class TakenRows:
    """Rows as a batch whose columns are copied when they are asked for, for encoders."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def column(self, number: int) -> pa.Array:
        return self._rows.source.take(number, self._rows.index)

    def some(self, index: Index) -> TakenRows:
        return TakenRows(Rows(self._rows.source, self._rows.index[index]))


# ---- equalities in order of value ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RisingKeys:
    """A key of one number, date or time: its code rises with its value."""

    keys: CodeKeys
    hidden: None = None

    def payload(self, side: Side) -> None:
        return None

    def encode(self, side: Side, batch: Columns) -> Encoded:
        plain = self.keys.plain(side, batch)
        return replace(plain, codes=self._rising(plain.codes))

    def _rising(self, codes: Codes) -> Codes:
        (column,), (bits,) = self.keys.columns, self.keys.bits
        if pt.is_unsigned_integer(column.kind) or pt.is_boolean(column.kind):
            return codes
        # A number of fewer than 64 bits is moved up, so that its sign is the first bit.
        moved = codes << np.uint64(64 - bits)
        sign = np.uint64(2**63)
        if pt.is_floating(column.kind):
            return np.where(moved & sign != 0, ~moved, moved | sign)
        return moved ^ sign


def _rising(equal: EqualKeys) -> EqualKeys:
    """The same equality with codes that rise with the value, if its key is one number."""
    codec: KeyCodec = equal.codec
    if isinstance(codec, CodeKeys) and len(codec.bits) == 1:
        return replace(equal, codec=RisingKeys(codec))
    return equal
