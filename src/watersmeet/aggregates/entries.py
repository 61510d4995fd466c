"""One side of a join reduced to what the other side's rows need of it.

An aggregate never sees joined rows. Of all rows of a key, a row of the other side needs their
number, and the sums of their factors: `sum(price * rate)` over the partners of one price is that
price times the sum of their rates. So rows of one key and group become one entry. Only where an
expression or a condition looks at both rows at once does each row stay an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.aggregates.groups import Groups
from watersmeet.aggregates.numbers import ArithmeticFailed, Bounds, Mask, Numbers
from watersmeet.aggregates.question import ResolvedQuestion
from watersmeet.aggregates.sums import Sums, extremes_of
from watersmeet.kernels import lookup
from watersmeet.model import Side
from watersmeet.rows.address import Rows
from watersmeet.rows.batch import BatchRows

Positions = NDArray[np.int64]
Hashes = NDArray[np.uint64]

# Pairs that are looked at together; a row may have a million partners.
_PAIRS_AT_ONCE = 1 << 18
_FEWEST_SLOTS = 1024
ENTRY_BYTES = 8 + 2 * 4 + 8
"""Of a key: its hash, its slots (twice as many as keys, and up to twice that), its number."""


@dataclass(frozen=True)
class Factor:
    """Sums of a factor over the rows of each entry: how many are not null, value, and, where an
    entry has several rows, squares of the distances from their mean.

    `bounds` are those of the values themselves; `extremes`, for whole numbers, the least and the
    most of each entry.
    """

    counts: NDArray[np.int64] | None
    sums: Numbers
    squares: NDArray[np.float64] | None
    bounds: Bounds
    extremes: tuple[Numbers, Numbers] | None

    def squares_of(
        self, found: Positions, mine: Numbers | None, *, centres: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sums, over the rows of each entry, of (mine * value - centre) squared.

        Each pair has a centre, the mean of its group: about zero, or about the mean of all, the
        spread of values that lie far from there would be lost in rounding.
        """
        means, times = self.sums.floats()[found], 1.0 if mine is None else mine.floats()
        counts = 1 if self.counts is None else self.counts[found]
        with np.errstate(all="ignore"):
            if self.squares is None:
                return np.asarray((times * means - centres) ** 2 * counts)
            means = means / np.maximum(counts, 1)
            squares = times**2 * self.squares[found]
            return np.asarray(squares + (times * means - centres) ** 2 * counts)


@dataclass(frozen=True)
class Entries:
    """Entries of distinct keys, found by hash.

    Those of hash number c are starts[c] to starts[c + 1], or c alone if `starts` is None.
    `weights` is how many rows each stands for, None if one. `rows` has a row for each entry, and
    is None where hashes decide whether keys are equal and no pair must be seen.
    """

    slots: NDArray[np.int32]
    distinct: Hashes
    starts: Positions | None
    weights: NDArray[np.int64] | None
    groups: Groups
    factors: tuple[Factor | None, ...]
    rows: pa.RecordBatch | None

    def __len__(self) -> int:
        return len(self.distinct) if self.starts is None else int(self.starts[-1])

    @cached_property
    def partners(self) -> int:
        """The most rows that one key has here."""
        counts = self.weights
        if counts is not None and self.starts is not None and len(counts):
            counts = np.add.reduceat(counts, self.starts[:-1])
        elif self.starts is not None:
            counts = np.diff(self.starts)
        return 1 if counts is None else int(counts.max(initial=1))

    @property
    def nbytes(self) -> int:
        held = self.slots.nbytes + self.distinct.nbytes
        held += 0 if self.rows is None else self.rows.nbytes
        for factor in self.factors:
            if factor is not None:
                held += factor.sums.values.nbytes
        return held

    def meet(self, hashes: Hashes) -> Iterator[tuple[Positions | None, Positions]]:
        """Rows with an entry of equal hash, and the entry of each, some at a time.

        None instead of rows says that they are all the rows, in order.
        """
        numbers = np.empty(len(hashes), np.int64)
        lookup.find(hashes, self.slots, self.distinct, numbers)
        rows = np.flatnonzero(numbers >= 0)
        if len(rows) < len(hashes):
            numbers = numbers[rows]
        if self.starts is None:
            if len(rows):
                yield (None if len(rows) == len(hashes) else rows), numbers
            return
        counts = self.starts[numbers + 1] - self.starts[numbers]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            done = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, "right")), start + 1)
            yield from self._pairs(rows[start:stop], numbers[start:stop], counts[start:stop])
            start = stop

    def _pairs(
        self, rows: Positions, numbers: Positions, counts: Positions
    ) -> Iterator[tuple[Positions, Positions]]:
        """Each row with all the entries of its hash; one hot key may need several portions."""
        assert self.starts is not None
        total = int(counts.sum())
        first = np.repeat(self.starts[numbers] - np.cumsum(counts) + counts, counts)
        for start in range(0, total, _PAIRS_AT_ONCE):
            stop = min(start + _PAIRS_AT_ONCE, total)
            if start == 0 and stop == total:
                yield np.repeat(rows, counts), first + np.arange(total)
            else:
                owner = np.searchsorted(np.cumsum(counts), np.arange(start, stop), "right")
                yield rows[owner], first[start:stop] + np.arange(start, stop)


