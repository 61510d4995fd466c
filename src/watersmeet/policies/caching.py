"""Which join values are served from a cache of master rows, and which wait for the scan (SSBJ 3).

A value that is cached costs the bytes of its master rows; one that is not costs the bytes of the
stream rows that wait for the scan to come by. The cache inequality (SSBJ, Theorem 2) chooses, for
each value by itself, what costs less. So all of memory is used as well as it can be (Theorem 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.floating[Any]] | NDArray[np.int64]
Bytes = NDArray[np.floating[Any]] | NDArray[np.int64]

NO_HYSTERESIS = 1.0
"""The switching factor sf. Any other makes it slower (SSBJ 4.4, figure 6a)."""


def costs_less_cached(
    waiting: Counts, cached: Bytes, *, row_bytes: float, factor: float = NO_HYSTERESIS
) -> NDArray[np.bool_]:
    """The cache inequality, m * vR < n * vS, for many values at once.

    `waiting` is n, how many stream rows of each value would be waiting at any time; `cached` is
    m * vR, the bytes that the value takes in the cache; `row_bytes` is vS.

    Figure 3: part 10 has four suppliers and three requests, part 30 two suppliers and three
    requests, and all rows are of one size.

    >>> costs_less_cached(np.array([3, 3]), np.array([4, 2]), row_bytes=1).tolist()
    [False, True]
    """
    cheaper: NDArray[np.bool_] = factor * cached < waiting * row_bytes
    return cheaper
