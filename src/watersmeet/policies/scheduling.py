"""From which input rows are taken next, and in which order they are processed (MJoin 4.1, 4.2).

Stream scheduling chooses the input, tuple scheduling the order of the rows that were taken from it.
MJoin decides for one tuple at a time; here a *turn* takes several rows of one input, no more than
the tuple at a time would take from it without going to the other input.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64] | NDArray[np.uint64]
"""Join values of rows or of punctuations, or codes that stand for them."""


class Turn(NamedTuple):
    """Take so many rows of an input."""

    input: int
    rows: int


# ---- from which input --------------------------------------------------------------------------


class StreamSchedule(Protocol):
    def turn(self, waiting: Sequence[int]) -> Turn | None:
        """What to take next, if so many rows of each input wait; None if none do. The caller takes
        exactly these rows."""
        ...


class RandomStreams:
    """Any input is as likely as any other: both are treated alike (MJoin 4.1).

    `rows` are those that a turn takes of each input; with 1 it is the paper's random scheduling.

    >>> streams = RandomStreams(seed=3, rows=(1, 1))
    >>> [streams.turn([9, 9]).input for _ in range(10)]
    [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]
    """

    def __init__(self, *, seed: int, rows: Sequence[int]) -> None:
        self._random = random.Random(seed)
        self._rows = rows

    def turn(self, waiting: Sequence[int]) -> Turn | None:
        there = [input for input, rows in enumerate(waiting) if rows]
        if not there:
            return None
        input = there[0] if len(there) == 1 else self._random.choice(there)
        return Turn(input, min(self._rows[input], waiting[input]))


class PriorityStreams:
    """Inputs in turns, each up to its quota; the first has priority (MJoin 5.3).

    The first input is the one side of a one-to-many join. Rows of the many side then find their
    partner there, and need not be stored (4.1). An input is left when it is empty or has reached
    its quota, and when it has reached its quota, the other begins anew. If both are within their
    quotas and neither is empty, the first goes on.

    >>> streams = PriorityStreams((2, 3))
    >>> [streams.turn([9, 9]) for _ in range(3)]
    [Turn(input=0, rows=2), Turn(input=1, rows=3), Turn(input=0, rows=2)]
    """

    def __init__(self, quotas: tuple[int, int]) -> None:
        self._quotas = quotas
        self._taken = [0, 0]
        """The iterators: rows that were taken since an input has begun anew."""

    def turn(self, waiting: Sequence[int]) -> Turn | None:
        if not any(waiting):
            return None
        for input in (0, 1):
            left = self._quotas[input] - self._taken[input]
            if left > 0 and waiting[input]:
                return self._take(input, min(left, waiting[input]))
        # All that wait are of an input that has reached its quota, and the other is empty.
        input = 0 if waiting[0] else 1
        self._taken[input] = 0
        return self._take(input, min(self._quotas[input], waiting[input]))

    def _take(self, input: int, rows: int) -> Turn:
        self._taken[input] += rows
        if self._taken[input] >= self._quotas[input]:
            self._taken[1 - input] = 0
        return Turn(input, rows)


# ---- in which order ----------------------------------------------------------------------------


class Arranged(NamedTuple):
    """The order in which the rows of a turn are processed, as their places in it. The first
    `hurried` of them match a valid punctuation; those that came before one of these waited."""

    order: NDArray[np.int64]
    hurried: int


class TupleSchedule(Protocol):
    def punctuated(self, input: int, values: Values) -> None:
        """Rows of an input with these values come no more."""
        ...

    def arrange(self, input: int, values: Values) -> Arranged:
        """The order of rows with these values, which a turn has taken from an input."""
        ...


class Sequential:
    """Rows are processed in the order in which they were taken."""

    def punctuated(self, input: int, values: Values) -> None:
        pass

    def arrange(self, input: int, values: Values) -> Arranged:
        return Arranged(np.arange(len(values)), 0)


class ValueOriented:
    """Rows that a punctuation of the other input waits for go first (MJoin 4.2).

    A punctuation can be propagated when all results that match it are out, so rows of the other
    input that match it are hurried, and others stay in the waiting pool. That is so from the
    moment a punctuation arrives until it has expired and no other is valid, or until the stream
    schedule goes to the other input; then rows are processed one after the other again, first those
    of the pool. The pool never outlives a turn, since within a turn no punctuation of the other
    input comes. So over a turn the order is: the rows that match a valid punctuation, then all
    others, both as they came.

    A punctuation expires when the other input says the same, or when its one row with that value
    has come, if the values of that input are `unique`.

    >>> scheduled = ValueOriented(unique=[0])
    >>> scheduled.punctuated(1, np.array([3, 4]))
    >>> scheduled.arrange(0, np.array([7, 4, 9]))
    Arranged(order=array([1, 0, 2]), hurried=1)
    >>> scheduled.valid(0)
    [3]
    """

    def __init__(self, *, unique: Sequence[int] = ()) -> None:
        self._unique = set(unique)
        self._awaited: list[set[int]] = [set(), set()]
        """By input, values that the other input has punctuated and this one may still bring."""
        self._came: list[set[int]] = [set(), set()]
        """By input, values that are unique there, have come, and wait for a punctuation."""

    def punctuated(self, input: int, values: Values) -> None:
        new, other = set(values.tolist()), 1 - input
        valid = new - self._awaited[input] - self._came[other]
        self._awaited[input] -= new
        self._came[other] -= new
        self._awaited[other] |= valid

    def arrange(self, input: int, values: Values) -> Arranged:
        awaited = self._awaited[input]
        if input in self._unique:
            new = set(values.tolist())
            self._came[input] |= new - awaited
            self._awaited[input] = awaited - new
        if not awaited:
            return Arranged(np.arange(len(values)), 0)
        match = np.isin(values, np.fromiter(awaited, values.dtype, len(awaited)))
        hurried = np.flatnonzero(match)
        return Arranged(np.concatenate([hurried, np.flatnonzero(~match)]), len(hurried))

    def valid(self, input: int) -> list[int]:
        """The values of punctuations that wait for rows of an input."""
        return sorted(self._awaited[input])
