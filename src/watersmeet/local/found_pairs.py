"""Pairs of rows as a join finds them: copied out at once, counted when there are enough of them."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.aggregates.answer.stream_ledger import StreamLedger
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.pairs import aggregated, wanted
from watersmeet.model import Side
from watersmeet.operators.rectangle.estimating import Located, RectangleEstimate
from watersmeet.rows.address import Matches, Rows

Columns = dict[tuple[Side, str], pa.Array]


class FoundPairs:
    """Brings pairs into a ledger, at `most` so many at a time.

    A join yields few at a time where memory is small, and each time costs the same however few.
    """

    def __init__(
        self,
        question: ResolvedQuestion,
        ledger: StreamLedger,
        estimate: RectangleEstimate,
        *,
        most: int,
    ) -> None:
        self._question = question
        self._ledger = ledger
        self._estimate = estimate
        self._most = most
        self._needed = _needed(question)
        self._waiting: list[tuple[Columns, Located | None, int]] = []
        self._count = 0
        self.sampling = True
        """Whether pairs count for estimates too, and not for the answer alone."""

    def stop_sampling(self) -> None:
        """No more estimates are made: pairs that wait, or come, are for the answer alone."""
        self.sampling = False

    def add(self, matches: Matches) -> None:
        """Copy out what is needed of pairs, whose addresses hold until the join goes on."""
        left, right = matches.left, matches.right
        assert left is not None
        assert right is not None
        columns = {
            (side, name): rows.source.take(place, rows.index)
            for side, rows in zip(Side, (left, right), strict=True)
            for place, name in self._needed[side]
        }
        mask = wanted(self._question, columns, len(matches))
        if mask is not None and not mask.all():
            chosen = pa.array(mask)
            columns = {name: values.filter(chosen) for name, values in columns.items()}
            parts = (Rows(left.source, left.index[mask]), Rows(right.source, right.index[mask]))
            matches = Matches(parts, matches.stage)
        if not len(matches):
            return
        located = self._estimate.located(matches) if self.sampling else None
        self._waiting.append((columns, located, len(matches)))
        self._count += len(matches)
        if self._count >= self._most:
            self.count()

    def count(self) -> None:
        """Bring what waits into the ledger."""
        if not self._waiting:
            return
        waiting, self._waiting, count, self._count = self._waiting, [], self._count, 0
        columns = {
            name: pa.concat_arrays([some[name] for some, _, _ in waiting]) for name in waiting[0][0]
        }
        pairs = aggregated(self._question, columns, count, sketched=self.sampling)
        if self.sampling:
            found = [(located, some) for _, located, some in waiting if located is not None]
            self._ledger.observe(pairs, found)
        else:
            self._ledger.add([pairs.totals])


def _needed(question: ResolvedQuestion) -> list[list[tuple[int, str]]]:
    """The columns that pairs are looked at by, of each side: place and name. A key is not, unless
    something is computed from it or grouped by it."""
    asked = question.aggregates
    names: list[set[str]] = [set(), set()]
    for expression in (*asked.expressions, question.pairs):
        for side in Side:
            names[side] |= set() if expression is None else set(expression.columns(side))
    for group in asked.groups:
        names[group.side].add(group.column)
    return [
        [(place, name) for place, name in enumerate(schema.names) if name in names[side]]
        for side, schema in zip(Side, question.schemas, strict=True)
    ]
