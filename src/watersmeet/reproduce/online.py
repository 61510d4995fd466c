"""Runs of which the results of the online phase count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from watersmeet.reproduce.jobs import each
from watersmeet.sim.trace import Trace


class Delayed(Protocol):
    """What is joined, with delays or without."""

    @property
    def pause(self) -> float: ...

    @property
    def words(self) -> str:
        """What is joined, as the beginning of a line."""
        ...


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

    def __str__(self) -> str:
        return (
            f"{self.workload.words}  {self.algorithm:<16}  {self.online:>13,} online  "
            f"{self.share:6.1%}  {self.trace.most_waiting:>7,} waiting  {self.seconds:6.1f} s"
        )


Run = TypeVar("Run", bound=OnlineRun[Any])


def run_all(
    one: Callable[[tuple[Any, str]], Run],
    planned: Sequence[tuple[Any, str]],
    *,
    jobs: int,
    say: Callable[[str], None],
) -> dict[tuple[Any, str], Run]:
    """Run `one` for every workload and algorithm that is planned, and say a line for each."""
    runs: dict[tuple[Any, str], Run] = {}
    for number, run in enumerate(each(one, planned, jobs=jobs), start=1):
        runs[run.workload, run.algorithm] = run
        say(f"{number:>3}/{len(planned)}  {run}")
    return runs
