"""How likely the next arrival is to fall into each partition of each side (RPJ 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side


class ArrivalRates:
    """p_i[j] = P(R_i) * P(j | R_i), Equation 6.

    P(j | R_i) comes from all rows ever received, since their distribution becomes stable. P(R_i)
    comes from recent arrivals only, since networks change: nrcnt_i decays by `decay` (the paper's
    lambda) each time unit. A side that has ended has probability 0.
    """

    def __init__(self, partitions: int, *, decay: float, time_unit: float) -> None:
        self.totals = np.zeros((2, partitions), np.int64)
        self.ended = [False, False]
        self._decay = decay
        self._unit = time_unit
        self._recent: NDArray[np.float64] | None = None
        self._counting = np.zeros(2)
        self._opened: float | None = None

    def arrived(self, side: Side, counts: NDArray[np.int64], now: float) -> None:
        self.totals[side] += counts
        if self._opened is None:
            self._opened = now
        units = int((now - self._opened) / self._unit)
        if units > 0:
            if self._recent is None:
                self._recent = self._counting
            else:
                self._recent = self._decay * self._recent + (1 - self._decay) * self._counting
            self._recent = self._recent * self._decay ** (units - 1)  # units without arrivals
            self._counting = np.zeros(2)
            self._opened += units * self._unit
        self._counting[side] += counts.sum()

    def sides(self) -> NDArray[np.float64]:
        """The probability that the next row is of side i: P(R_i)."""
        recent = self._counting if self._recent is None else self._recent
        live = np.where(self.ended, 0.0, recent)
        if not live.any():  # nothing recent: fall back on all that ever came
            live = np.where(self.ended, 0.0, self.totals.sum(axis=1))
        total = live.sum()
        return np.asarray(live / total if total else live)

    def probabilities(self) -> NDArray[np.float64]:
        """p_i[j] for every side and partition."""
        received = np.maximum(self.totals.sum(axis=1, keepdims=True), 1)
        return np.asarray(self.totals / received * self.sides()[:, None])

    def save(self) -> dict[str, Any]:
        return {
            "totals": self.totals.tolist(),
            "ended": list(self.ended),
            "recent": None if self._recent is None else self._recent.tolist(),
            "counting": self._counting.tolist(),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from saved counts. A new time unit begins: the clock may be another machine's."""
        self.totals[:] = saved["totals"]
        self.ended = list(saved["ended"])
        self._recent = None if saved["recent"] is None else np.array(saved["recent"])
        self._counting = np.array(saved["counting"])
