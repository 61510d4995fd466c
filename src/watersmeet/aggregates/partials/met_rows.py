"""Rows of several blocks that have met an entry, on their way to be added up together.

For an estimate each block's totals must be known by themselves. For an answer they need not, and
where a filter on the other side leaves few rows of a block, what is done once for a block costs
more than what is done for its rows. So of each block only the rows that have a partner are kept, of
these only the columns that expressions look at, and they are added up when there are enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.key_sums import KeySums, columns_of, factors_of, kept
from watersmeet.aggregates.partials.keys import RowKeys
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.model import JoinType, Side
from watersmeet.rows.dictionaries import taken

Positions = NDArray[np.int64]

# So many are added up together: their values stay in the processor's cache.
_ENOUGH = 1 << 16
# Of more, each block's are found among those of all by whoever adds up totals.
_FEW_GROUPS = 4096


class MetRows:
    """Takes batches with the entries that they can meet, and gives totals now and then."""

    def __init__(self, meeting: BlockAggregator, *, nbytes: int) -> None:
        """Rows wait in no more than about so many bytes."""
        self._meeting = meeting
        question, side = meeting.question, meeting.sampled
        factors = [each[side] for each in question.factors if each is not None]
        self._names = {name for each in factors if each is not None for name in each.columns(side)}
        self._most = nbytes
        # Whether a row brings nothing but its own factors, once for each partner.
        self._suited = (
            question.how is JoinType.INNER
            and not question.needs_pairs
            and question.join.codes_decide
            and not meeting.mine
            and all(each is None or each[side.other] is None for each in question.factors)
        )
        self._clear()

    def _clear(self) -> None:
        self._columns: list[dict[tuple[Side, str], pa.Array]] = []
        self._found: list[Positions] = []
        self._groups: Groups | None = None
        self._numbers: dict[int, Positions | None] = {}
        self._held: list[KeySums] = []
        self._count = self._bytes = self._rows = 0
        self._block: int | None = None

    def suits(self, entries: Sequence[KeySums]) -> bool:
        """Whether rows that meet these entries may wait for others: each has one partner at most,
        of which only the group is asked."""
        return self._suited and all(
            each.starts is None and each.weights is None and each.groups.count <= _FEW_GROUPS
            for each in entries
        )

    def add(self, batch: pa.RecordBatch, entries: Sequence[KeySums], *, block: int) -> int:
        """A batch of a block, with the entries that it can meet; the bytes of what has met."""
        before = self._bytes
        self._block = block if self._block is None else self._block
        self._rows += len(batch)
        meeting = self._meeting
        question, side = meeting.question, meeting.sampled
        batch = kept(batch, question, side)
        if not len(batch):
            return 0
        keys = RowKeys.of(question.join, side, batch)
        columns = columns_of(keys.rows, question, side)
        for each in entries:
            rows, found = each.index.find(keys)
            if keys.valid is not None:
                there = keys.valid[rows]
                rows, found = rows[there], found[there]
            if not len(rows):
                continue
            chosen = None if len(rows) == len(keys) else rows
            met = {key: taken(columns[key], chosen) for key in columns if key[1] in self._names}
            self._columns.append(met)
            self._found.append(self._numbered(each, found))
            self._count += len(rows)
            self._bytes += sum(column.nbytes for column in met.values()) + found.nbytes
        return self._bytes - before

    @property
    def enough(self) -> bool:
        return self._count >= _ENOUGH or self._bytes >= self._most

    def totals(self) -> BlockTotals | None:
        """Of what has come since the last time; None if nothing has."""
        if self._block is None:
            return None
        meeting = self._meeting
        columns = {
            key: _joined([part[key] for part in self._columns])
            for key in (self._columns[0] if self._columns else {})
        }
        found = _concatenated(self._found)
        groups = self._groups or Groups.of([])
        totals = meeting.added_up(
            factors_of(columns, self._count, meeting.question, meeting.sampled)
            if self._count
            else None,
            groups,
            found,
            block=self._block,
            rows=self._rows,
        )
        self._clear()
        return totals

    def _numbered(self, entries: KeySums, found: Positions) -> Positions:
        """The group of each of these entries, by numbers that all blocks share."""
        if entries.groups.codes is None:
            return found
        place = id(entries)
        if place not in self._numbers:
            self._held.append(entries)
            self._numbers[place] = self._common(entries.groups)
        numbers = self._numbers[place]
        assert numbers is not None
        return np.take(numbers, found)

    def _common(self, groups: Groups) -> Positions:
        """The number of each entry's group."""
        assert groups.codes is not None
        known = self._groups
        if known is None:
            self._groups = Groups(np.arange(groups.count), groups.values, groups.count)
            return groups.codes
        columns = zip(known.values, groups.values, strict=True)
        common = Groups.of([pa.concat_arrays(pair) for pair in columns])
        assert common.codes is not None
        self._groups = Groups(np.arange(common.count), common.values, common.count)
        return common.codes[known.count :][groups.codes]


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    kind = parts[0].type
    return pa.concat_arrays([part if part.type == kind else part.cast(kind) for part in parts])


def _concatenated(parts: Sequence[Positions]) -> Positions:
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int64)])
