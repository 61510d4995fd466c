"""In which order are the parts of two tables read, so that early rows find their partners?

In a random one, as a rule: a part f of each table then holds about f*f of the result. Where both
tables are clustered on the key, as tables that were written in its order are, parts of the same
keys are read together, and a part f holds about f of the result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from watersmeet.policies.order import random_order

Range = tuple[int, int]
Orders = tuple[list[int], list[int]]

# A table counts as clustered if its parts together cover its keys at most so many times. Parts of
# a table in random order cover them as often as there are parts.
_MOST_COVER = 2.0
_FEWEST_PARTS = 4


def order_by_key(
    left: Sequence[Range | None], right: Sequence[Range | None], *, seed: int
) -> Orders | None:
    """Orders in which parts with the same keys have about the same place; None if there are none.

    Stretches of keys are put into a random order, and both tables follow it.

    >>> order_by_key([(0, 9), (10, 19), (20, 29), (30, 39)], [(20, 39), (0, 4), (5, 9), (10, 19)],
    ...              seed=1)
    ([1, 3, 2, 0], [3, 0, 1, 2])
    """
    sides = [[each for each in side if each is not None] for side in (left, right)]
    complete = [len(known) == len(side) for known, side in zip(sides, (left, right), strict=True)]
    if not all(complete) or not all(map(_is_clustered, sides)):
        return None
    # The larger parts make the stretches, so that they are read beside all that belongs to them.
    starts = sorted(least for least, _ in min(sides, key=len))
    place = random_order(len(starts), seed=seed)

    def stretch(values: Range) -> tuple[int, int]:
        middle = (values[0] + values[1]) // 2
        return place[max(bisect_right(starts, middle) - 1, 0)], values[0]

    first, second = (sorted(range(len(side)), key=lambda n: stretch(side[n])) for side in sides)
    return first, second


def _is_clustered(parts: Sequence[Range]) -> bool:
    if len(parts) < _FEWEST_PARTS:
        return False
    whole = max(most for _, most in parts) - min(least for least, _ in parts) + 1
    return sum(most - least + 1 for least, most in parts) <= _MOST_COVER * whole
