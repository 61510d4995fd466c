"""How many of the rows that are compared along an edge are partners (MINER 4.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

# What an edge is taken to find for each row as long as nothing is known.
_UNKNOWN = 1.0


class Selectivity:
    """For each edge, pairs of rows that were compared and pairs that were partners (LocalJoins).

    Partners count whether or not they became part of a result. MINER begins to count anew with
    every flush; here older pairs count half as much after each, so that the order of probing does
    not depend on the first few rows after a flush.
    """

    def __init__(self, edges: int) -> None:
        self._compared = np.zeros(edges)
        self._partners = np.zeros(edges)

    def met(self, edge: int, *, compared: int, partners: int) -> None:
        self._compared[edge] += compared
        self._partners[edge] += partners

    def flushed(self) -> None:
        self._compared /= 2
        self._partners /= 2

    def fan_out(self, edge: int, rows: int) -> float:
        """The expected partners of a row among so many rows."""
        if not self._compared[edge]:
            return _UNKNOWN
        return float(self._partners[edge] / self._compared[edge] * rows)

    def save(self) -> dict[str, Any]:
        return {"compared": self._compared.tolist(), "partners": self._partners.tolist()}

    def load(self, saved: dict[str, Any]) -> None:
        self._compared = np.array(saved["compared"], np.float64)
        self._partners = np.array(saved["partners"], np.float64)
