"""What was seen in each group, beside the totals: is it enough to believe an interval?"""

from __future__ import annotations

from typing import Self

import numpy as np

from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.units import grown
from watersmeet.estimators.unread import Seen
from watersmeet.model import Side


class Evidence:
    """Contributing rows of each side, matched pairs, and the range of every expression.

    A side that is complete or not sampled is not counted: leave its rows out.
    """

    def __init__(self, *, expressions: int = 0) -> None:
        self.expressions = expressions
        self.groups = 0
        # Columns: left rows, right rows, pairs.
        self._counts = np.zeros((0, 3))
        self._least = np.zeros((0, expressions))
        self._most = np.zeros((0, expressions))
        self._counted = [False, False]

    def add(
        self,
        groups: Integers,
        *,
        pairs: Floats | Integers,
        left_rows: Floats | Integers | None = None,
        right_rows: Floats | Integers | None = None,
        least: Floats | None = None,
        most: Floats | None = None,
    ) -> None:
        """Add what a block or a rectangle found; `least` and `most` are [len(groups), E]."""
        if not len(groups):
            return
        self._room(int(groups.max()) + 1)
        for side, rows in zip(Side, (left_rows, right_rows), strict=True):
            if rows is not None:
                self._counted[side] = True
                np.add.at(self._counts[:, side], groups, rows)
        np.add.at(self._counts[:, 2], groups, pairs)
        if least is not None:
            np.minimum.at(self._least, groups, np.where(np.isnan(least), np.inf, least))
        if most is not None:
            np.maximum.at(self._most, groups, np.where(np.isnan(most), -np.inf, most))

    def _room(self, groups: int) -> None:
        self.groups = max(self.groups, groups)
        self._counts = grown(self._counts, groups)
        self._least = grown(self._least, groups, fill=np.inf)
        self._most = grown(self._most, groups, fill=-np.inf)

    def __iadd__(self, other: Self) -> Self:
        self._room(other.groups)
        some = slice(other.groups)
        self._counts[some] += other._counts[some]
        self._least[some] = np.minimum(self._least[some], other._least[some])
        self._most[some] = np.maximum(self._most[some], other._most[some])
        self._counted = [a or b for a, b in zip(self._counted, other._counted, strict=True)]
        return self

    def rows(self, groups: int) -> Floats:
        """k: contributing rows of the side that has fewer; of no side counted, the pairs."""
        self._room(groups)
        columns = [int(side) for side in Side if self._counted[side]] or [2]
        return np.asarray(self._counts[:groups, columns].min(axis=1))

    def pairs(self, groups: int) -> Floats:
        self._room(groups)
        return self._counts[:groups, 2].copy()

    def seen(self, expression: int | None, groups: int, *, rows: Floats) -> Seen:
        """The values of an expression, by group."""
        if expression is None:
            none = np.full(groups, np.inf)
            return Seen(rows, none, -none)
        return Seen(rows, self.least(groups)[:, expression], self.most(groups)[:, expression])

    def least(self, groups: int) -> Floats:
        """[G, E]; infinite where no value was seen."""
        self._room(groups)
        return self._least[:groups].copy()

    def most(self, groups: int) -> Floats:
        self._room(groups)
        return self._most[:groups].copy()
