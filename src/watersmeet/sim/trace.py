"""How many results a simulated join had delivered at what time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watersmeet.rows.address import Index
from watersmeet.sim.delays import Seconds


@dataclass(frozen=True, eq=False)
class Trace:
    """Running totals: at `time[i]`, `results[i]` rows had come out after `work[i]` seconds of work.

    None of them decreases. `work` is time of processor and disk together, without waiting.
    """

    time: Seconds
    results: Index
    work: Seconds
    first_flush: float
    """When the first row left memory; infinite if none did."""
    transmission_end: float
    """When the last row arrived."""
    cleanup_start: float
    """When the last row had been processed: later than it arrived if work had piled up."""
    most_waiting: int = 0
    """The most rows that had arrived by the end of a stall's work and waited for it."""

    @property
    def total(self) -> int:
        return int(self.results[-1]) if len(self.results) else 0

    def results_at(self, instants: Seconds) -> Index:
        return _running(self.time, self.results, instants).astype(np.int64)

    def work_at(self, instants: Seconds) -> Seconds:
        return _running(self.time, self.work, instants)

    def cost_at(self, instants: Seconds) -> Seconds:
        """Seconds of work per result so far; not a number before the first result."""
        results = self.results_at(instants).astype(np.float64)
        results[results == 0] = np.nan
        cost: Seconds = self.work_at(instants) / results
        return cost

    @property
    def share_before_cleanup(self) -> float:
        before = self.results_at(np.array([self.cleanup_start]))[0]
        return float(before) / self.total if self.total else 1.0


def _running(
    time: Seconds, totals: NDArray[np.float64] | Index, instants: Seconds
) -> NDArray[np.float64]:
    last = np.searchsorted(time, instants, side="right")
    return np.concatenate(([0.0], totals))[last]
