"""From pairs of equal code to result rows: exact keys, the condition, and the join type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import JoinType, Side
from watersmeet.operators.limiter import OutputLimiter
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches, Rows, RowSource
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.index import PairBuffer
from watersmeet.store.marks import Marks

Stamps = NDArray[np.int64]

_T = TypeVar("_T")
_U = TypeVar("_U")


def in_order(side: Side, mine: _T, others: _U) -> tuple[_T | _U, _T | _U]:
    """Left before right, when `mine` is of `side`."""
    return (mine, others) if side is Side.LEFT else (others, mine)


class ResultEmitter:
    """Turns candidate pairs into matches and remembers which rows have found a partner.

    Marks are kept only for the sides whose rows are results by having, or not having, a partner.
    """

    def __init__(
        self, schema: JoinSchema, metrics: Metrics, pairs: PairBuffer, *, most_bytes: int
    ) -> None:
        """`pairs` is asked how many rows a chunk may have; its long values fit in `most_bytes`."""
        self.limiter = OutputLimiter(schema, most_bytes)
        self.marks = Marks()
        self._schema = schema
        self._metrics = metrics
        self._pairs = pairs
        self.marked = tuple(
            schema.how.keeps_unmatched(side) or (schema.how is JoinType.SEMI and side is Side.LEFT)
            for side in Side
        )

    def pairs(
        self, sources: tuple[RowSource, RowSource], index: tuple[Index, Index],
        stamps: tuple[Stamps, Stamps], stage: Stage,
    ) -> Iterator[Matches]:  # fmt: skip
        """Matches among candidate pairs. `stamps` are arrival stamps of whole sources."""
        left, right = Rows(sources[0], index[0]), Rows(sources[1], index[1])
        self._metrics.candidates += len(left)
        mask = self._schema.verify(left, right)
        if mask is not None and not mask.all():
            left = Rows(sources[0], index[0][mask])
            right = Rows(sources[1], index[1][mask])
        if not len(left):
            return
        how = self._schema.how
        if how is JoinType.SEMI:
            fresh = self.marks.mark_new(stamps[0][left.index])
            if fresh.any():
                first = Rows(left.source, left.index[fresh])
                yield from self._emitted(Matches((first, None), stage))
            return
        for side, rows in zip(Side, (left, right), strict=True):
            if self.marked[side]:
                self.marks.mark(stamps[side][rows.index])
        if how.emits_pairs:
            yield from self._emitted(Matches((left, right), stage))

    def alone(self, side: Side, source: RowSource, index: Index) -> Iterator[Matches]:
        """Rows that have no partner and never will."""
        if not self._schema.how.keeps_unmatched(side):
            return
        size = len(self._pairs)
        for start in range(0, len(index), size):
            rows = Rows(source, index[start : start + size])
            yield from self._emitted(Matches(in_order(side, rows, None), Stage.UNMATCHED))

    def unmatched(
        self, side: Side, source: RowSource, index: Index, stamps: Stamps
    ) -> Iterator[Matches]:
        """Those of the rows at `index` that found no partner, now that no more can come."""
        if self._schema.how.keeps_unmatched(side):
            yield from self.alone(side, source, index[self.marks.unmarked(stamps[index])])

    def decides(self, side: Side) -> bool:
        """Whether rows of a side are decided by their first partner: the left rows of semi and
        anti joins."""
        return side is Side.LEFT and not self._schema.how.emits_pairs

    def undecided(self, side: Side, stamps: Stamps) -> NDArray[np.bool_] | None:
        """Which rows are still worth keeping; None for all."""
        if self.decides(side):
            return self.marks.unmarked(stamps)
        return None

    def _emitted(self, matches: Matches) -> Iterable[Matches]:
        """Count results; they come in as many chunks as memory asks for."""
        self._metrics.results[matches.stage] += len(matches)
        return self.limiter.split(matches)