def make_entries(
    batches: Iterable[pa.RecordBatch], question: ResolvedQuestion, *, sampled: Side
) -> Entries:
    """Entries of the side that is not sampled."""
    side = sampled.other
    join = question.join
    batch = one_batch(batches, question.schemas[side])
    batch = kept(batch, question, side)
    encoded = join.encode(side, batch)
    hashes, rows = encoded.hashes, encoded.rows
    if encoded.valid is not None and not encoded.valid.all():
        hashes = hashes[encoded.valid]
        rows = rows.filter(pa.array(encoded.valid))
    slots = np.full(_slots(len(hashes)), -1, np.int32)
    distinct = np.empty(len(hashes), np.uint64)
    numbers = np.empty(len(hashes), np.int64)
    count = lookup.number(hashes, slots, distinct, numbers, 0)
    columns = [rows.column(name) for _, name in question.groups(side, sampled=sampled)]
    groups = Groups.of(columns)
    alone = question.needs_pairs
    try:
        values = factor_values(rows, question, side)
    except ArithmeticFailed:
        # Perhaps for rows that nobody meets. Looking at pairs shows whether it matters.
        values, alone = [None] * len(question.factors), True
    seen = alone or not join.hashes_decide
    if count == len(hashes):
        factors = tuple(None if value is None else _alone(value) for value in values)
        return Entries(slots, distinct, None, None, groups, factors, rows if seen else None)
    distinct = distinct[:count].copy()
    members = None if alone else _merge(numbers, groups, rows, question, side)
    if members is None:
        order = np.argsort(numbers, kind="stable")
        starts: Positions | None = np.searchsorted(numbers[order], np.arange(count + 1))
        groups = _ordered(groups, order)
        factors = tuple(None if value is None else _alone(value.taken(order)) for value in values)
        ordered = rows.take(pa.array(order)) if seen else None
        return Entries(slots, distinct, starts, None, groups, factors, ordered)
    codes, firsts = members
    weights = np.bincount(codes, minlength=len(firsts))
    owners = numbers[firsts]
    starts = None
    if len(firsts) > count:
        starts = np.searchsorted(owners, np.arange(count + 1))
    return Entries(
        slots=slots,
        distinct=distinct,
        starts=starts,
        weights=weights,
        groups=_ordered(groups, firsts),
        factors=tuple(
            None if value is None else _together(value, codes, len(firsts)) for value in values
        ),
        rows=rows.take(pa.array(firsts)) if seen else None,
    )


