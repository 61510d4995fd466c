"""Runs of which the results of the online phase count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from watersmeet.sim.trace import Trace


class Delayed(Protocol):
    """What is joined, with delays or without."""

    @property
    def pause(self) -> float: ...


Joined = TypeVar("Joined", bound=Delayed)


@dataclass(frozen=True, eq=False)
class OnlineRun(Generic[Joined]):
    """What one algorithm did with one workload. `exact` is the size of the whole result."""

    workload: Joined
    algorithm: str
    trace: Trace
    exact: int
    seconds: float

    @property
    def online(self) -> int:
        """The results of the online phase: "until tuples are completely received" (DINER, section
        5).

        Without delays only the arriving phase has run when all rows have been processed. With
        them, a task can go on long after the last arrival: what it finds then does not count.
        """
        trace = self.trace
        end = trace.transmission_end if self.workload.pause else trace.cleanup_start
        return int(trace.results_at(np.array([end]))[0])

    @property
    def share(self) -> float:
        return self.online / max(self.exact, 1)
