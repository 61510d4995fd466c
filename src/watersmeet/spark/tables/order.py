"""In which order are the row groups of two tables read, so that early rows find their partners?

In random order, as a rule: a fraction f of each table then has about f*f of the result. If both
tables are clustered on the key, as tables that were written in its order are, row groups of the
same keys are read together, and a fraction f of each has about f of the result. Row groups are
called parts here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from watersmeet.policies.order import random_order

Range = tuple[int, int]
Orders = tuple[list[int], list[int]]

# A table counts as clustered if the ranges of its parts, added up, are at most this many times as
# long as the range of all keys. In a table in random order they are as many times as long as there
# are parts.
_MOST_COVER = 2.0
_FEWEST_PARTS = 4


def order_by_key(
    left: Sequence[Range | None], right: Sequence[Range | None], *, seed: int
) -> Orders | None:
    """Orders of both tables in which parts with the same keys come at about the same time; None if
    a table is not clustered.

    Ranges of keys are put into a random order, and both tables are read in that order of ranges.

    >>> order_by_key([(0, 9), (10, 19), (20, 29), (30, 39)], [(20, 39), (0, 4), (5, 9), (10, 19)],
    ...              seed=1)
    ([1, 3, 2, 0], [3, 0, 1, 2])
    """
    sides = [[each for each in side if each is not None] for side in (left, right)]
    complete = [len(known) == len(side) for known, side in zip(sides, (left, right), strict=True)]
    if not all(complete) or not all(map(is_clustered, sides)):
        return None
    # The ranges are those of the table with fewer, larger parts, so that a part of it is read
    # together with all parts of the other table that have its keys.
    starts = sorted(least for least, _ in min(sides, key=len))
    place = random_order(len(starts), seed=seed)

    def stretch(values: Range) -> tuple[int, int]:
        middle = (values[0] + values[1]) // 2
        return place[max(bisect_right(starts, middle) - 1, 0)], values[0]

    first, second = (sorted(range(len(side)), key=lambda n: stretch(side[n])) for side in sides)
    return first, second


def is_clustered(parts: Sequence[Range]) -> bool:
    if len(parts) < _FEWEST_PARTS:
        return False
    whole = max(most for _, most in parts) - min(least for least, _ in parts) + 1
    return sum(most - least + 1 for least, most in parts) <= _MOST_COVER * whole
