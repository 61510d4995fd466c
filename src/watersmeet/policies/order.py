"""In which order are the files or row groups of a table read, if any order will do?"""

from __future__ import annotations

import random


def random_order(parts: int, *, seed: int) -> list[int]:
    """The numbers below `parts`, shuffled: the same for the same seed.

    >>> random_order(4, seed=1)
    [3, 0, 2, 1]
    """
    order = list(range(parts))
    random.Random(seed).shuffle(order)
    return order