def _merge(
    numbers: Positions, groups: Groups, rows: pa.RecordBatch, question: ResolvedQuestion, side: Side
) -> tuple[Positions, Positions] | None:
    """The entry of each row and a first row of each entry, by hash number; None to merge none.

    Rows of one hash may have different keys, which is too rare to be worth more than a check.
    """
    both = numbers if groups.codes is None else numbers * groups.count + groups.codes
    _, firsts, codes = np.unique(both, return_index=True, return_inverse=True)
    source = BatchRows(rows)
    first = Rows(source, firsts[codes].astype(np.int64))
    if not question.join.same_keys(side, first, Rows(source, np.arange(len(rows)))):
        return None
    return codes.astype(np.int64), firsts.astype(np.int64)


def factor_values(
    rows: pa.RecordBatch, question: ResolvedQuestion, side: Side, *, active: Mask | None = None
) -> list[Numbers | None]:
    """What one side gives to each expression; where `active` is false it cannot fail."""
    columns = columns_of(rows, question, side)
    values: list[Numbers | None] = []
    for factors in question.factors:
        factor = None if factors is None else factors[side]
        value = None if factor is None else factor.evaluate(columns, len(rows), active=active)
        values.append(value)
    return values


def mean_of(values: NDArray[np.float64], counts: NDArray[np.int64] | None = None) -> float | None:
    """A number near the mean of values, or of sums of so many values; None of none."""
    finite = np.isfinite(values)
    if not finite.all():
        values, counts = values[finite], None if counts is None else counts[finite]
        if not len(values):
            return 0.0
    number = len(values) if counts is None else int(counts.sum())
    return float(values.sum() / number) if number else None


def columns_of(
    rows: pa.RecordBatch, question: ResolvedQuestion, side: Side
) -> dict[tuple[Side, str], pa.Array]:
    names = question.schemas[side].names
    return {(side, name): rows.column(place) for place, name in enumerate(names)}


def kept(batch: pa.RecordBatch, question: ResolvedQuestion, side: Side) -> pa.RecordBatch:
    """Without the rows that the condition on their side drops."""
    condition = question.sides[side]
    if condition is None or not len(batch):
        return batch
    mask = holds(condition.evaluate(columns_of(batch, question, side), len(batch)))
    return batch if mask.all() else batch.filter(pa.array(mask))


def holds(truth: Numbers) -> NDArray[np.bool_]:
    mask = np.asarray(truth.values != 0)
    return mask if truth.valid is None else np.asarray(mask & truth.valid)


def one_batch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    found = [batch for batch in batches if len(batch)]
    if len(found) == 1:
        return found[0]
    return pa.concat_batches([pa.RecordBatch.from_pylist([], schema=schema), *found])


def _alone(value: Numbers) -> Factor:
    counts = None if value.valid is None else value.valid.astype(np.int64)
    sums = Numbers(value.values, None, value.scale, value.bounds)
    return Factor(counts, sums, None, value.bounds, (sums, sums))


def _together(value: Numbers, codes: Positions, entries: int) -> Factor:
    sums = Sums.of(value, codes, groups=entries, spread=True)
    total = sums.total if sums.error is None else Numbers(sums.floats(), None)
    # Decimals are as wide as any product of theirs.
    whole = value.exact and not value.scale
    extremes = extremes_of(value, codes, groups=entries) if whole else None
    return Factor(sums.count, total, sums.squares, value.bounds, extremes)


def _ordered(groups: Groups, order: Positions) -> Groups:
    if groups.codes is None:
        return groups
    return Groups(groups.codes[order], groups.values, groups.count)


def _slots(rows: int) -> int:
    size = _FEWEST_SLOTS
    while size < 2 * rows:
        size *= 2
    return size


def entry_bytes(question: ResolvedQuestion, side: Side) -> int:
    """About what a row of this side takes as an entry, if every row has a key of its own."""
    held = ENTRY_BYTES + 2 * 4
    for kind in question.join.stored(side).types:
        try:
            held += max(kind.bit_width // 8, 1)
        except ValueError:
            held += 24
    return held + 16 * sum(
        factors is not None and factors[side] is not None for factors in question.factors
    )
