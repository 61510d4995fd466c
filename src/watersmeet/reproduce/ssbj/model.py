"""What the cost model says of runs: the paper's figure 6, and the most that any cache can gain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from watersmeet.local.service_model import room_for_rows
from watersmeet.policies.service import (
    Balance,
    Demand,
    Popularity,
    ServiceModel,
    ServiceSizes,
    poisson,
)
from watersmeet.reproduce.ssbj.runs import Run
from watersmeet.reproduce.ssbj.settings import MASTER_BYTES, SSBJ, STREAM_BYTES

POINTER_BYTES = 4
"""Of a row in the paper's queue (Table 2)."""
PAPER_SIZES = ServiceSizes(STREAM_BYTES + POINTER_BYTES, MASTER_BYTES, 0.0)
"""If nothing but rows and pointers took memory."""


def loop_seconds(run: Run) -> float:
    """c_loop by equation 2, from the rows that were counted and the costs that were measured."""
    model = _model(run)
    balance = Balance(run.rows, run.waiting, run.cached, run.cache_bytes, run.memory)
    cycles = run.bytes_read / max(run.master_bytes, 1)
    scans = (cycles - 1) * model.scan_seconds()
    return (model.cycle_seconds(balance) + scans) / max(run.steps, 1)


def predicted_rate(run: Run) -> float:
    """Rows a second on this machine, from the memory limit alone."""
    model = _model(run)
    return model.in_memory(room_for_rows(run.limit)).rate


def _model(run: Run) -> ServiceModel:
    assert run.measured is not None
    data = run.workload.data
    demand = Demand(
        _popularity(data.rows, data.skew),
        run.measured.sizes,
        caches=run.algorithm == SSBJ,
    )
    results = run.results / max(run.rows, 1)
    return ServiceModel(run.measured.costs, demand, run.master_rows, run.master_bytes, results)


@dataclass(frozen=True)
class MostGain:
    """The most that a cache can gain over MESHJOIN (Theorem 1), with rows of so many bytes."""

    rows: int
    skew: float
    sizes: ServiceSizes = PAPER_SIZES

    @cache  # noqa: B019 - a handful of them, for a page with many claims.
    def in_memory(self, nbytes: float) -> float:
        """How many times as many rows a cycle serves, in the same memory."""
        cached, plain = (self._demand(caches).in_memory(nbytes) for caches in (True, False))
        return cached.rows / plain.rows

    @cache  # noqa: B019
    def memory(self, rows: float) -> float:
        """How many times as much memory MESHJOIN needs for so many rows in a cycle."""
        cached, plain = (self._demand(caches).balance(rows) for caches in (True, False))
        return plain.memory / cached.memory

    def _demand(self, caches: bool) -> Demand:
        return Demand(_popularity(self.rows, self.skew), self.sizes, caches=caches)


@cache
def _popularity(rows: int, skew: float) -> Popularity:
    """Of the paper's synthetic data."""
    return Popularity.zipf(rows, skew, rows=poisson(1.0))
