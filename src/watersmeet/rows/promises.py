"""Promises that certain rows of an input will not come any more, so that others can be purged.

A promise is about codes: no more rows of an input will come whose code under one predicate lies in
a range. If the whole reach of a row of the other end has been promised, it will find no partner
among rows to come. Promises that were accepted are kept as merged ranges, so they are few. They
are saved with a join's state, and applied whenever rows are read from its files: rows that were
purged do not come back, although files are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask

LAST_CODE = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Promise:
    """No more rows come whose code under a predicate lies from `first` to `last`, both included."""

    predicate: int
    first: int
    last: int


class Promises:
    """All that was promised about each input, as disjoint ranges of codes for each predicate.

    >>> promises = Promises()
    >>> promises.accept(0, Promise(0, 5, 9))
    >>> promises.accept(0, Promise(0, 10, 12))
    >>> promises.cover(0, 0, np.array([4, 6], np.uint64), np.array([6, 12], np.uint64)).tolist()
    [False, True]
    >>> promises.save()
    [[0, 0, [[5, 12]]]]
    """

    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], NDArray[np.uint64]] = {}
        """By input and predicate: ascending ranges, each with its first and its last code."""

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def accept(self, input: int, promise: Promise) -> None:
        """Remember a promise; ranges that touch are merged."""
        if promise.first > promise.last:
            return
        key = (input, promise.predicate)
        merged: list[list[int]] = []
        known = self._ranges[key].tolist() if key in self._ranges else []
        for first, last in sorted([*known, [promise.first, promise.last]]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        self._ranges[key] = np.array(merged, np.uint64)

    def of(self, input: int) -> list[int]:
        """The predicates under which something was promised about an input."""
        return [predicate for about, predicate in self._ranges if about == input]

    def cover(self, input: int, predicate: int, first: Codes, last: Codes) -> Mask:
        """For which of these ranges it was promised that no code in them will come any more.

        A range whose first code is above its last is empty, and counts as promised.
        """
        empty: Mask = first > last
        ranges = self._ranges.get((input, predicate))
        if ranges is None:
            return empty
        place = np.searchsorted(ranges[:, 0], first, side="right")
        inside: Mask = (place > 0) & (last <= ranges[np.maximum(place, 1) - 1, 1])
        return inside | empty

    def break_them(self, input: int, predicate: int, codes: Codes) -> Mask:
        """Which of these codes of rows that came break a promise."""
        return self.cover(input, predicate, codes, codes)

    def save(self) -> list[Any]:
        return [
            [input, predicate, ranges.tolist()]
            for (input, predicate), ranges in sorted(self._ranges.items())
        ]

    @classmethod
    def load(cls, saved: list[Any]) -> Promises:
        promises = cls()
        for input, predicate, ranges in saved:
            promises._ranges[input, predicate] = np.array(ranges, np.uint64).reshape(-1, 2)
        return promises
