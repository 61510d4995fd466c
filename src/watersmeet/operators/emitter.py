"""Makes results of candidate pairs: verifies keys and condition, and applies the join type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
Notice = Callable[[tuple[Index, Index]], None]

_T = TypeVar("_T")
_U = TypeVar("_U")


def in_order(side: Side, mine: _T, others: _U) -> tuple[_T | _U, _T | _U]:
    """(left, right), where `mine` belongs to `side` and `others` to the other side."""
    return (mine, others) if side is Side.LEFT else (others, mine)


class ResultEmitter:
    """Turns candidate pairs into matches, and marks rows that have found a partner.

    Rows of a side are marked only if the join type reports rows for having a partner or for having
    none.
    """

    def __init__(
        self, schema: JoinSchema, metrics: Metrics, pairs: PairBuffer, *, most_bytes: int
    ) -> None:
        """`pairs` limits the rows of a chunk, and `most_bytes` their values of variable width."""
        self.limiter = OutputLimiter(schema, metrics, most_bytes=most_bytes)
        self.marks = Marks()
        self._schema = schema
        self._metrics = metrics
        self._pairs = pairs
        self.marked = tuple(
            schema.how.keeps_unmatched(side) or (schema.how is JoinType.SEMI and side is Side.LEFT)
            for side in Side
        )
        self.one_partner: tuple[Side, ...] = ()
        """Sides whose rows have one partner at most."""

    def expect_one_partner(self, sides: Sequence[Side]) -> None:
        """Rows of these sides have at most one partner, since keys of the other side are unique."""
        self.one_partner = tuple(sides)
        self.marked = tuple(self.marked[side] or side in sides for side in Side)

    def pairs(
        self, sources: tuple[RowSource, RowSource], index: tuple[Index, Index],
        stamps: tuple[Stamps, Stamps], stage: Stage, *, notice: Notice | None = None,
    ) -> Iterator[Matches]:  # fmt: skip
        """What the join type makes of the partners among candidate pairs; `notice` is told of them
        before. `stamps` are arrival stamps of whole sources."""
        left, right = Rows(sources[0], index[0]), Rows(sources[1], index[1])
        self._metrics.candidates += len(left)
        mask = self._schema.verify(left, right)
        if mask is not None and not mask.all():
            left, right = Rows(left.source, left.index[mask]), Rows(right.source, right.index[mask])
        if notice is not None:
            notice((left.index, right.index))
        if not len(left):
            return
        how = self._schema.how
        if how is JoinType.SEMI:
            if self.marked[Side.RIGHT]:
                self.marks.mark(stamps[1][right.index])
            fresh = self.marks.mark_new(stamps[0][left.index])
            if fresh.any():
                first = Rows(left.source, left.index[fresh])
                yield from self.limiter.passed(Matches((first, None), stage))
            return
        for side, rows in zip(Side, (left, right), strict=True):
            if self.marked[side]:
                self.marks.mark(stamps[side][rows.index])
        if how.emits_pairs:
            yield from self.limiter.passed(Matches((left, right), stage))

    def combinations(self, rows: Sequence[Rows], stage: Stage) -> Iterator[Matches]:
        """Results of one row of every input, for which all predicates hold."""
        condition = self._schema.condition
        if condition is not None and len(rows[0]):
            mask = condition.holds(list(rows))
            rows = [Rows(each.source, each.index[mask]) for each in rows]
        if len(rows[0]):
            yield from self.limiter.passed(Matches(tuple(rows), stage))

    def alone(self, side: Side, source: RowSource, index: Index) -> Iterator[Matches]:
        """Report rows that have no partner and will find none, if the join type keeps them."""
        if not self._schema.how.keeps_unmatched(side):
            return
        size = len(self._pairs)
        for start in range(0, len(index), size):
            rows = Rows(source, index[start : start + size])
            yield from self.limiter.passed(Matches(in_order(side, rows, None), Stage.UNMATCHED))

    def unmatched(
        self, side: Side, source: RowSource, index: Index, stamps: Stamps
    ) -> Iterator[Matches]:
        """Report those of the rows at `index` that have found no partner, when none can come."""
        if self._schema.how.keeps_unmatched(side):
            yield from self.alone(side, source, index[self.marks.unmarked(stamps[index])])

    def decides(self, side: Side) -> bool:
        """Whether a row need not be kept when it has found its first partner: so it is with the
        left rows of semi and anti joins, and with rows that have one partner at most."""
        if side in self.one_partner:
            return True
        return side is Side.LEFT and not self._schema.how.emits_pairs

    def undecided(self, side: Side, stamps: Stamps) -> NDArray[np.bool_] | None:
        """Which rows must be kept, because their first partner has not come; None for all."""
        if self.decides(side):
            return self.marks.unmarked(stamps)
        return None
