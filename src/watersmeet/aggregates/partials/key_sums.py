"""One side of a join reduced to what the other side's rows need of it.

An aggregate never sees joined rows. Of all rows of a key, a row of the other side needs their
number, and the sums of their factors: `sum(price * rate)` over the partners of one price is that
price times the sum of their rates. So rows of one key and group become one entry. Only where an
expression or a condition looks at both rows at once does each row stay an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.aggregates.allowance import MOST_PAIRS
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.keys import Index, RowKeys
from watersmeet.expressions.numbers import ArithmeticFailed, Bounds, Mask, Numbers
from watersmeet.model import Side
from watersmeet.rows.dictionaries import taken

Positions = NDArray[np.int64]


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
class KeySums:
    """Entries of distinct keys.

    Those of key number c are starts[c] to starts[c + 1], or c alone if `starts` is None.
    `weights` is how many rows each stands for, None if one. `rows` has a row for each entry, and
    is None where hashes decide whether keys are equal and no pair must be seen. `portion` is how
    many pairs are looked at together; a row may have a million partners.
    """

    index: Index
    starts: Positions | None
    weights: NDArray[np.int64] | None
    groups: Groups
    factors: tuple[Factor | None, ...]
    rows: pa.RecordBatch | None
    portion: int = MOST_PAIRS

    def __len__(self) -> int:
        return len(self.index) if self.starts is None else int(self.starts[-1])

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
        held = self.index.nbytes
        for array in (self.starts, self.weights, self.groups.codes, self.rows, *self.groups.values):
            held += 0 if array is None else array.nbytes
        for factor in self.factors:
            if factor is not None:
                for values in (factor.sums.values, factor.counts, factor.squares):
                    held += 0 if values is None else values.nbytes
                for extreme in factor.extremes or ():
                    held += 0 if extreme is factor.sums else extreme.values.nbytes
        return held

    def meet(self, keys: RowKeys) -> Iterator[tuple[Positions | None, Positions]]:
        """Rows with an entry of equal hash, and the entry of each, some at a time.

        None instead of rows says that they are all the rows, in order.
        """
        rows, numbers = self.index.find(keys)
        if self.starts is None:
            if len(rows):
                yield (None if len(rows) == len(keys) else rows), numbers
            return
        counts = self.starts[numbers + 1] - self.starts[numbers]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            done = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, done + self.portion, "right")), start + 1)
            yield from self._pairs(rows[start:stop], numbers[start:stop], counts[start:stop])
            start = stop

    def _pairs(
        self, rows: Positions, numbers: Positions, counts: Positions
    ) -> Iterator[tuple[Positions, Positions]]:
        """Each row with all the entries of its hash; one hot key may need several portions."""
        assert self.starts is not None
        total = int(counts.sum())
        first = np.repeat(self.starts[numbers] - np.cumsum(counts) + counts, counts)
        for start in range(0, total, self.portion):
            stop = min(start + self.portion, total)
            if start == 0 and stop == total:
                yield np.repeat(rows, counts), first + np.arange(total)
            else:
                owner = np.searchsorted(np.cumsum(counts), np.arange(start, stop), "right")
                yield rows[owner], first[start:stop] + np.arange(start, stop)


def factor_values(
    rows: pa.RecordBatch,
    question: ResolvedQuestion,
    side: Side,
    *,
    active: Mask | None = None,
    only: Positions | None = None,
) -> list[Numbers | None]:
    """What one side gives to each expression, of all rows or `only` of these; where `active` is
    false it cannot fail."""
    columns = columns_of(rows, question, side)
    if only is not None:
        known = [factors[side] for factors in question.factors if factors is not None]
        needed = {name for each in known if each is not None for name in each.columns(side)}
        columns = {key: taken(columns[key], only) for key in columns if key[1] in needed}
    count = len(rows) if only is None else len(only)
    return factors_of(columns, count, question, side, active=active)


def factors_of(
    columns: Mapping[tuple[Side, str], pa.Array],
    count: int,
    question: ResolvedQuestion,
    side: Side,
    *,
    active: Mask | None = None,
) -> list[Numbers | None]:
    """The same from columns of so many rows."""
    values: list[Numbers | None] = []
    for factors in question.factors:
        factor = None if factors is None else factors[side]
        value = None if factor is None else factor.evaluate(columns, count, active=active)
        values.append(value)
    return values


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
    columns = columns_of(batch, question, side)
    found = _held_by_values(columns, question, side)
    mask = condition.holds(columns, len(batch)) if found is None else pa.array(found)
    return batch if mask.true_count == len(batch) else batch.filter(mask)


def _held_by_values(
    columns: Mapping[tuple[Side, str], pa.Array], question: ResolvedQuestion, side: Side
) -> Mask | None:
    """The rows for which a condition holds, found by looking at each value of dictionaries once;
    None if it is to be asked of each row."""
    found: Mask | None = None
    for part in question.conjuncts(side):
        names = part.columns(side)
        column = columns[side, names[0]] if len(names) == 1 else None
        if column is None or not pt.is_dictionary(column.type):
            return None
        values = column.dictionary
        if column.null_count or len(values) > len(column):
            return None
        try:
            truth = part.holds({(side, names[0]): values}, len(values))
        except ArithmeticFailed:
            # Perhaps for a value that no row has, or that another part of the condition drops.
            return None
        known = truth.fill_null(False).to_numpy(zero_copy_only=False)
        here = known[column.indices.to_numpy()]
        found = here if found is None else found & here
    return found


def holds(truth: Numbers) -> NDArray[np.bool_]:
    mask = np.asarray(truth.values != 0)
    return mask if truth.valid is None else np.asarray(mask & truth.valid)


def one_batch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    found = [batch for batch in batches if len(batch)]
    if len(found) == 1:
        return found[0]
    return pa.concat_batches([pa.RecordBatch.from_pylist([], schema=schema), *found])
