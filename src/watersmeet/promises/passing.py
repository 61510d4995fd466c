"""Which promises may be passed on: what the result of a join will not have any more.

A join may tell whoever reads its result that no more rows with certain values come (MJoin,
section 4.2: "all possible output tuples matching the punctuation have been generated"). Two rules
suffice. Let v be codes under a watched predicate.

* **A side is done with v** when it has promised v, and no row with v is kept of it. A result that
  has a row of this side with v would need one that comes, which was promised away, or one that has
  come. A row that has come and is not kept any more is part of no further result: joins let go of
  a row only when it has met all that is there, nothing more can come for it, and it has been
  reported if it found no partner. So what is spilled, or owed, or waits to be reported, is kept,
  and holds v back.
* **The result is done with v** when the sides are done that can bring v. Under equal keys, a pair
  needs a row with v of either side, so it is enough that one of them is done; for rows that an
  outer or anti join reports without a partner, their own side must be. In a full join that is both.
  In a band the two columns have values of their own: each needs its own side.

So a left input that is ordered passes its times on as far as left rows have gone, which is when the
right input has passed them by the width of the band. A value that one input has promised, and has
no rows of, is passed on at once: nothing can meet what is not there.

Both rules stay true once they are. State is two sets of codes for each side and predicate, merged
where they touch: what was promised, and what of it is held back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from watersmeet.model import Side
from watersmeet.promises.subjects import FIRST, Form, Subject
from watersmeet.rows.promises import (
    LAST_CODE,
    Promise,
    Promises,
    Ranges,
    intersect,
    subtract,
    unite,
)

Kept = Callable[[Side, int, Ranges], Ranges]
"""Of a side and the number of a predicate, ranges in which are all codes of rows that are kept, as
far as they are among the given ranges."""

_NONE: Ranges = np.empty((0, 2), np.uint64)


class Passed(NamedTuple):
    """Codes of a subject that the result is done with, in the order of its values."""

    subject: int
    """Its place among all subjects."""
    ranges: Ranges
    """Those that have not been passed on before; of a subject that is passed on in order, the one
    range from the first value to the last of which that is true."""


class Passing:
    """What the inputs have promised, and what of it is still held back."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self.subjects = tuple(subjects)
        self._numbers = sorted({subject.number for subject in subjects})
        self._heard = Promises()
        self._held = Promises()
        self._reached: dict[int, int] = {}
        """By subject that is passed on in order, the code up to which it has been."""

    def hear(self, side: Side, promise: Promise) -> None:
        """Take note of a promise about a side. The rows before it may still be unjoined."""
        number = promise.predicate
        if number not in self._numbers or promise.keys is not None:
            return  # Keys that are told by name cannot be read from their codes.
        ranges = promise.ranges
        if number == 0:  # Keys of several columns are passed on one by one.
            ranges = ranges[ranges[:, 0] == ranges[:, 1]]
        new = _outside(unite(ranges[ranges[:, 0] <= ranges[:, 1]]), self._heard.of(side, number))
        if len(new):
            self._heard.accept(side, Promise(number, new))
            self._held.accept(side, Promise(number, new))

    @property
    def waits(self) -> bool:
        """Whether something was promised that has not been passed on."""
        return bool(self._held)

    def look(self, kept: Kept) -> list[Passed]:
        """What may be passed on since the last look, when all results of what has come so far have
        been yielded, but for those of rows that are kept."""
        found: list[Passed] = []
        for number in self._numbers:
            new = {side: self._let_go(side, number, kept) for side in Side}
            if any(map(len, new.values())):
                for place, subject in enumerate(self.subjects):
                    if subject.number == number:
                        found += self._passed(place, subject, new)
                if number == 0:
                    self._forget_done(new)
        return found

    def _let_go(self, side: Side, number: int, kept: Kept) -> Ranges:
        """The codes with which a side is done since the last look."""
        held = self._held.of(side, number)
        if not len(held):
            return _NONE
        new = _outside(held, kept(side, number, held))
        self._held.forget(side, number, new)
        return new

    def _passed(self, place: int, subject: Subject, new: dict[Side, Ranges]) -> list[Passed]:
        if subject.form in (Form.UP_TO, Form.FROM):
            return self._in_order(place, subject)
        # What was done before has been passed on before.
        if len(subject.alone) == 2:
            news = [self._done(s.other, subject.number, new[s]) for s in Side]
        elif subject.alone or len(subject.sides) == 1:
            (side,) = subject.alone or subject.sides
            news = [new[side]]
        else:
            news = [_outside(new[s], self._done_before(s.other, subject.number, new)) for s in Side]
        ranges = subject.by_value(unite(np.concatenate(news)))
        return [Passed(place, ranges)] if len(ranges) else []

    def _done(self, side: Side, number: int, among: Ranges) -> Ranges:
        """With which of these codes a side is done."""
        promised = intersect(among, self._heard.of(side, number))
        return _outside(promised, self._held.of(side, number))

    def _done_before(self, side: Side, number: int, new: dict[Side, Ranges]) -> Ranges:
        """With which of the codes with which the other side is done now, this one was before."""
        return _outside(self._done(side, number, new[side.other]), new[side])

    def _in_order(self, place: int, subject: Subject) -> list[Passed]:
        """Of values that are passed on in order only the first ones, or the last ones, count."""
        every = np.array([[0, LAST_CODE]], np.uint64)
        sides = subject.alone or subject.sides
        done = [self._done(side, subject.number, every) for side in sides]
        both = intersect if subject.alone else _united
        ranges = done[0] if len(done) == 1 else both(*done)
        ranges = subject.by_value(ranges)
        if subject.turns_nan:  # Then no value has the first code.
            ranges = _united(ranges, FIRST)
        if subject.form is Form.FROM:
            ranges = np.uint64(LAST_CODE) - ranges[::-1, ::-1]
        if not len(ranges) or ranges[0, 0] > 0:
            return []
        reached, before = int(ranges[0, 1]), self._reached.get(place, -1)
        if reached <= before:
            return []
        self._reached[place] = reached
        first, last = (
            (0, reached) if subject.form is Form.UP_TO else (LAST_CODE - reached, LAST_CODE)
        )
        return [Passed(place, np.array([[first, last]], np.uint64))]

    def _forget_done(self, new: dict[Side, Ranges]) -> None:
        """Forget hashes of keys with which both sides are done: they have no neighbours, so they
        would never become few. A key that is promised again may be passed on again."""
        done = unite(np.concatenate([self._done(side.other, 0, new[side]) for side in Side]))
        for side in Side:
            self._heard.forget(side, 0, done)

    def save(self) -> dict[str, Any]:
        return {
            "heard": self._heard.save(),
            "held": self._held.save(),
            "reached": sorted(self._reached.items()),
        }

    def load(self, saved: dict[str, Any]) -> None:
        self._heard = Promises.load(saved["heard"])
        self._held = Promises.load(saved["held"])
        self._reached = {place: reached for place, reached in saved["reached"]}  # noqa: C416


def nothing_kept(side: Side, number: int, among: Ranges) -> Ranges:
    """What is kept when all is joined."""
    return _NONE


def _united(some: Ranges, others: Ranges) -> Ranges:
    return unite(np.concatenate([some, others]))


def _outside(some: Ranges, others: Ranges) -> Ranges:
    """The codes in `some` that are not in `others`, of which there may be many more."""
    if not len(some) or not len(others):
        return some
    start = np.searchsorted(others[:, 1], some[0, 0])
    stop = np.searchsorted(others[:, 0], some[-1, 1], side="right")
    return subtract(some, others[start:stop])
