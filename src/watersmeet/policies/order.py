"""In which order are parts of a table read that could be read in any?"""

from __future__ import annotations

import random


def random_order(parts: int, *, seed: int) -> list[int]:
    """The same for the same seed.

    >>> random_order(4, seed=1)
    [3, 0, 2, 1]
    """
    order = list(range(parts))
    random.Random(seed).shuffle(order)
    return order
