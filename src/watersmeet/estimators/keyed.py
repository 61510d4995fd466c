"""Running sums of a unit's contributions per group, kept sorted and merged lazily.

What the two-sided variance needs is, for every row or block, the sum over all partners met so
far. Pairs arrive rectangle by rectangle, so a unit's sum grows in many steps.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.units import gathered

_UNIT_BITS = 40


class KeyedSums:
    """Sum per (group, unit), ascending; units are numbers below 2**40, groups below 2**23."""

    def __init__(self, width: int) -> None:
        self._keys = np.zeros(0, np.int64)
        self._sums = np.zeros((0, width))
        self._fresh: list[tuple[Integers, Floats]] = []
        self._waiting = 0

    def add(self, groups: Integers, units: Integers, values: Floats) -> None:
        self._put((groups.astype(np.int64) << _UNIT_BITS) | units.astype(np.int64), values.copy())

    def _put(self, keys: Integers, values: Floats) -> None:
        keys, values = gathered(keys, values)
        self._fresh.append((keys, values))
        self._waiting += len(keys)
        # Merging when as much waits as is held costs every entry a logarithmic number of moves.
        if self._waiting > len(self._keys) + 1024:
            self._settle()

    def _settle(self) -> None:
        if not self._fresh:
            return
        parts = [(self._keys, self._sums), *self._fresh]
        self._keys, self._sums = gathered(
            np.concatenate([keys for keys, _ in parts]),
            np.concatenate([sums for _, sums in parts]),
        )
        self._fresh, self._waiting = [], 0

    def __iadd__(self, other: Self) -> Self:
        other._settle()
        self._put(other._keys, other._sums)
        return self

    def entries(self) -> tuple[Integers, Integers, Floats]:
        """Groups, units, sums."""
        self._settle()
        return self._keys >> _UNIT_BITS, self._keys & ((1 << _UNIT_BITS) - 1), self._sums
