"""The order of an edge with intervals: by key, then by class, then by start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.model import Side
from watersmeet.rows.address import Index
from watersmeet.rows.encoded import Codes
from watersmeet.rows.interval_codecs import CLASS_BITS, LAST_CLASS, START_BITS
from watersmeet.rows.leaves import Mask
from watersmeet.rows.predicates import IntervalsOverlap

# Of the hash of a key, beside which a start has fewer bits. A million keys are told apart.
_KEY_BITS = 20

_CLASS_MASK = np.uint64(LAST_CLASS)

Reach = tuple[Codes, Codes]


@dataclass(frozen=True, slots=True)
class ByKeyThenClass:
    """Bits of the hash of a row's key if the edge has an equality, its class, and its start.

    Partners of one key are found class by class, in one range each. The key comes first: then all
    that a load of blocks can meet is together, and other keys are never looked at.
    """

    overlap: int
    part: IntervalsOverlap
    equal: int | None = None

    @property
    def _key_mask(self) -> np.uint64:
        return np.uint64(0 if self.equal is None else 2**64 - 2 ** (64 - _KEY_BITS))

    @property
    def _start_bits(self) -> int:
        return START_BITS - (0 if self.equal is None else _KEY_BITS)

    @property
    def _starts(self) -> np.uint64:
        """The largest start."""
        return np.uint64(2**self._start_bits - 1)

    def code(self, end: Side, codes: Sequence[Codes]) -> Codes:
        alone = codes[self.overlap]
        if self.equal is None:
            return alone
        kind, start = alone >> np.uint64(START_BITS), alone & np.uint64(2**START_BITS - 1)
        if self.part.codec.turns:
            # Values around 0 are in the middle here, too.
            start = start + np.uint64(2 ** (self._start_bits - 1))
        else:
            start = start >> np.uint64(_KEY_BITS)
        rest = (kind << np.uint64(self._start_bits)) | (start & self._starts)
        key = codes[self.equal] & np.uint64(2**_KEY_BITS - 1)
        return (key << np.uint64(64 - _KEY_BITS)) | rest

    @property
    def has_classes(self) -> bool:
        return True

    def classes(self, codes: Codes) -> int:
        found = np.bitwise_or.reduce(np.uint64(1) << self._class(codes), initial=np.uint64(0))
        return int(found)

    def _spans(self) -> Codes:
        """Of each class, the most by which an end is above the start, counted in starts."""
        spans = [min(2**bits - 1, int(self._starts)) for bits in range(LAST_CLASS)]
        if self.equal is not None and not self.part.codec.turns:
            # The bits that starts have lost beside a key may make one step of the others.
            spans = [0, *((2**bits - 1 >> _KEY_BITS) + 1 for bits in range(1, LAST_CLASS))]
        # The last class has all that is longer.
        return np.minimum(np.array([*spans, self._starts], np.uint64), self._starts)

    def reaches(self, end: Side, codes: Codes, present: int) -> Iterator[Reach]:
        spans, most = self._spans(), self._starts
        start = codes & most
        behind = spans[self._class(codes)]
        key = codes & self._key_mask
        for number in range(LAST_CLASS + 1):
            if not present >> number & 1:
                continue
            before = spans[number]
            group = key | np.uint64(number << self._start_bits)
            if not self.part.codec.turns:
                first = np.where(start < before, np.uint64(0), start - before)
                last = np.minimum(start + behind, most)
                yield group | first, group | last
                continue
            everything = before + behind >= most
            first = np.where(everything, np.uint64(0), (start - before) & most)
            last = np.where(everything, most, (start + behind) & most)
            turned = first > last
            yield group | first, group | np.where(turned, most, last)
            if turned.any():
                yield np.where(turned, group, np.uint64(1)), np.where(turned, group | last, 0)

    def reach(self, end: Side, codes: Codes) -> Reach:
        return codes & self._key_mask, codes | ~self._key_mask

    def decides(self, part: int) -> bool:
        return False

    def places(self, codes: Codes) -> Codes:
        """By key and start: those of all classes that can meet the same rows are together."""
        return ((codes & self._key_mask) >> np.uint64(CLASS_BITS)) | (codes & self._starts)

    def can_meet(self, end: Side, mine: Reach, others: Reach) -> Mask:
        spans, most, keys = self._spans(), self._starts, self._key_mask
        number, first, last = self._pieces(others)
        before, length = spans[self._class(first)], last - first
        meets = np.zeros(len(number), np.bool_)
        for _, low, high in zip(*self._pieces(mine), strict=True):
            # Cut, so that the sum has 64 bits: all starts are in reach of codes so far apart.
            wide = min(high - low, most) + spans[self._class(low)] + before
            # The first start in reach is `behind` before the piece's, or `ahead` after it.
            behind = ((first & most) - (low & most) + before) & most
            ahead = (~behind + np.uint64(1)) & most
            near = (wide >= most) | (behind <= wide) | (ahead <= length)
            near &= ((first & keys) <= (high & keys)) & ((low & keys) <= (last & keys))
            meets |= near
        found = np.zeros(len(others[0]), np.bool_)
        found[number[meets]] = True
        return found

    def _class(self, codes: Codes) -> Codes:
        return (codes >> np.uint64(self._start_bits)) & _CLASS_MASK

    def _pieces(self, blocks: Reach) -> tuple[Index, Codes, Codes]:
        """Blocks cut to pieces of one key and class: the number of the block, the first and the
        last code. Those with more than two classes or keys are not cut: their codes are so far
        apart that all starts are between them."""
        first, last = blocks
        groups = [codes >> np.uint64(self._start_bits) for codes in blocks]
        # The end of one class, and the beginning of the next.
        two = np.flatnonzero(groups[1] - groups[0] == 1)
        firsts, lasts = np.append(first, last[two] & ~self._starts), np.append(last, last[two])
        lasts[two] = first[two] | self._starts
        return np.append(np.arange(len(first)), two), firsts, lasts
