"""How much time a network leaves between two rows.

A delay is a value without state or clock: randomness comes from the generator it is handed, so
the same seed gives the same delays. `times` turns waiting times into arrival times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument

Seconds = NDArray[np.float64]


class Delay(Protocol):
    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        """`count` waiting times, each between one row and the next."""
        ...


def times(delay: Delay, count: int, *, rng: np.random.Generator) -> Seconds:
    """When each of `count` rows arrives; the first one at time 0 (RPJ, section 6).

    >>> times(Fixed(0.25), 4, rng=np.random.default_rng(0)).tolist()
    [0.0, 0.25, 0.5, 0.75]
    """
    arrive = np.zeros(count)
    if count > 1:
        np.cumsum(delay.intervals(count - 1, rng), out=arrive[1:])
    return arrive


@dataclass(frozen=True)
class Fixed:
    """A reliable network: every row the same time after the one before."""

    interval: float

    def __post_init__(self) -> None:
        _require_positive(interval=self.interval)

    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        return np.full(count, self.interval)


@dataclass(frozen=True)
class Exponential:
    """Rows that arrive independently of each other: a Poisson stream."""

    mean: float

    def __post_init__(self) -> None:
        _require_positive(mean=self.mean)

    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        return rng.exponential(self.mean, count)


@dataclass(frozen=True)
class ZipfDelay:
    """An unreliable network: mostly `shortest`, sometimes up to `longest`.

    The waiting time is the k-th multiple of `step` from `shortest` on with probability
    proportional to 1/k^exponent. RPJ (section 6.2) says "Zipfian in [0.001, 0.03]" and that
    2 M rows take about 14,000 s, which is exponent 1 over the 30 whole milliseconds:
    a mean of 7.5 ms, and 4.5% of the waits longer than the 25 ms patience.
    """

    shortest: float = 0.001
    longest: float = 0.03
    exponent: float = 1.0
    step: float = 0.001

    def __post_init__(self) -> None:
        _require_positive(shortest=self.shortest, step=self.step)
        if self.longest < self.shortest:
            raise InvalidArgument(
                f"longest={self.longest} is below shortest={self.shortest}.",
                remedy="Give the waiting times as shortest <= longest.",
            )

    def values(self) -> Seconds:
        count = 1 + round((self.longest - self.shortest) / self.step)
        values: Seconds = self.shortest + self.step * np.arange(count, dtype=np.float64)
        return values

    def probabilities(self) -> Seconds:
        return zipf_probabilities(len(self.values()), self.exponent)

    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        return rng.choice(self.values(), size=count, p=self.probabilities())


@dataclass(frozen=True)
class Fragments:
    """Fragments of `rows` rows, `interval` seconds apart, with `gap` seconds between fragments."""

    rows: int
    interval: float
    gap: float

    def __post_init__(self) -> None:
        _require_positive(rows=self.rows, interval=self.interval, gap=self.gap)

    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        waits = np.full(count, self.interval)
        waits[self.rows - 1 :: self.rows] = self.gap
        return waits


@dataclass(frozen=True)
class Fragmented:
    """Rows in `fragments` equal parts; after each part nothing comes for `pause` times the time
    that the part took (DINER, section 5.3)."""

    within: Delay
    fragments: int
    pause: float

    def __post_init__(self) -> None:
        _require_positive(fragments=self.fragments, pause=self.pause)

    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        waits = self.within.intervals(count, rng)
        # Of `count` + 1 rows, the first that belongs to each part but the first one.
        ends = np.linspace(0, count + 1, self.fragments + 1).astype(np.int64)[1:-1]
        sent = np.concatenate(([0.0], np.cumsum(waits)))
        took = np.diff(sent[ends - 1], prepend=0.0)
        waits[ends - 1] += self.pause * took
        return waits


@dataclass(frozen=True)
class Bursts:
    """Bursts of about `rows` rows with quiet times of about `quiet` seconds between them.

    Burst lengths are geometric and quiet times exponential, so each is independent of the last.
    """

    rows: float
    interval: float
    quiet: float

    def __post_init__(self) -> None:
        _require_positive(interval=self.interval, quiet=self.quiet)
        if self.rows < 1:
            raise InvalidArgument(
                f"rows={self.rows} rows make no burst.", remedy="Give a mean of 1 or more."
            )

    def intervals(self, count: int, rng: np.random.Generator) -> Seconds:
        ends = rng.random(count) < 1.0 / self.rows
        return np.where(ends, rng.exponential(self.quiet, count), self.interval)


def zipf_probabilities(count: int, exponent: float) -> Seconds:
    """Rank k has a probability proportional to 1/k^exponent.

    >>> zipf_probabilities(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    probabilities: Seconds = weights / weights.sum()
    return probabilities


def _require_positive(**settings: float) -> None:
    for name, value in settings.items():
        if not value > 0:
            raise InvalidArgument(f"{name}={value} is not positive.", remedy="Give more than 0.")
