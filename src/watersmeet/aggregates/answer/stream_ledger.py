"""Adds up pairs of rows as a rectangle join finds them, and says at any moment what is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from watersmeet.aggregates.answer.ledger import Ledger
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.pairs import Pairs
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.estimators import Totals
from watersmeet.operators.rectangle.estimating import Located, RectangleEstimate

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class StreamLedger(Ledger):
    """Rows of both inputs in the order in which they come, pair by pair.

    Values are estimated about the centre of the first pairs, so `estimate` sees moments about one
    number throughout.
    """

    def __init__(self, question: ResolvedQuestion, estimate: RectangleEstimate) -> None:
        super().__init__(question)
        self._estimate = estimate

    def observe(self, pairs: Pairs, found: Sequence[tuple[Located, int]]) -> None:
        """Pairs that count for the answer and, once their rectangle is complete, as a sample.

        `found` says where they are, and how many are there, one stretch after the other.
        """
        (part,) = self._taken_in([pairs.totals])
        self._check_room()
        (codes,) = self._codes([part])
        self._notice(pairs.totals, part, codes, {})
        groups, moments = codes[pairs.groups], self._moments_of(pairs)
        start = 0
        for located, count in found:
            stop = start + count
            self._estimate.observe(located, groups[start:stop], moments[start:stop])
            start = stop

    def add(self, blocks: Iterable[BlockTotals], *, sampled: bool = True) -> None:
        """Pairs that count for the answer alone."""
        blocks = list(blocks)
        if blocks:
            self._taken_in(blocks)

    def totals(self) -> Totals:
        return self._estimate.totals()

    def _moments_of(self, pairs: Pairs) -> Floats:
        """Of each pair by itself, in the order of `Ledger._moments`."""
        moments = np.zeros((len(pairs.groups), self._question.moments))
        moments[:, 0] = 1
        spreads = self._question.spreads
        for number, (value, centre) in enumerate(zip(pairs.values, self.centres, strict=True)):
            known = np.ones(len(moments), np.bool_) if value.valid is None else value.valid
            away = np.where(known, value.floats() - centre, 0.0)
            start = 1 + 3 * number
            moments[:, start] = known
            moments[:, start + 1] = away
            if spreads[number]:
                moments[:, start + 2] = away**2
        return moments
