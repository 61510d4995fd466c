"""Promises that certain rows of an input will not come any more, so that others can be purged.

A promise is about codes: no more rows of an input will come whose code under one predicate lies in
certain ranges. If the whole reach of a row of the other end has been promised, it will find no
partner among rows to come. Promises that were accepted are kept as merged ranges, so they are few.
They are saved with a join's state, and applied when rows are read from the segments it has saved:
rows that were purged do not come back, although files are never changed.

Where several keys may have the same code, a promise names keys (rows/promised_keys.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import promised
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promised_keys import PromisedKeys

LAST_CODE = 2**64 - 1

Ranges = NDArray[np.uint64]
"""An array of ranges, each with its first and its last code, both included. Unless it says
otherwise, ranges are disjoint and ascending."""

_NONE: Ranges = np.empty((0, 2), np.uint64)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """No more rows come whose code under a predicate lies in one of these ranges, which may be in
    any order and overlap.

    With `keys`, one for each range, which is a single code then: no more rows come with these keys.
    Others may have the same codes.
    """

    predicate: int
    ranges: Ranges
    keys: pa.Array | None = None

    @classmethod
    def between(cls, predicate: int, first: int, last: int) -> Promise:
        """A promise about the codes from `first` to `last`, both included."""
        return cls(predicate, np.array([[first, last]], np.uint64))

    @classmethod
    def of_codes(cls, predicate: int, codes: Codes) -> Promise:
        """A promise about each of these codes."""
        # In order, because that is quicker here than when they are merged with others.
        return cls(predicate, np.repeat(np.sort(codes), 2).reshape(-1, 2))

    @classmethod
    def of_keys(cls, predicate: int, codes: Codes, keys: pa.Array) -> Promise:
        """A promise about each of these keys, which are bytes and have these codes."""
        return cls(predicate, np.column_stack([codes, codes]), keys)

    @property
    def is_everything(self) -> bool:
        """Whether no row comes any more, whatever its code."""
        ranges = self.ranges
        return self.keys is None and bool(
            ((ranges[:, 0] == 0) & (ranges[:, 1] == np.uint64(LAST_CODE))).any()
        )


class Promises:
    """All that was promised about each input, for each predicate as disjoint ranges of codes and
    as keys.

    >>> promises = Promises()
    >>> promises.accept(0, Promise.between(0, 5, 9))
    >>> promises.accept(0, Promise.of_codes(0, np.array([11, 10, 12], np.uint64)))
    >>> promises.cover(0, 0, np.array([4, 6], np.uint64), np.array([6, 12], np.uint64)).tolist()
    [False, True]
    >>> promises.save()
    [[0, 0, [[5, 12]]]]
    """

    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], Ranges] = {}
        """By input and predicate: ascending ranges, each with its first and its last code."""
        self.keys: dict[tuple[int, int], PromisedKeys] = {}
        """By input and predicate: keys, where codes do not tell them apart."""

    def __bool__(self) -> bool:
        return bool(self._ranges or self.keys)

    def copy_of_ranges(self) -> Promises:
        """The ranges that were promised so far, which do not change any more."""
        same = Promises()
        same._ranges = dict(self._ranges)
        return same

    def about(self, input: int) -> list[int]:
        """The predicates of which something was promised about an input."""
        return [predicate for mine, predicate in {**self._ranges, **self.keys} if mine == input]

    def accept(self, input: int, promise: Promise) -> None:
        """Remember a promise; ranges that touch are merged."""
        key = (input, promise.predicate)
        if promise.keys is not None:
            if len(promise.keys):
                self.keys.setdefault(key, PromisedKeys()).add(promise.ranges[:, 0], promise.keys)
            return
        united = unite(promise.ranges, self.of(*key))
        if len(united):
            self._ranges[key] = united

    def of(self, input: int, predicate: int) -> Ranges:
        return self._ranges.get((input, predicate), _NONE)

    def cover(self, input: int, predicate: int, first: Codes, last: Codes) -> Mask:
        """For which of these ranges it was promised that no code in them will come any more.

        A range whose first code is above its last is empty, and counts as promised.
        """
        covered = np.empty(len(first), np.bool_)
        first, last = np.ascontiguousarray(first), np.ascontiguousarray(last)
        promised.find_covered(self.of(input, predicate), first, last, covered)
        return covered

    def touch(self, input: int, predicate: int, first: Codes, last: Codes) -> Mask:
        """Which of these ranges have a code in them that was promised not to come any more."""
        ranges = self.of(input, predicate)
        if not len(ranges):
            return np.zeros(len(first), np.bool_)
        place = np.searchsorted(ranges[:, 1], first)
        inside: Mask = ranges[np.minimum(place, len(ranges) - 1), 0] <= last
        return inside & (place < len(ranges))

    def broken_by(self, input: int, predicate: int, codes: Codes) -> Mask:
        """Which of these codes of rows that came break a promise."""
        return self.cover(input, predicate, codes, codes)

    def forget(self, input: int, predicate: int, ranges: Ranges) -> None:
        """Remove these codes from what was promised."""
        left = subtract(self.of(input, predicate), ranges)
        if len(left):
            self._ranges[input, predicate] = left
        else:
            self._ranges.pop((input, predicate), None)

    def save(self) -> list[Any]:
        return [
            [input, predicate, ranges.tolist()]
            for (input, predicate), ranges in sorted(self._ranges.items(), key=lambda item: item[0])
        ]

    @classmethod
    def load(cls, saved: list[Any]) -> Promises:
        promises = cls()
        for input, predicate, ranges in saved:
            promises._ranges[input, predicate] = np.array(ranges, np.uint64).reshape(-1, 2)
        return promises

    def save_keys(self) -> list[Any]:
        return [[*key, keys.save()] for key, keys in sorted(self.keys.items(), key=lambda i: i[0])]

    def load_keys(self, saved: list[Any]) -> None:
        self.keys = {
            (input, predicate): PromisedKeys.load(keys) for input, predicate, keys in saved
        }


# ---- sets of codes as ranges --------------------------------------------------------------------


def unite(ranges: Ranges, known: Ranges = _NONE) -> Ranges:
    """The same codes in as few ranges as possible, with those that are `known`; `ranges` may
    overlap and be in any order.

    >>> unite(np.array([[7, 9], [1, 4], [5, 5], [2, 3]], np.uint64)).tolist()
    [[1, 5], [7, 9]]
    """
    first = ranges[:, 0]
    if (first[1:] < first[:-1]).any():
        ranges = ranges[np.argsort(first, kind="stable")]
    merged = np.empty((len(known) + len(ranges), 2), np.uint64)
    count = promised.merge_ranges(known, np.ascontiguousarray(ranges), merged)
    return merged[:count].copy()


def intersect(some: Ranges, others: Ranges) -> Ranges:
    """The codes that are in both sets of ranges.

    >>> some, others = np.array([[1, 5], [7, 9]], np.uint64), np.array([[4, 7]], np.uint64)
    >>> intersect(some, others).tolist()
    [[4, 5], [7, 7]]
    """
    start = np.searchsorted(others[:, 1], some[:, 0], side="left")
    stop = np.searchsorted(others[:, 0], some[:, 1], side="right")
    counts = np.maximum(stop - start, 0)
    mine = np.repeat(np.arange(len(some)), counts)
    nth = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    theirs = start[mine] + nth
    return np.column_stack(
        [
            np.maximum(some[mine, 0], others[theirs, 0]),
            np.minimum(some[mine, 1], others[theirs, 1]),
        ]
    )


def subtract(some: Ranges, others: Ranges) -> Ranges:
    """The codes that are in `some` and not in `others`.

    >>> some, others = np.array([[1, 5], [7, 9]], np.uint64), np.array([[4, 7]], np.uint64)
    >>> subtract(some, others).tolist()
    [[1, 3], [8, 9]]
    """
    if not len(others):
        return some
    # All codes that are not in `others`: before the first range, between two, after the last.
    first = np.concatenate([[np.uint64(0)], others[:, 1] + _ONE])
    last = np.concatenate([others[:, 0] - _ONE, [np.uint64(LAST_CODE)]])
    there = np.ones(len(first), np.bool_)
    there[0], there[-1] = others[0, 0] > 0, others[-1, 1] < LAST_CODE
    return intersect(some, np.column_stack([first, last])[there])
