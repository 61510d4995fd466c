"""Parameters that cross: some of their combinations are tested always, the others are slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def crossed(*dimensions: Iterable[Any], times: int = 1) -> list[Any]:
    """All combinations for `parametrize`. Those are fast that lie on `times` diagonals: each value
    comes in one of them or more, and most values of the longest dimension in `times`."""
    values = [list(dimension) for dimension in dimensions]
    longest = max(map(len, values))
    fast = set()
    for turn in range(times):
        for n in range(longest):
            # In each turn every dimension but the first is shifted by another step.
            fast.add(tuple((n + turn * place) % len(one) for place, one in enumerate(values)))
    combinations: list[tuple[int, ...]] = [()]
    for one in values:
        combinations = [(*before, n) for before in combinations for n in range(len(one))]
    return [
        pytest.param(
            *(one[n] for one, n in zip(values, numbers, strict=True)),
            marks=() if numbers in fast else pytest.mark.slow,
        )
        for numbers in combinations
    ]
