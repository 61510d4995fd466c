"""What a block of rows adds to each group, once it has met the entries of the other side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.key_sums import (
    Factor,
    KeySums,
    columns_of,
    factor_values,
    holds,
    kept,
)
from watersmeet.aggregates.partials.keys import DenseIndex, RowKeys
from watersmeet.aggregates.partials.sums import Sums
from watersmeet.aggregates.partials.totals import (
    BlockTotals,
    GroupTotals,
    together,
)
from watersmeet.aggregates.partials.value_stats import ValueStats, with_ends
from watersmeet.expressions.arithmetic import limits_of, within
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.numbers import (
    ArithmeticFailed,
    Numbers,
    both,
    exactly,
    inside,
    products,
)
from watersmeet.model import JoinType, Side
from watersmeet.rows.address import Rows
from watersmeet.rows.batch import BatchRows

Positions = NDArray[np.int64]
Longs = NDArray[np.int64]

# Groups that are possible for each pair; with more, those that are here are found by sorting.
_SPARSE = 4
_NO_ROWS = pa.RecordBatch.from_arrays([], names=[])
# Of a batch, so much fewer rows are taken out before anything is computed of them.
_FEW_OF = 3


class BlockAggregator:
    """A side's rows meet the other side's entries; only sums come of it."""

    def __init__(self, question: ResolvedQuestion, *, sampled: Side) -> None:
        self.question = question
        self.sampled = sampled
        mine = question.groups(sampled, sampled=sampled)
        theirs = question.groups(sampled.other, sampled=sampled)
        self.mine = [name for _, name in mine]
        # Where each group column of the question is among those of both sides.
        self.places = np.argsort([place for place, _ in (*mine, *theirs)]).tolist()

    def totals(
        self,
        batches: Iterable[pa.RecordBatch],
        entries: Sequence[KeySums] | Callable[[pa.RecordBatch], Sequence[KeySums]],
        *,
        block: int,
        rows: int,
        sketched: bool = False,
    ) -> BlockTotals:
        """Totals of a block of `rows` rows with all the entries that it can meet, or that each
        batch of it can meet."""
        notes = [ValueStats(sketched=sketched) for _ in self.question.aggregates.expressions]
        parts: list[GroupTotals] = []
        met = there = 1
        for batch in batches:
            batch = kept(batch, self.question, self.sampled)
            if len(batch):
                passing = _Batch(self, RowKeys.of(self.question.join, self.sampled, batch), notes)
                others = entries(batch) if callable(entries) else entries
                parts += passing.met(others)
                met = max(met, passing.partners)
                if sketched and callable(entries):
                    there = max(there, max((each.partners for each in others), default=1))
        traits = tuple(note.traits() for note in notes)
        if sketched and not callable(entries):
            there = max((each.partners for each in entries), default=1)
        return BlockTotals(block, rows, together(parts, self.question), traits, (met, there))

    def added_up(
        self,
        factors: Sequence[Numbers | None] | None,
        groups: Groups,
        found: Positions,
        *,
        block: int,
        rows: int,
    ) -> BlockTotals:
        """Totals of pairs whose factors are known, and the group of each, which is the other
        side's; None of no pair. They are of several blocks, with so many rows."""
        notes = [ValueStats(sketched=False) for _ in self.question.aggregates.expressions]
        parts = []
        if factors is not None:
            none = RowKeys(_NO_ROWS, np.empty(0, np.uint64), None, plain=True)
            nobody = tuple(None for _ in self.question.factors)
            index = DenseIndex(np.uint64(0), np.empty(0, np.int32), groups.count)
            entries = KeySums(index, None, None, groups, nobody, None)
            parts = [_Batch(self, none, notes)._part(_Pairs(None, entries, found), factors)]
        traits = tuple(note.traits() for note in notes)
        return BlockTotals(block, rows, together(parts, self.question), traits)


