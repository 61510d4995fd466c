"""How much must be read until the interval is narrow enough, and of which input next?

The variance has three parts: alpha a + beta b + gamma a b, with a = 1/n - 1/N and b likewise
for the other input. What is known now gives all three, and so the variance at any depth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from watersmeet.estimators.intervals import t_quantile, tail_probability
from watersmeet.estimators.moments import Floats
from watersmeet.estimators.quantities import Quantity
from watersmeet.estimators.totals import Reading, Totals

_STEPS = 40


class Forecast(NamedTuple):
    """Variance of one aggregate as a function of the units read of each sampled side."""

    value: Floats  # [G]
    parts: Floats  # [sides, G]: alpha, beta
    both: Floats  # [G]: gamma
    readings: tuple[Reading, ...]

    @classmethod
    def of(cls, totals: Totals, quantity: Quantity, *, centre: float = 0.0) -> Forecast:
        value, form = quantity.evaluate(totals.value, centre=centre)
        scale = 1 / totals.fraction if totals.fraction else np.nan
        readings = tuple(shape.reading for shape in totals.shapes)
        sides = [
            scale**2
            * (1 - shape.reading.fraction)
            * (shape.reading.read / (shape.reading.read - 1) if shape.reading.read > 1 else np.inf)
            * form.second(shape.second)
            for shape in totals.shapes
        ]
        none = np.zeros(totals.groups)
        if len(sides) < 2:
            alone = [side / _left(reading) for side, reading in zip(sides, readings, strict=True)]
            return cls(value, np.array(alone or [none]), none, readings)
        # Each side's part holds the interaction once; the variance holds it once in all.
        shared = sum(sides) - form.second(totals.covariance)
        shared = np.clip(shared, 0, np.minimum(*sides))
        left, right = (_left(reading) for reading in readings)
        parts = np.array([(sides[0] - shared) / left, (sides[1] - shared) / right])
        return cls(value, parts, shared / (left * right), readings)

    def variance(self, units: tuple[float, ...]) -> Floats:
        """At `units` read of each sampled side."""
        left = [_left(r, at) for r, at in zip(self.readings, units, strict=True)]
        result = sum((part * at for part, at in zip(self.parts, left, strict=False)), 0 * self.both)
        return np.asarray(result + (self.both * left[0] * left[1] if len(left) == 2 else 0.0))

    def fraction_needed(self, *, relative_error: float, confidence: float = 0.95) -> Floats:
        """Share of every sampled side at which the half-width is small enough; 1 is all of it.

        Never less than what has been read. Sides go ahead together.
        """
        tail = tail_probability(confidence)
        now = max((reading.fraction for reading in self.readings), default=1.0)
        low, high = np.full(len(self.value), now), np.ones(len(self.value))
        target = np.abs(self.value) * relative_error
        enough = self._half_width(low, tail) <= target
        for _ in range(_STEPS):
            middle = (low + high) / 2
            fits = self._half_width(middle, tail) <= target
            high, low = np.where(fits, middle, high), np.where(fits, low, middle)
        return np.where(enough, now, high)

    def _half_width(self, fraction: Floats, tail: float) -> Floats:
        left = [1 / (fraction * (r.of or 1)) - 1 / (r.of or 1) for r in self.readings]
        variance = 0 * self.both
        for part, at in zip(self.parts, left, strict=False):
            variance = variance + part * at
        if len(left) == 2:
            variance = variance + self.both * left[0] * left[1]
        units = [np.floor(fraction * (r.of or 1)) for r in self.readings]
        degrees = np.minimum.reduce(units) - 1 if units else np.full(len(fraction), np.inf)
        return np.asarray(t_quantile(tail, np.maximum(degrees, 1)) * np.sqrt(variance))

    def next_side(self, units_per_second: tuple[float, ...]) -> int:
        """Which of the sampled sides lowers the (relative) variance most per second of reading."""
        left = [_left(reading) for reading in self.readings]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(self.value != 0, 1 / self.value**2, 0.0)
        drops = []
        for side, (reading, speed) in enumerate(zip(self.readings, units_per_second, strict=True)):
            slope = self.parts[side]
            if len(left) == 2:
                slope = slope + self.both * left[1 - side]
            drops.append(float(np.sum(weight * slope)) * speed / reading.read**2)
        return int(np.argmax(drops))


def _left(reading: Reading, units: float | None = None) -> float:
    """1/n - 1/N: what is left of the variance of one unit."""
    read = reading.read if units is None else units
    return 1 / read - (1 / reading.of if reading.of else 0.0)
