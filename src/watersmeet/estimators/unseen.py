"""Which share of the join is in groups that no row has shown yet?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from watersmeet.estimators.moments import Floats, Integers


class Unseen(NamedTuple):
    share: float  # of the join's rows
    at_most: float


def unseen_groups(pairs: Floats | Integers, *, fraction: float, confidence: float = 0.95) -> Unseen:
    """Good and Turing: as much as is now in groups of one row was unseen one row ago.

    `pairs` are the matched pairs of each seen group, `fraction` the share of all pairs of rows
    looked at. Rows must come one by one: where a block brings several of a group at once,
    pass the number of blocks that hold the group.

    >>> unseen_groups(np.array([1, 1, 7, 11]), fraction=0.5).share
    0.05
    """
    from scipy.special import gammaincinv  # type: ignore[import-untyped]

    total = float(np.sum(pairs))
    if fraction >= 1:
        return Unseen(0.0, 0.0)
    if not total:
        return Unseen(1.0, 1.0)
    single = float(np.sum(np.asarray(pairs) == 1))
    # The chi-square quantile of 2 (f1 + 1) degrees, halved: most that f1 events allow.
    most = float(gammaincinv(single + 1, (1 + confidence) / 2)) / total
    return Unseen(single / total * (1 - fraction), min(most, 1.0))
