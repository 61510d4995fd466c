"""Who is ahead of whom, at every instant of two curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from watersmeet.reproduce.curve import POINTS
from watersmeet.sim.delays import Seconds
from watersmeet.sim.trace import Trace

EQUAL = 0.99
"""A ratio. Within 1%, two curves count as equal: batches make times no more exact."""


class Traced(Protocol):
    """A run of which it was recorded when results came."""

    @property
    def trace(self) -> Trace: ...


@dataclass(frozen=True)
class Lowest:
    """The smallest of many ratios and when it occurred."""

    ratio: float
    time: float

    def __str__(self) -> str:
        return f"{self.ratio:.3f} at {self.time:,.0f} s"


def instants(
    runs: Sequence[Traced], *, since: float | None = None, until: float | None = None
) -> Seconds:
    """The figures' grid from the first flush to the last arrival, or between the times given."""
    end = runs[0].trace.transmission_end
    grid = np.linspace(0.0, end, POINTS + 1)[1:]
    first = max(run.trace.first_flush for run in runs) if since is None else since
    last = end if until is None else until
    chosen: Seconds = grid[(grid >= first) & (grid <= last)]
    return chosen


def lowest_results(ahead: Traced, behind: Traced, at: Seconds) -> Lowest:
    """The smallest ratio of the results of `ahead` to those of `behind`."""
    mine, others = ahead.trace.results_at(at), behind.trace.results_at(at)
    return _lowest(mine / np.maximum(others, 1), at)


def lowest_cost_ratio(cheap: Traced, dear: Traced, at: Seconds) -> Lowest:
    """The smallest ratio of the cost per result of `dear` to that of `cheap`."""
    return _lowest(dear.trace.cost_at(at) / cheap.trace.cost_at(at), at)


def _lowest(ratios: Seconds, at: Seconds) -> Lowest:
    if not len(ratios):
        return Lowest(float("nan"), float("nan"))
    place = int(np.argmin(ratios))
    return Lowest(float(ratios[place]), float(at[place]))
