"""Rows of the side that is kept, on their way to become entries.

A batch is reduced as soon as it comes: of each row its key, the number of its group and its
factors stay. Whole rows stay only where pairs must be seen. What there is is counted on the way, so
that a side that is larger than its files promised is noticed before memory is full.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.aggregates.allowance import MOST_PAIRS, SideTooLarge
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.key_sums import (
    Factor,
    KeySums,
    Positions,
    factor_values,
    kept,
    one_batch,
)
from watersmeet.aggregates.partials.keys import Codes, RowKeys, indexed
from watersmeet.aggregates.partials.sums import Sums, extremes_of
from watersmeet.expressions.numbers import ArithmeticFailed, Numbers
from watersmeet.model import Side
from watersmeet.rows.address import Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.keys import CodeKeys
from watersmeet.words import megabytes

# Of a row while entries are built: its hash, twice for a moment, its slots (twice as many as keys,
# and up to twice that), number and distinct hash, and five words to find rows of one key and group.
_ROW_BYTES = 2 * 8 + 16 + 2 * 8 + 5 * 8
# A factor's value and its mask, and the four sums that are made of it.
_FACTOR_BYTES = 9 + 4 * 8
_GROUP_BYTES = 8
# Whole rows are there as they came, in one piece, and in the order of their keys.
_ROW_COPIES = 3
_FEW_GROUPS = 4096


def key_sum_bytes(
    question: ResolvedQuestion, side: Side, *, widths: dict[str, float] | None = None
) -> int:
    """About what a row of this side takes while entries are made, each with a key of its own.

    `widths` are those of columns of no fixed width, where they are known.
    """
    factors = sum(each is not None and each[side] is not None for each in question.factors)
    groups = [group for group in question.aggregates.groups if group.side is side or group.shared]
    held = float(_ROW_BYTES + _FACTOR_BYTES * factors + _GROUP_BYTES * len(groups))
    if _sees_rows(question):
        held += _ROW_COPIES * sum(_width(field, widths or {}) for field in question.schemas[side])
    return int(held)


def _width(field: pa.Field, widths: dict[str, float]) -> float:
    try:
        return max(float(field.type.bit_width) / 8, 1.0)
    except ValueError:
        return max(widths.get(field.name, 0.0), 24.0)


def _sees_rows(question: ResolvedQuestion) -> bool:
    return question.needs_pairs or not question.join.codes_decide


def make_key_sums(
    pieces: Callable[[Gathering], Iterable[Piece]],
    question: ResolvedQuestion,
    *,
    sampled: Side,
    most: int | None = None,
    portion: int = MOST_PAIRS,
) -> KeySums:
    """Entries of the side that is not sampled. `pieces` has its batches made into pieces, by
    several threads if it likes, and a second time if need be."""
    for alone in (question.needs_pairs, True):
        gathering = Gathering(question, sampled=sampled, most=most, alone=alone)
        try:
            return gathering.entries(pieces(gathering), portion=portion)
        except ArithmeticFailed:
            # Perhaps for rows that nobody meets. Looking at pairs shows whether it matters.
            if gathering.gives_up:
                raise
    raise AssertionError("A gathering of rows that are seen does not compute.")


@dataclass(frozen=True)
class Piece:
    """What stays of one batch."""

    keys: Codes
    groups: Groups
    is_common: bool
    """Whether the groups have the gathering's own numbers."""
    values: list[Numbers | None]
    rows: pa.RecordBatch | None