class _Batch:
    """One batch on its way past the entries."""

    def __init__(
        self, meeting: BlockAggregator, keys: RowKeys, notes: Sequence[ValueStats]
    ) -> None:
        self._meeting = meeting
        self._question = meeting.question
        self._side = meeting.sampled
        self._keys = keys
        self._rows = self._keys.rows
        self._valid = self._keys.valid
        self._groups = Groups.of([self._rows.column(name) for name in meeting.mine])
        self._all_factors: list[Numbers | None] | None = None
        self._notes = notes
        self.partners = 1
        """The most that a row has been met with so far."""

    def met(self, entries: Sequence[KeySums]) -> Iterator[GroupTotals]:
        """Totals with each of the entries, and of rows that are in the result without any."""
        how = self._question.how
        partnered = np.zeros(len(self._rows), np.bool_)
        for each in entries:
            for rows, found in self._pairs(each):
                if how is not JoinType.INNER:
                    partnered[slice(None) if rows is None else rows] = True
                if how.emits_pairs:
                    factors = self._factors(rows, entries)
                    yield self._part(_Pairs(rows, each, found), factors)
        if how is not JoinType.INNER:
            alone = np.flatnonzero(partnered if how is JoinType.SEMI else ~partnered)
            if len(alone):
                factors = self._factors(alone, entries)
                yield self._part(_Pairs(alone, None, alone), factors)

    def _factors(self, rows: Positions | None, entries: Sequence[KeySums]) -> list[Numbers | None]:
        """What these rows give to each expression; of few rows nothing else is computed."""
        question, side = self._question, self._side
        if self._all_factors is None:
            if rows is not None and _FEW_OF * len(rows) < len(self._rows):
                return factor_values(self._rows, question, side, only=rows)
            try:
                self._all_factors = factor_values(self._rows, question, side)
            except ArithmeticFailed:
                # SQL computes it for joined rows only, so the others cannot make it fail.
                active = self._joined(entries)
                self._all_factors = factor_values(self._rows, question, side, active=active)
        if rows is None:
            return self._all_factors
        return [None if each is None else each.taken(rows) for each in self._all_factors]

    def _joined(self, entries: Sequence[KeySums]) -> NDArray[np.bool_]:
        """The rows that are in the result."""
        how = self._question.how
        partnered = np.zeros(len(self._rows), np.bool_)
        for each in entries:
            for rows, _ in self._pairs(each):
                partnered[slice(None) if rows is None else rows] = True
        if how in (JoinType.INNER, JoinType.SEMI):
            return partnered
        return ~partnered if how is JoinType.ANTI else np.ones_like(partnered)

    def _pairs(self, entries: KeySums) -> Iterator[tuple[Positions | None, Positions]]:
        """Rows and entries that truly belong together."""
        for rows, found in entries.meet(self._keys):
            for mask in (
                self._valid if rows is None or self._valid is None else self._valid[rows],
                self._equal,
                self._wanted,
            ):
                if callable(mask):
                    mask = mask(rows, entries, found)
                if mask is not None and not mask.all():
                    rows = np.flatnonzero(mask) if rows is None else rows[mask]
                    found = found[mask]
            if len(found):
                yield rows, found

    def _equal(
        self, rows: Positions | None, entries: KeySums, found: Positions
    ) -> NDArray[np.bool_] | None:
        """Which pairs of equal hash have equal keys."""
        if entries.rows is None or not len(found):
            return None
        index = np.arange(len(found)) if rows is None else rows
        mine = Rows(BatchRows(self._rows), index)
        theirs = Rows(BatchRows(entries.rows), found)
        pair = (mine, theirs) if self._side is Side.LEFT else (theirs, mine)
        return self._question.join.verify(*pair)

    def _wanted(
        self, rows: Positions | None, entries: KeySums, found: Positions
    ) -> NDArray[np.bool_] | None:
        """Which pairs meet the condition that looks at both rows."""
        if self._question.pairs is None or not len(found):
            return None
        pairs = self._question.pairs
        columns = self._gathered(_Pairs(rows, entries, found), pairs)
        return holds(pairs.evaluate(columns, len(found)))

    def _gathered(self, pairs: _Pairs, expression: Expression) -> dict[tuple[Side, str], pa.Array]:
        """The columns that an expression looks at, of both rows of each pair; a partner that is
        missing is null. No others: a text to group by may be long, and there are many pairs."""
        side, other = self._side, self._side.other
        mine = _chosen(self._rows, self._question, side, expression)
        if pairs.rows is not None:
            mine = {name: values.take(pa.array(pairs.rows)) for name, values in mine.items()}
        if pairs.entries is None:
            schema = self._question.schemas[other]
            return mine | {
                (other, name): pa.nulls(len(pairs), schema.field(name).type)
                for name in expression.columns(other)
            }
        assert pairs.entries.rows is not None
        theirs = _chosen(pairs.entries.rows, self._question, other, expression)
        found = pa.array(pairs.found)
        return mine | {name: values.take(found) for name, values in theirs.items()}

    def _part(self, pairs: _Pairs, factors: Sequence[Numbers | None]) -> GroupTotals:
        codes, groups, counts = self._codes(pairs)
        size = len(counts)
        weights = pairs.weights
        self.partners = max(self.partners, pairs.partners)
        if weights is None:
            total = counts
        elif codes is None:
            total = np.array([weights.sum()], np.int64)
        else:
            total = np.bincount(codes, weights, minlength=size).astype(np.int64)
        rows = pairs.rows_in(codes, counts)
        sums = tuple(
            self._sum(number, pairs, factors[number], codes, counts)
            for number in range(len(self._question.aggregates.expressions))
        )
        return GroupTotals(groups, total, rows, sums)

    def _codes(self, pairs: _Pairs) -> tuple[Positions | None, tuple[pa.Array, ...], Longs]:
        """A number for the group of each pair, what the numbers stand for, and how many pairs have
        each."""
        mine = self._groups.codes
        if mine is not None and pairs.rows is not None:
            mine = mine[pairs.rows]
        theirs, others = self._other_groups(pairs)
        codes = theirs if mine is None else mine
        if mine is not None and theirs is not None:
            codes = mine * others.count + theirs
        if codes is None:
            both, counts = np.arange(1), np.array([len(pairs)], np.int64)
        else:
            both, codes, counts = _present(codes, self._groups.count * others.count)
        columns = [
            *(values.take(pa.array(both // others.count)) for values in self._groups.values),
            *(values.take(pa.array(both % others.count)) for values in others.values),
        ]
        # In the types of the answer, as those of a block without a row: both will be added up.
        groups = tuple(
            columns[place].cast(group.kind)
            for place, group in zip(
                self._meeting.places, self._question.aggregates.groups, strict=True
            )
        )
        return codes, groups, counts

    def _other_groups(self, pairs: _Pairs) -> tuple[Positions | None, Groups]:
        if pairs.entries is None:
            question, other = self._question, self._side.other
            kinds = [
                question.schemas[other].field(name).type
                for _, name in question.groups(other, sampled=self._side)
            ]
            return None, Groups(None, tuple(pa.nulls(1, kind) for kind in kinds), 1)
        groups = pairs.entries.groups
        return (None if groups.codes is None else groups.codes[pairs.found]), groups

    def _sum(
        self, number: int, pairs: _Pairs, mine: Numbers | None,
        codes: Positions | None, counts: Longs,
    ) -> Sums:  # fmt: skip
        size = len(counts)
        factors = self._question.factors[number]
        factor = None if pairs.entries is None else pairs.entries.factors[number]
        if factors is None or (factor is None and factors[self._side.other] is not None):
            expression = self._question.aggregates.expressions[number]
            mine = expression.evaluate(self._gathered(pairs, expression), len(pairs))
        if factor is None:
            assert mine is not None
            self._notes[number].take(mine)
            spread = self._question.spreads[number]
            sums = Sums.of(
                mine, codes, groups=size, weights=pairs.weights, spread=spread, rows=counts
            )
            return self._with_ends(number, sums, mine, codes, size)
        return self._product(number, mine, factor, pairs, codes, size)

    def _with_ends(
        self, number: int, sums: Sums, value: Numbers, codes: Positions | None, size: int
    ) -> Sums:
        """With each group's least and most, while somebody may ask what it has not shown."""
        return with_ends(sums, value, codes, size) if self._notes[number].sketched else sums

    def _product(
        self, number: int, mine: Numbers | None, factor: Factor, pairs: _Pairs,
        codes: Positions | None, size: int,
    ) -> Sums:  # fmt: skip
        """Sums of my factor times the sums of the partners' factors."""
        theirs = factor.sums.taken(pairs.found)
        value = theirs if mine is None else multiplied(mine, theirs)
        if mine is not None:
            self._check_fit(number, mine, factor, pairs)
        counts = None if factor.counts is None else factor.counts[pairs.found]
        self._notes[number].take(value, counts)
        sums = Sums.of(value, codes, groups=size)
        if counts is not None:
            counted = Numbers(counts, value.valid).spread(len(pairs)).tight()
            total = Sums.of(counted, codes, groups=size).total.values
            sums = replace(sums, count=total.astype(np.int64))
        sums = self._with_ends(number, sums, value, codes, size)
        if not self._question.spreads[number]:
            return sums
        means = sums.means()
        centres = means[:1] if codes is None else means[codes]
        squares = factor.squares_of(pairs.found, mine, centres=centres)
        if value.valid is not None:
            squares = np.where(value.valid, squares, 0.0)
        about = Sums.of(Numbers(squares, None), codes, groups=size).floats()
        return replace(sums, squares=np.maximum(about, 0.0))

    def _check_fit(self, number: int, mine: Numbers, factor: Factor, pairs: _Pairs) -> None:
        """Whole numbers are multiplied as wide as they need; as written, they might not fit."""
        kind = self._question.aggregates.expressions[number].kind
        if not pt.is_integer(kind) or inside(products(mine.bounds, factor.bounds), limits_of(kind)):
            return
        assert factor.extremes is not None
        for extreme in factor.extremes:
            within(multiplied(mine, extreme.taken(pairs.found)), kind, active=None)


def _present(codes: Positions, size: int) -> tuple[Positions, Positions, Longs]:
    """Of `size` groups that two sides could make, those that pairs are in, numbered anew; and how
    many pairs are in each."""
    if size > _SPARSE * len(codes):
        return np.unique(codes, return_inverse=True, return_counts=True)
    counts = np.bincount(codes, minlength=size)
    here = counts > 0
    if here.all():
        return np.arange(size), codes, counts
    return np.flatnonzero(here), (np.cumsum(here) - 1)[codes], counts[here]


@dataclass(frozen=True)
class _Pairs:
    """Rows of a batch and the entry of each; no `rows` are all of them, no `entries` nobody's."""

    rows: Positions | None
    entries: KeySums | None
    found: Positions

    def __len__(self) -> int:
        return len(self.found)

    def rows_in(self, codes: Positions | None, counts: Longs) -> Longs:
        """Rows of each group, each counted once however many partners it has there; `counts` are
        pairs."""
        entries = self.entries
        if entries is None or entries.starts is None or entries.weights is not None:
            return counts
        assert self.rows is not None
        size = len(counts)
        of = self.rows * size if codes is None else self.rows * size + codes
        return np.bincount(np.unique(of) % size, minlength=size)

    @property
    def partners(self) -> int:
        """The most of one row; of entries that belong to several groups, in one of them."""
        if not len(self) or self.entries is None or self.entries.partners == 1:
            return 1
        if self.weights is not None:
            return int(self.weights.max())
        assert self.rows is not None
        changes = np.flatnonzero(np.diff(self.rows)) + 1
        return int(np.diff(changes, prepend=0, append=len(self.rows)).max())

    @property
    def weights(self) -> Longs | None:
        if self.entries is None or self.entries.weights is None:
            return None
        return self.entries.weights[self.found]


def _chosen(
    rows: pa.RecordBatch, question: ResolvedQuestion, side: Side, expression: Expression
) -> dict[tuple[Side, str], pa.Array]:
    wanted = expression.columns(side)
    columns = columns_of(rows, question, side)
    return {key: values for key, values in columns.items() if key[1] in wanted}


def multiplied(left: Numbers, right: Numbers) -> Numbers:
    if left.exact and right.exact:
        product = exactly(np.multiply, left, right, products)
        return Numbers(product.values, product.valid, left.scale + right.scale, product.bounds)
    return Numbers(left.floats() * right.floats(), both(left.valid, right.valid))
