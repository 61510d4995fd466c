"""A random part of the *keys*, with every row of both inputs that has one of them.

A salted hash of the key draws the keys, so the sample is valid whatever the order of the
files; the price is a scan of both key columns. One key is one draw: a hot key makes it fail,
and then the skewness of the keys' totals raises a flag.
"""

from __future__ import annotations

from typing import Self

from watersmeet.estimators.cluster import expanded
from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.totals import Reading, Totals
from watersmeet.estimators.units import UnitSums


class UniverseSample:
    """Totals per sampled key, scaled up by rows. `fraction` of the hash space was drawn."""

    def __init__(self, *, fraction: float, rows: int, moments: int) -> None:
        self.fraction = fraction
        self.rows = rows
        self._units = UnitSums(moments)

    def read(self, rows_of_keys: Floats) -> None:
        """Keys that were drawn, each once, by their rows in the sampled input."""
        self._units.count(rows_of_keys)

    def add(self, groups: Integers, totals: Floats, *, rows_of_keys: Floats) -> None:
        """Totals of keys, one entry per key and group, with the rows that `read` had."""
        self._units.add(groups, totals, sizes=rows_of_keys)

    def __iadd__(self, other: Self) -> Self:
        self._units += other._units
        return self

    def totals(self) -> Totals:
        keys = self._units.units
        # How many keys there are is not known, only which share of them was drawn; with all
        # of them drawn there is nothing left to vary.
        whole = keys if self.fraction >= 1 else max(round(keys / self.fraction), keys + 1)
        return expanded(self._units, Reading(keys, whole, "keys"), whole=self.rows)
