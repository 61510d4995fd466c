"""How fast a join with a master table is in so much memory, and how much memory a speed takes.

SSBJ's cost model (section 3.2), with three corrections. Equation 6 sets a rate, rows a second,
equal to bytes divided by seconds: it puts the memory of equation 1 in the place of the rows of
equation 5. Here a rate gives the rows of a cycle (equation 5 solved for them), and those give the
memory (equation 1). Equation 2 leaves out that rows which wait were looked up in the cache before;
line 17 of the algorithm does it for all. And which rows are served by the cache is an input there:
here it follows from how often each value comes, by the cache inequality (Theorems 1 and 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.policies.caching import costs_less_cached

Numbers = NDArray[np.floating[Any]]

# A curve of so many groups of neighbouring values is as good as one of millions of values.
_GROUPS = 1500
_HALVINGS = 60
_MOST_ROWS = 1e15
# Groups whose master rows are fewer than this part of all are left out.
_NEGLIGIBLE = 1e-9
_MOST_OF_VALUE = 64
# So many values of a sample must have come equally often to say how often such values come.
_FEWEST_OF_A_COUNT = 10


@dataclass(frozen=True)
class ServiceCosts:
    """Seconds that each thing takes, and the symbols of SSBJ's Table 1."""

    read: float
    """For a byte of the master table: c_IO(b), divided by the bytes of b rows."""
    find: float
    """For a master row that looks for waiting rows: c_H, with what a step takes besides."""
    collect: float
    """For a master row, to see whether it has to go to the cache: c_B."""
    arrive: float
    """For a stream row, to come in: c_S."""
    look_up: float
    """For a stream row, to be looked up in the cache: c_H."""
    append: float
    """For a stream row that waits, to be put among the others: c_A."""
    expire: float
    """For a stream row that has waited, to leave: c_E."""
    output: float
    """For a result of a row that has waited, with finding it among the others: c_O."""
    serve: float
    """For a result of a row that the cache serves: c_O."""


@dataclass(frozen=True)
class ServiceSizes:
    """Bytes in memory."""

    waiting: float
    """Of a stream row that waits: vS with its part of the index and the queue (f, vP)."""
    cached: float
    """Of a master row in the cache: vR with its part of what surrounds it (f)."""
    entry: float
    """Of an entry of the cache besides its rows."""


@dataclass(frozen=True, eq=False)
class Popularity:
    """How often join values come, in groups of values that are alike.

    `values`: how many values a group has; `shares`: the part of all stream rows that one of them
    has; `rows`: how many master rows one of them has.
    """

    values: Numbers
    shares: Numbers
    rows: Numbers

    @classmethod
    def zipf(cls, values: int, exponent: float, *, rows: Numbers | None = None) -> Popularity:
        """The i-th of so many values comes in proportion to 1 / i**exponent.

        `rows[m]` is the part of the values that have m master rows, whatever their frequency; all
        have one if it is None.

        >>> steady = Popularity.zipf(1000, 0.0)
        >>> bool(np.allclose(steady.shares, 0.001)), round(float(steady.values.sum()))
        (True, 1000)
        """
        edges = np.unique(np.geomspace(1, values + 1, _GROUPS).astype(np.int64))
        counts = np.diff(edges).astype(np.float64)
        # The mean of a group, as that of a line from its first value to its last.
        first, last = edges[:-1].astype(np.float64), (edges[1:] - 1).astype(np.float64)
        shares = (first**-exponent + last**-exponent + 2 * np.sqrt(first * last) ** -exponent) / 4
        shares /= float((counts * shares).sum())
        parts = np.array([0.0, 1.0]) if rows is None else rows
        there = np.flatnonzero(parts > _NEGLIGIBLE)
        return cls(
            values=np.outer(parts[there], counts).ravel(),
            shares=np.tile(shares, len(there)),
            rows=np.repeat(there.astype(np.float64), len(counts)),
        )

    @classmethod
    def observed(cls, counts: NDArray[np.int64], *, distinct: int, rows: float) -> Popularity:
        """From a sample in which values came `counts` times. `distinct` values may come, each with
        so many master rows on average.

        A value that came c times in a sample is less frequent than that: those that came by chance
        are among them. If all of two million values are equally likely, one of ten rows of a sample
        of 400,000 has a value that came twice, and none is worth a place in a cache. So it is taken
        to come (c + 1) * N(c + 1) / N(c) times, where N(c) values came c times (Good, Biometrika
        1953), as long as there are enough of them to say so. What is left is shared equally by the
        values that did not come, and by those that came once if nothing better is known of them.
        """
        times, values = np.unique(counts[counts > 0], return_counts=True)
        total = max(float((times * values).sum()), 1.0)
        # How many values came once more than these did.
        more = np.zeros(len(times))
        following = np.flatnonzero(np.diff(times) == 1)
        more[following] = values[following + 1]
        known = more >= _FEWEST_OF_A_COUNT
        expected = np.where(known, (times + 1) * more / np.maximum(values, 1), times)
        kept = known | (times > 1)
        others = int(values[~kept].sum())
        values, shares = values[kept], np.minimum(expected, times)[kept] / total
        rest = max(distinct - int(values.sum()), others)
        left = max(1.0 - float((values * shares).sum()), 0.0)
        if rest:
            values, shares = np.append(values, rest), np.append(shares, left / rest)
        elif left:
            shares = shares / max(float((values * shares).sum()), 1e-300)
        order = np.argsort(-shares, kind="stable")
        groups = values[order].astype(np.float64)
        return cls(groups, shares[order], np.full(len(groups), rows))

    @property
    def results(self) -> float:
        """Results of a stream row, on average."""
        return float((self.values * self.shares * self.rows).sum())


