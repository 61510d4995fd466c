"""SSBJ's cost model, from costs that were measured and keys that were seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from watersmeet.local.service_costs import Measured
from watersmeet.model import JoinType
from watersmeet.operators.semistream.algorithm import Caching, SemiStreamAlgorithm
from watersmeet.policies.service import Demand, Popularity, ServiceModel
from watersmeet.rows.encoded import Codes
from watersmeet.store.shares import MemoryShares

FILLED = 0.9
"""Of the memory for rows, what is in use on average: rows that have left are there for a while."""


class Partners(NamedTuple):
    """What the master has of the keys that the stream asks for."""

    present: float
    """The part of the keys that it has."""
    rows: float
    """Its rows of a key, on average over all, those that it does not have included."""

    def results(self, how: JoinType) -> float:
        """Results of a stream row."""
        if how is JoinType.SEMI:
            return self.present
        if how is JoinType.ANTI:
            return 1.0 - self.present
        return self.rows + (1.0 - self.present if how is JoinType.LEFT else 0.0)

    def popularity(self, codes: Codes, *, distinct: int) -> Popularity:
        """How often keys come, of which these are a sample. `distinct` are in the master: of those
        that it does not have there are as many more as come."""
        _, counts = np.unique(codes, return_counts=True)
        least = 1.0 / max(len(counts), 1)
        may_come = round(distinct / max(self.present, least))
        return Popularity.observed(counts, distinct=may_come, rows=self.rows)


def room_for_rows(limit: int) -> float:
    """Bytes of waiting and cached rows under a memory limit, on average."""
    return FILLED * MemoryShares.split(limit).store


def service_model(
    algorithm: SemiStreamAlgorithm,
    measured: Measured,
    *,
    popularity: Popularity,
    results: float,
    master_rows: float,
    master_bytes: float,
) -> ServiceModel:
    """The model of a join of this algorithm, whose stream rows have so many results each."""
    demand = Demand(
        popularity,
        measured.sizes,
        # A scan in order of code has passed a row's code after half a cycle, on average.
        waits=0.5 if algorithm.skips else 1.0,
        caches=algorithm.caching is not Caching.NONE,
    )
    return ServiceModel(measured.costs, demand, master_rows, master_bytes, results)
