"""Estimates the totals of a whole join from the rectangles that it has completed.

A pair counts once its rectangle is complete. The pairs of a half-completed rectangle are no random
sample: rows that were scanned first would have a greater weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.moments import Floats, Integers
from watersmeet.estimators.partitions import PartitionedSample
from watersmeet.estimators.rows import PairSums
from watersmeet.estimators.totals import Totals
from watersmeet.operators.rectangle.algorithm import JoinsOnArrival
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.rows.address import Matches

# Pairs that wait one by one; more of them are added up.
_MOST_WAITING = 1 << 15


class Located(NamedTuple):
    """Results by what an estimate needs of them once their rows are gone."""

    partitions: NDArray[np.uint16]
    left: Integers
    right: Integers
    rectangle: int
    """How many rectangles were complete when they were found: they belong to the next one."""


class _Pairs(NamedTuple):
    partitions: NDArray[np.uint16]
    left: Integers
    right: Integers
    groups: Integers
    values: Floats


class RectangleEstimate:
    """Estimated totals of an inner join whose inputs arrive in random order.

    Call `observe` with every `Matches` that the join yields, and `totals` at any time: they are
    estimated from the rectangles that are complete, and exact after `finish`. `rows` are the sizes
    of the inputs, with null keys; if one is unknown, only ratios (AVG, STDDEV) can be used.

    Every partition is a sample of its own depth (PR-Join 4.3). While rows arrive, the size of a
    partition is unknown, and its depth is that of the inputs when it was last joined. After both
    have ended, sizes are known and partitions are strata. The time at which a partition is joined
    must not depend on its own rows, and the keys that are in it must not depend on any rows; so
    this needs `Invocation(together=True)` and `Tuning(remaps=False)`.
    """

    def __init__(
        self,
        join: RectangleJoin,
        *,
        rows: tuple[int | None, int | None],
        moments: int,
        most: int | None = None,
    ) -> None:
        """`most` bounds the sums of rows that are kept, of each side and partition."""
        _check(join)
        self._join = join
        self._sample = PartitionedSample(
            partitions=join.workspace.partitions, rows=rows, moments=moments, most=most
        )
        self._waiting: list[_Pairs] = []
        self._pairs_waiting = 0
        # Of rectangles with many pairs, those that have been added up and wait with the others.
        self._unfinished: dict[int, PairSums] = {}
        self._completed = 0

    def know_rows(self, rows: tuple[int | None, int | None]) -> None:
        """How large the inputs are, as far as that is known by now."""
        self._sample.rows = rows

    def located(self, matches: Matches) -> Located:
        """To be asked before the join goes on: what `observe` is told later, in this order."""
        left, right = self._join.numbers(matches)
        completed = self._join.workspace.progress.completed
        return Located(self._join.partitions(matches), left, right, completed)

    def observe(self, found: Located, groups: Integers, values: Floats) -> None:
        """Take new results: the group of each, and the moments that it adds, as [results, J]."""
        self._count_completed(found.rectangle)
        pairs = _Pairs(found.partitions, found.left, found.right, groups, values)
        self._waiting.append(pairs)
        self._pairs_waiting += len(groups)
        if self._pairs_waiting > _MOST_WAITING:
            for p, some in self._by_partition():
                if p not in self._unfinished:
                    self._unfinished[p] = self._sample.no_pairs()
                self._unfinished[p].observe(some.left, some.right, some.groups, some.values)

    def totals(self) -> Totals:
        self._count_completed(self._join.workspace.progress.completed)
        now, whole = self._join.rectangles, all(self._join.workspace.ended)
        met: NDArray[np.bool_] = np.all(now.seen, axis=0)
        if whole:  # a partition without rows counts as joined
            met = met | np.all(now.joined == now.arrived, axis=0)
        depths = zip(
            now.seen.T.tolist(), now.joined.T.tolist(), now.arrived.T.tolist(), strict=True
        )
        for p, (seen, joined, arrived) in enumerate(depths):
            if met[p]:
                own = ((joined[0], arrived[0]), (joined[1], arrived[1])) if whole else None
                self._sample.joined(p, read=(seen[0], seen[1]), own=own)
        return self._sample.totals()

    def _count_completed(self, completed: int) -> None:
        """Count the pairs that wait, if the rectangle to which they belong is complete by then."""
        if completed == self._completed:
            return
        self._completed = completed
        for p, sums in self._unfinished.items():
            self._sample.add(p, sums)
        self._unfinished.clear()
        for p, pairs in self._by_partition():
            self._sample.observe(
                p,
                pairs.left,
                right_numbers=pairs.right,
                groups=pairs.groups,
                values=pairs.values,
            )

    def _by_partition(self) -> Iterator[tuple[int, _Pairs]]:
        """What waits, which then waits no longer."""
        if not self._waiting:
            return
        pairs = _Pairs(*map(np.concatenate, zip(*self._waiting, strict=True)))
        self._waiting.clear()
        self._pairs_waiting = 0
        order = np.argsort(pairs.partitions, kind="stable")
        named, starts = np.unique(pairs.partitions[order], return_index=True)
        for p, chosen in zip(named.tolist(), np.split(order, starts[1:]), strict=True):
            yield (
                p,
                _Pairs(
                    pairs.partitions[chosen],
                    pairs.left[chosen],
                    pairs.right[chosen],
                    pairs.groups[chosen],
                    pairs.values[chosen],
                ),
            )


def _check(join: RectangleJoin) -> None:
    algorithm = join.workspace.algorithm
    if algorithm.meets is JoinsOnArrival.ALL:
        raise InvalidArgument(
            f"{algorithm.name} completes many small rectangles side by side, and estimates are "
            "made from rectangles that begin with the first row.",
            remedy="Use pr-join, ripple, hash-ripple or grace.",
        )
    tuning = join.workspace.tuning
    if algorithm.invoke is not None and not tuning.invocation.together:
        raise InvalidArgument(
            "A partition that is joined as soon as enough of its own rows have come is joined "
            "when it looks larger than it is, and its estimate is too high.",
            remedy="Give Invocation(together=True) to a join that is estimated from.",
        )
    if algorithm.invoke is not None and tuning.remaps:
        raise InvalidArgument(
            "Partitions that are evened out by the rows in memory depend on those rows, which "
            "are then no random sample of their partition.",
            remedy="Give Tuning(remaps=False) to a join that is estimated from.",
        )
