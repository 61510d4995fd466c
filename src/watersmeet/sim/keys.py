"""Which join keys a relation's rows carry, in the order in which they arrive.

Every distribution is a value; `draw` makes keys of it with the generator it is handed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.rows.address import Index
from watersmeet.sim.delays import zipf_probabilities

Weights = NDArray[np.float64]


class Keys(Protocol):
    def draw(self, count: int, rng: np.random.Generator) -> Index:
        """`count` keys in the order of arrival."""
        ...


@dataclass(frozen=True)
class UniformKeys:
    """Every key of `1..distinct` as likely as any other."""

    distinct: int

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        return rng.integers(1, self.distinct + 1, count)


@dataclass(frozen=True)
class ZipfKeys:
    """Key k of `1..distinct` with a probability proportional to 1/k^exponent."""

    distinct: int
    exponent: float

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        edges = np.cumsum(zipf_probabilities(self.distinct, self.exponent))
        # Rounding may leave the last edge just below 1, where a draw would fall off the end.
        drawn = np.searchsorted(edges[:-1], rng.random(count), side="right")
        return 1 + drawn.astype(np.int64)


@dataclass(frozen=True)
class UniqueKeys:
    """Every key of `1..distinct` once, in random order: a primary key. No more than these."""

    distinct: int

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        if count > self.distinct:
            raise InvalidArgument(
                f"There are no {count} different keys in 1..{self.distinct}.",
                remedy="Draw at most as many as there are.",
            )
        return 1 + rng.permutation(self.distinct)[:count].astype(np.int64)


@dataclass(frozen=True)
class NormalKeys:
    """Whole numbers around one or several centres, clipped into `lowest..highest`."""

    centres: tuple[float, ...]
    deviation: float
    lowest: int
    highest: int

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        around = rng.choice(np.array(self.centres), size=count)
        drawn = np.rint(rng.normal(around, self.deviation))
        return np.clip(drawn, self.lowest, self.highest).astype(np.int64)


@dataclass(frozen=True)
class Shifting:
    """One distribution that gives way to another while the relation is being sent.

    `start` and `stop` are fractions of the rows: those up to `start` follow `before`, those from
    `stop` on follow `after`, and between them the probability of `after` grows evenly.
    """

    before: Keys
    after: Keys
    start: float = 0.0
    stop: float = 1.0

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        place = (np.arange(count) + 0.5) / max(count, 1)
        width = max(self.stop - self.start, 1e-12)
        moved = rng.random(count) < np.clip((place - self.start) / width, 0.0, 1.0)
        return np.where(moved, self.after.draw(count, rng), self.before.draw(count, rng))


@dataclass(frozen=True)
class PartlySorted:
    """Ascending keys, of which a fraction `displaced` have changed places at random."""

    keys: Keys
    displaced: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.displaced <= 1.0:
            raise InvalidArgument(
                f"displaced={self.displaced} is no share.", remedy="Give a number from 0 to 1."
            )

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        drawn = np.sort(self.keys.draw(count, rng))
        places = rng.choice(count, size=round(self.displaced * count), replace=False)
        drawn[places] = drawn[rng.permutation(places)]
        return drawn


@dataclass(frozen=True)
class SortedIntervals:
    """Sorted keys, cut into intervals of as many rows, which come in random order (DINER 5.2)."""

    keys: Keys
    intervals: int

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        parts = np.array_split(np.sort(self.keys.draw(count, rng)), self.intervals)
        return np.concatenate([parts[place] for place in rng.permutation(self.intervals)])


@dataclass(frozen=True)
class Periods:
    """Whole numbers around `centre + i shift` in the i-th of some equal periods (DINER 5.2)."""

    centre: float
    shift: float
    deviation: float
    periods: int

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        period = np.arange(count) * self.periods // max(count, 1)
        drawn = np.rint(rng.normal(self.centre + self.shift * period, self.deviation))
        return drawn.astype(np.int64)


@dataclass(frozen=True, eq=False)
class PartitionedKeys:
    """A hash partition by `weights`, then any of its keys: RPJ's P(j|R), section 6.

    `members[j]` are the keys that the operators' own hash puts into partition j.
    """

    members: Index
    weights: Weights

    def __post_init__(self) -> None:
        if len(self.members) != len(self.weights) or not np.isclose(self.weights.sum(), 1.0):
            raise InvalidArgument(
                f"{len(self.weights)} weights of sum {self.weights.sum():.6g} do not share out "
                f"{len(self.members)} partitions.",
                remedy="Give one weight per partition, with a sum of 1.",
            )

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        partitions = rng.choice(len(self.weights), size=count, p=self.weights)
        keys: Index = self.members[partitions, rng.integers(0, self.members.shape[1], count)]
        return keys


def rising_weights(partitions: int = 20) -> Weights:
    """RPJ's P(j|R1) = 1% + (8/19)% (j-1): from 1% to 9% over 20 partitions.

    >>> rising_weights()[[0, -1]].round(6).tolist()
    [0.01, 0.09]
    """
    rising = 0.2 + 1.6 * np.arange(partitions) / (partitions - 1)
    weights: Weights = rising / partitions
    return weights


def harmony(partitions: int = 20) -> tuple[Weights, Weights]:
    """Where R1 is likely, so is R2: P(j|R2) = P(j|R1)."""
    rising = rising_weights(partitions)
    return rising, rising


def reverse(partitions: int = 20) -> tuple[Weights, Weights]:
    """Where R1 is likely, R2 is not: P(j|R2) = P(21-j|R1).

    The paper prints 20-j, which has no meaning at j = 20; 21-j mirrors all 20 partitions.
    """
    rising = rising_weights(partitions)
    return rising, rising[::-1].copy()
