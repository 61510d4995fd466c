"""How the interval of SUM(B.val) shrinks while a join runs (figure 14)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from watersmeet.estimators import Evidence, Kind, Quantity, cells
from watersmeet.operators.rectangle.estimating import RectangleEstimate
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.reproduce.prjoin.ledger import Bookkeeper, Counts
from watersmeet.reproduce.prjoin.relations import PARETO, VALUE
from watersmeet.rows.address import Matches
from watersmeet.sim.delays import Seconds

LOOKS = 60
"""About how often the estimate is computed: it adds up all partitions each time."""

CENTRE = PARETO / (PARETO - 1)
"""The mean of the values. Differences from it are summed up, so that sums lose no digits."""


@dataclass(frozen=True, eq=False)
class WidthsSeen:
    """The estimate at the end of some steps, and half its 95% interval relative to it."""

    steps: Counts
    value: Seconds
    relative: Seconds


class Widths:
    """Makes estimates while a join runs, at some of its completed rectangles."""

    def __init__(self, join: RectangleJoin, books: Bookkeeper, *, rows: tuple[int, int]) -> None:
        self._join = join
        self._books = books
        self._estimate = RectangleEstimate(join, rows=rows, moments=4)
        self._evidence = Evidence(expressions=1)
        self._covered = 0.0
        self._rows = rows
        self._seen: list[tuple[int, float, float]] = []

    def observe(self, matches: Matches) -> None:
        assert matches.right is not None
        self.look()
        values = matches.right.source.take(VALUE, matches.right.index).to_numpy()
        x, ones = values - CENTRE, np.ones(len(matches))
        groups = np.zeros(len(matches), np.int64)
        self._estimate.observe(
            self._estimate.located(matches), groups, np.stack([ones, ones, x, x * x], axis=1)
        )
        self._evidence.add(
            np.zeros(1, np.int64),
            pairs=np.array([len(matches)]),
            least=np.array([[values.min()]]),
        )

    def look(self) -> None:
        """Estimate, if the rectangles have grown enough since the last time."""
        now = self._join.rectangles
        covered = float(np.sum(now.joined) / sum(self._rows))
        grown = covered - self._covered
        if not now.seen.all() or (grown < 1 / LOOKS and not (grown > 0 and covered == 1.0)):
            return
        self._covered = covered
        totals = self._estimate.totals()
        if not totals.groups:
            return
        found = cells(totals, self._evidence, [Quantity(Kind.SUM, 0)], centres=[CENTRE])
        value, relative = float(found.value[0, 0]), float(found.relative[0, 0])
        self._seen.append((self._books.steps - 1, value, relative))

    def seen(self) -> WidthsSeen:
        steps, value, relative = zip(*self._seen, strict=True)
        return WidthsSeen(np.array(steps), np.array(value), np.array(relative))
