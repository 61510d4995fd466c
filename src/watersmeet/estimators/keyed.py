"""Running sums of a unit's contributions per group, kept sorted and merged lazily.

What the two-sided variance needs is, for every row or block, the sum over all partners met so
far. Pairs arrive rectangle by rectangle, so a unit's sum grows in many steps.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.units import gathered

_UNIT_BITS = 40
_SPREADING = np.uint64(0x9E3779B97F4A7C15)


class KeyedSums:
    """Sum per (group, unit), ascending; units are numbers below 2**40, groups below 2**23.

    Of more than `most` sums, those of a random `share` of the units are kept, whole: a hash of a
    unit's number says whether it is among them, so that all that is ever added to a unit that is
    kept has been added to it.
    """

    def __init__(self, width: int, *, most: int | None = None) -> None:
        self._most = most
        self._halvings = 0
        self._keys = np.zeros(0, np.int64)
        self._sums = np.zeros((0, width))
        self._fresh: list[tuple[Integers, Floats]] = []
        self._waiting = 0

    def add(self, groups: Integers, units: Integers, values: Floats) -> None:
        self._put((groups.astype(np.int64) << _UNIT_BITS) | units.astype(np.int64), values.copy())

    @property
    def share(self) -> float:
        """Of the units, those whose sums are kept."""
        return 0.5**self._halvings

    def _put(self, keys: Integers, values: Floats) -> None:
        if self._halvings:
            kept = self._kept(keys)
            keys, values = keys[kept], values[kept]
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
        while self._most is not None and len(self._keys) > self._most:
            self._thin(self._halvings + 1)

    def _thin(self, halvings: int) -> None:
        self._halvings = halvings
        kept = self._kept(self._keys)
        self._keys, self._sums = self._keys[kept], self._sums[kept]

    def _kept(self, keys: Integers) -> NDArray[np.bool_]:
        units = (keys & ((1 << _UNIT_BITS) - 1)).astype(np.uint64)
        # The high bits of a product with an odd constant are those of a random number.
        mixed = units * _SPREADING
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _SPREADING
        return np.asarray(mixed >> np.uint64(64 - self._halvings) == 0)

    def __iadd__(self, other: Self) -> Self:
        other._settle()
        if other._halvings > self._halvings:
            self._settle()
            self._thin(other._halvings)
        self._put(other._keys, other._sums)
        return self

    def entries(self) -> tuple[Integers, Integers, Floats]:
        """Groups, units, sums."""
        self._settle()
        return self._keys >> _UNIT_BITS, self._keys & ((1 << _UNIT_BITS) - 1), self._sums
