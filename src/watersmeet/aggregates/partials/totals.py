"""Totals by group: of some pairs of rows, of a block, of several added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.sums import Sums
from watersmeet.estimators.tails import TailSketch
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.numbers import (
    Numbers,
)

Positions = NDArray[np.int64]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupTotals:
    """Totals by group of some pairs of rows.

    `rows` are those of the sampled side that are in the result; `pairs` counts each as often as
    it is there. `sums` has an item for each expression.
    """

    groups: tuple[pa.Array, ...]
    pairs: Longs
    rows: Longs
    sums: tuple[Sums, ...]

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class Traits:
    """What is noticed about an expression's values in a block, over all groups.

    `centre` is a number near their mean, about which they are estimated; None if there are none.
    `tail` is kept only while somebody may still ask whether a few values hold most of the spread.
    """

    centre: float | None
    least: float
    most: float
    tail: TailSketch | None


@dataclass(frozen=True)
class BlockTotals:
    """What one block adds. `rows` are all its rows, whether or not the filter keeps them.

    `partners` are the most that one of its rows has, and the most of any key on the other side.
    """

    block: int
    rows: int
    part: GroupTotals
    traits: tuple[Traits, ...]
    partners: tuple[int, int] = (1, 1)


def added_up(blocks: Sequence[BlockTotals], question: ResolvedQuestion) -> BlockTotals:
    """Several blocks as one, for an answer; for an estimate each must be known by itself."""
    expressions = range(len(question.aggregates.expressions))
    traits = tuple(_shared([block.traits[number] for block in blocks]) for number in expressions)
    part = together([block.part for block in blocks], question)
    met, there = zip(*(block.partners for block in blocks), strict=True)
    rows = sum(block.rows for block in blocks)
    return BlockTotals(blocks[0].block, rows, part, traits, (max(met), max(there)))


def _shared(traits: Sequence[Traits]) -> Traits:
    """Of several blocks: the first centre there is, and the tails of all."""
    centre = next((each.centre for each in traits if each.centre is not None), None)
    tail = None
    for each in traits:
        if each.tail is not None:
            tail = tail or TailSketch(centre=centre or 0.0)
            tail += each.tail
    least, most = min(each.least for each in traits), max(each.most for each in traits)
    return Traits(centre, least, most, tail)


def together(parts: Sequence[GroupTotals], question: ResolvedQuestion) -> GroupTotals:
    """Parts added up, group by group; groups are in the order in which they come."""
    if not parts:
        return _nothing(question)
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.groups for part in parts), strict=True)
    sums = zip(*(part.sums for part in parts), strict=True)
    return distinct(
        GroupTotals(
            tuple(pa.concat_arrays(column) for column in columns),
            np.concatenate([part.pairs for part in parts]),
            np.concatenate([part.rows for part in parts]),
            tuple(map(_joined, sums)),
        )
    )


def distinct(part: GroupTotals) -> GroupTotals:
    """A part in which no group comes twice: what was apart is added up."""
    if part.groups:
        groups = Groups.of(part.groups)
        assert groups.codes is not None
        codes, count = groups.codes, groups.count
    else:
        groups = Groups.of([])
        codes, count = np.zeros(len(part), np.int64), min(len(part), 1)
    return GroupTotals(
        groups.values,
        _added(part.pairs, codes, count),
        _added(part.rows, codes, count),
        tuple(_regrouped(sums, codes, count) for sums in part.sums),
    )


def _joined(sums: Sequence[Sums]) -> Sums:
    """One after the other."""
    values = np.concatenate([each.total.values for each in sums])
    bounds = [each.total.bounds for each in sums]
    total = Numbers(
        values,
        None,
        sums[0].total.scale,
        (min(low for low, _ in bounds), max(high for _, high in bounds)),
    )
    errors = [each.error for each in sums if each.error is not None]
    squares = [each.squares for each in sums if each.squares is not None]
    return Sums(
        np.concatenate([each.count for each in sums]),
        total,
        np.concatenate(errors) if errors else None,
        np.concatenate(squares) if squares else None,
        _all_ends([each.ends for each in sums]),
    )


def _all_ends(several: Sequence[Floats | None]) -> Floats | None:
    known = [ends for ends in several if ends is not None]
    return np.concatenate(known) if known and len(known) == len(several) else None


def _regrouped(sums: Sums, codes: Positions, count: int) -> Sums:
    total = Sums.of(sums.total, codes, groups=count)
    error = None
    if sums.error is not None and total.error is not None:
        error = total.error + np.bincount(codes, sums.error, minlength=count)
    found = Sums(_added(sums.count, codes, count), total.total, error)
    if sums.ends is not None:
        ends = np.tile([np.inf, -np.inf], (count, 1))
        np.minimum.at(ends[:, 0], codes, sums.ends[:, 0])
        np.maximum.at(ends[:, 1], codes, sums.ends[:, 1])
        found = replace(found, ends=ends)
    if sums.squares is None:
        return found
    about = sums.squares_about(found.means()[codes])
    return replace(found, squares=np.bincount(codes, about, minlength=count).astype(np.float64))


def _added(counts: Longs, codes: Positions, count: int) -> Longs:
    return Sums.of(Numbers(counts, None).tight(), codes, groups=count).total.values


def _nothing(question: ResolvedQuestion) -> GroupTotals:
    kinds = [group.kind for group in question.aggregates.groups]
    none = np.zeros(0, np.int64)
    sums = [
        Sums.of(nulls(expression, 0), none, groups=0, spread=spread)
        for expression, spread in zip(
            question.aggregates.expressions, question.spreads, strict=True
        )
    ]
    return GroupTotals(tuple(pa.nulls(0, kind) for kind in kinds), none, none, tuple(sums))


def nulls(expression: Expression, rows: int) -> Numbers:
    """Nulls that add up with the expression's values."""
    valid = np.zeros(rows, np.bool_)
    if pt.is_floating(expression.kind):
        return Numbers(np.zeros(rows), valid)
    scale = expression.kind.scale if pt.is_decimal(expression.kind) else 0
    return Numbers(np.zeros(rows, np.int64), valid, scale)