class Gathering:
    """Makes pieces, and entries of them. With `most`, no more bytes than that are taken."""

    def __init__(
        self, question: ResolvedQuestion, *, sampled: Side, most: int | None, alone: bool
    ) -> None:
        self._question = question
        self._sampled = sampled
        self._side = sampled.other
        self._most = most
        self._alone = alone
        self._seen = alone or not question.join.codes_decide
        self.gives_up = alone
        self._lock = threading.Lock()
        self._held = 0
        self._known: Groups | None = None
        self._names = [name for _, name in question.groups(self._side, sampled=sampled)]

    def piece(self, batch: pa.RecordBatch) -> Piece:
        question, side = self._question, self._side
        keys = RowKeys.of(question.join, side, kept(batch, question, side)).with_keys()
        rows = keys.rows
        groups = Groups.of([rows.column(name) for name in self._names])
        values: list[Numbers | None] = [None] * len(question.factors)
        try:
            values = factor_values(rows, question, side)
        except ArithmeticFailed:
            if not self._alone:
                raise
        groups, is_common = self._common(groups)
        own = 0 if is_common else 2 * sum(column.nbytes for column in groups.values)
        self._count(len(rows), own, values, rows)
        return Piece(keys.of_rows, groups, is_common, values, rows if self._seen else None)

    def _common(self, groups: Groups) -> tuple[Groups, bool]:
        """Numbers that all pieces share, as long as there are few: long texts are there once."""
        if groups.codes is None:
            return groups, True
        with self._lock:
            known = self._known
            if known is None:
                self._known = groups if groups.count <= _FEW_GROUPS else None
                return groups, self._known is not None
            if known.count + groups.count > _FEW_GROUPS:
                return groups, False
            columns = zip(known.values, groups.values, strict=True)
            common = Groups.of([pa.concat_arrays(pair) for pair in columns])
            assert common.codes is not None
            self._known = common
            codes = common.codes[known.count :][groups.codes]
            return Groups(codes, (), common.count), True

    def _one_numbering(self, pieces: Sequence[Piece]) -> Groups:
        """Groups that were numbered apart, under common numbers."""
        first = pieces[0].groups
        if first.codes is None or len(pieces) == 1:
            return first
        apart = [piece.groups for piece in pieces if not piece.is_common]
        known = [] if self._known is None else [self._known]
        columns = [
            pa.concat_arrays([groups.values[place] for groups in (*known, *apart)])
            for place in range(len(self._names))
        ]
        common = Groups.of(columns)
        assert common.codes is not None
        start = sum(groups.count for groups in known)
        codes = []
        for piece in pieces:
            assert piece.groups.codes is not None
            if piece.is_common:
                codes.append(common.codes[piece.groups.codes])
            else:
                end = start + piece.groups.count
                codes.append(common.codes[start:end][piece.groups.codes])
                start = end
        return Groups(np.concatenate(codes), common.values, common.count)

    def _count(
        self, count: int, own: int, values: Sequence[Numbers | None], rows: pa.RecordBatch
    ) -> None:
        """`own` are bytes of groups that no other batch has."""
        factors = sum(value is not None for value in values)
        held = count * (_ROW_BYTES + _FACTOR_BYTES * factors + _GROUP_BYTES) + own
        if self._seen:
            held += _ROW_COPIES * rows.nbytes
        with self._lock:
            self._held += held
            held = self._held
        if self._most is not None and held > self._most:
            word = self._side.name.lower()
            raise SideTooLarge(
                f"The {word} side takes more than {megabytes(held)} in memory, and of memory= "
                f"there are {megabytes(self._most)} for it.",
                remedy="Give more memory, or filter that side before the join.",
            )

    def entries(self, pieces: Iterable[Piece], *, portion: int) -> KeySums:
        """All of them as one. Each array is put together and its parts let go before the next."""
        question, side = self._question, self._side
        found = list(pieces) or [self.piece(one_batch([], question.schemas[side]))]
        keys = np.concatenate([piece.keys for piece in found])
        plain = isinstance(question.join.equal.codec, CodeKeys)
        # With little memory there is none to spare for keys that are not there.
        index, numbers = indexed(keys, plain=plain, room=2 * portion)
        count = len(index)
        del keys
        groups = self._one_numbering(found)
        columns = zip(*(piece.values for piece in found), strict=True)
        values = [_one_column(column) for column in columns]
        rows = None
        if self._seen:
            batches = [piece.rows for piece in found if piece.rows is not None]
            rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        del found
        if count == len(numbers):
            factors = tuple(None if value is None else _alone(value) for value in values)
            return KeySums(index, None, None, groups, factors, rows, portion)
        members = None if self._alone else _merge(numbers, groups, rows, question, side)
        if members is None:
            order = np.argsort(numbers, kind="stable")
            starts: Positions | None = np.searchsorted(numbers[order], np.arange(count + 1))
            return KeySums(
                index,
                starts,
                None,
                _ordered(groups, order),
                tuple(None if value is None else _alone(value.taken(order)) for value in values),
                None if rows is None else rows.take(pa.array(order)),
                portion,
            )
        codes, firsts = members
        owners = numbers[firsts]
        starts = None
        if len(firsts) > count:
            starts = np.searchsorted(owners, np.arange(count + 1))
        return KeySums(
            index=index,
            starts=starts,
            weights=np.bincount(codes, minlength=len(firsts)),
            groups=_ordered(groups, firsts),
            factors=tuple(
                None if value is None else _together(value, codes, len(firsts)) for value in values
            ),
            rows=None if rows is None else rows.take(pa.array(firsts)),
            portion=portion,
        )


def _merge(
    numbers: Positions,
    groups: Groups,
    rows: pa.RecordBatch | None,
    question: ResolvedQuestion,
    side: Side,
) -> tuple[Positions, Positions] | None:
    """The entry of each row and a first row of each entry, by hash number; None to merge none.

    Rows of one hash may have different keys, which is too rare to be worth more than a check.
    """
    both = numbers if groups.codes is None else numbers * groups.count + groups.codes
    _, firsts, codes = np.unique(both, return_index=True, return_inverse=True)
    if rows is not None:
        source = BatchRows(rows)
        first = Rows(source, firsts[codes].astype(np.int64))
        if not question.join.same_keys(side, first, Rows(source, np.arange(len(rows)))):
            return None
    return codes.astype(np.int64, copy=False), firsts.astype(np.int64, copy=False)


def _one_column(parts: Sequence[Numbers | None]) -> Numbers | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if len(known) == 1:
        return known[0]
    valid: NDArray[np.bool_] | None = None
    if any(part.valid is not None for part in known):
        valid = np.concatenate(
            [np.ones(len(p.values), np.bool_) if p.valid is None else p.valid for p in known]
        )
    return Numbers(
        np.concatenate([part.values for part in known]),
        valid,
        known[0].scale,
        (min(part.bounds[0] for part in known), max(part.bounds[1] for part in known)),
    )


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