def poisson(mean: float) -> Numbers:
    """The part of the values with 0, 1, 2, ... rows if rows have values at random, with repetition:
    `mean` rows for each value."""
    numbers = np.arange(1, _MOST_OF_VALUE)
    logs = np.append(0.0, np.cumsum(np.log(mean / numbers)))
    parts: Numbers = np.exp(logs - mean)
    return parts


@dataclass(frozen=True)
class Balance:
    """What waits and what is cached when so many stream rows come in a cycle (Theorem 1)."""

    rows: float
    """Stream rows of a cycle."""
    waiting: float
    """Rows that wait, on average."""
    cached: float
    """The part of the stream rows that the cache serves."""
    cache_bytes: float
    memory: float
    """Bytes of both."""


@dataclass(frozen=True, eq=False)
class Demand:
    """What the stream asks for, and what it takes to wait for it or to cache it.

    `waits`: how long a row waits, in cycles: 1 in the papers, and 1/2 if it is done as soon as the
    scan has passed its code. `caches`: whether there is a cache at all.
    """

    popularity: Popularity
    sizes: ServiceSizes
    waits: float = 1.0
    caches: bool = True

    def balance(self, rows: float) -> Balance:
        """Every value where it takes less memory, if so many stream rows come in a cycle."""
        popularity, sizes = self.popularity, self.sizes
        expected = rows * self.waits * popularity.shares
        entries = sizes.entry + popularity.rows * sizes.cached
        cached = costs_less_cached(expected, entries, row_bytes=sizes.waiting)
        cached &= self.caches
        served = min(float((popularity.values * popularity.shares)[cached].sum()), 1.0)
        cache_bytes = float((popularity.values * entries)[cached].sum())
        waiting = rows * self.waits * (1.0 - served)
        return Balance(rows, waiting, served, cache_bytes, waiting * sizes.waiting + cache_bytes)

    def in_memory(self, nbytes: float) -> Balance:
        """The most stream rows of a cycle for which memory is enough. If all of the master table
        fits in the cache, that is any number (Theorem 3)."""
        low, high = 1.0, _MOST_ROWS
        if self.balance(high).memory <= nbytes:
            return self.balance(high)
        for _ in range(_HALVINGS):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if self.balance(middle).memory > nbytes else (middle, high)
        return self.balance(low)


@dataclass(frozen=True)
class Service:
    """What to expect: the service rate, and how long a row waits at most."""

    rate: float
    """Stream rows a second."""
    cycle_seconds: float
    """One cycle: no row waits longer, if the machine has nothing else to do."""
    balance: Balance


@dataclass(frozen=True, eq=False)
class ServiceModel:
    """Equations 1 to 6 for one master table, one stream and one machine."""

    costs: ServiceCosts
    demand: Demand
    master_rows: float
    master_bytes: float
    results: float
    """Results of a stream row."""

    def scan_seconds(self) -> float:
        """To read the whole master table and to look up its rows: a cycle without stream rows."""
        costs = self.costs
        collect = costs.collect if self.demand.caches else 0.0
        return self.master_bytes * costs.read + self.master_rows * (costs.find + collect)

    def row_seconds(self, cached: float) -> float:
        """For a stream row, if the cache serves this part of them."""
        costs = self.costs
        look_up = costs.look_up if self.demand.caches else 0.0
        waits = costs.append + costs.expire + self.results * costs.output
        served = self.results * costs.serve
        return costs.arrive + look_up + (1.0 - cached) * waits + cached * served

    def cycle_seconds(self, balance: Balance) -> float:
        """Equation 2, for all steps of a cycle together: divided by their number it is c_loop."""
        if balance.cached >= 1.0 - 1e-12:
            return 0.0  # A hash join in memory: nothing is read.
        return self.scan_seconds() + balance.rows * self.row_seconds(balance.cached)

    def in_memory(self, nbytes: float) -> Service:
        """From memory for waiting rows and cache to the rate: equations 1 and 3."""
        balance = self.demand.in_memory(nbytes)
        seconds = self.cycle_seconds(balance)
        most = 1.0 / self.row_seconds(balance.cached)
        return Service(balance.rows / seconds if seconds else most, seconds, balance)

    def at_rate(self, rate: float) -> Service | None:
        """From a rate to the memory that it takes: equations 5 and 1. None if no memory is enough,
        because the stream rows alone take more time than there is."""
        # Rows of a cycle: rate * cycle_seconds(rows), where more rows make the cycle longer.
        rows = rate * self.scan_seconds()
        for _ in range(_HALVINGS):
            balance = self.demand.balance(rows)
            free = 1.0 - rate * self.row_seconds(balance.cached)
            if free <= 0.0:
                # Perhaps there is time enough if more is cached.
                balance = self.demand.balance(_MOST_ROWS)
                whole = balance.cached >= 1.0 - 1e-12 and rate * self.row_seconds(1.0) <= 1.0
                return Service(rate, 0.0, balance) if whole else None
            needed = rate * self.scan_seconds() / free
            if abs(needed - rows) <= 1e-6 * rows:
                break
            rows = needed
        return Service(rate, self.cycle_seconds(balance), balance)
