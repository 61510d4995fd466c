"""Adds up what blocks bring, and says at any moment what is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.results import answer
from watersmeet.aggregates.partials.summing import sample_bytes, too_many_groups
from watersmeet.aggregates.partials.sums import Sums
from watersmeet.aggregates.partials.totals import (
    BlockTotals,
    GroupTotals,
    Traits,
    distinct,
    together,
)
from watersmeet.estimators import (
    Evidence,
    RippleSample,
    StratifiedSample,
    TailSketch,
    Totals,
    take_all,
)
from watersmeet.expressions.bounds import Bounds
from watersmeet.model import Side

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Ledger(ABC):
    """Totals of all that was read, for the exact answer, and what lets intervals be trusted.

    Groups are numbered as they turn up. Values are estimated about one centre for each
    expression, that of the first block that has values. What estimates are made from is up to
    the ledgers of one side and of both.
    """

    def __init__(
        self, question: ResolvedQuestion, *, bounds: Sequence[Bounds | None] | None = None
    ) -> None:
        """`bounds` are what each expression's values lie between, where that is known."""
        self._question = question
        expressions = len(question.aggregates.expressions)
        self.evidence = Evidence(expressions=expressions)
        self._centres: list[float | None] = [None] * expressions
        self.bounds = list(bounds or [None] * expressions)
        self.tails = [TailSketch(bounds=each) for each in self.bounds]
        self.part: GroupTotals = together([], question)
        self.most_groups: int | None = None
        """So many can be estimated in the memory there is; None if nobody has said."""
        self.partners = (1, 1)
        """The most that a row drawn at random has, and the most of any key that is known."""
        self.block_rows = 0
        """The most that a block of the sampled side had so far."""

    @abstractmethod
    def add(self, blocks: Iterable[BlockTotals], *, sampled: bool = True) -> None:
        """Add blocks. What completes the whole need not be `sampled`: nothing is uncertain then,
        and several blocks may have been added up before."""

    @abstractmethod
    def totals(self) -> Totals:
        """Estimated totals of the whole."""

    @property
    def centres(self) -> list[float]:
        return [centre or 0.0 for centre in self._centres]

    @property
    def groups(self) -> int:
        return len(self.part)

    def _check_room(self) -> None:
        """What was taken in counts for the answer, also if there is no room for a sample of it."""
        if self.most_groups is not None and self.groups > self.most_groups:
            each = sample_bytes(self._question)
            raise too_many_groups(self.groups, self.groups * each, self.most_groups * each)

    def _taken_in(self, blocks: Sequence[BlockTotals]) -> list[GroupTotals]:
        """Add to what was read; the blocks' totals."""
        for number, centre in enumerate(self._centres):
            # While no value was seen all is zero, about whatever centre.
            known = (block.traits[number].centre for block in blocks)
            if centre is None:
                self._centres[number] = next((each for each in known if each is not None), None)
                self.tails[number].centre = self.centres[number]
        parts = [block.part for block in blocks]
        # Together with the known groups, which come first and keep their numbers.
        self.part = together([self.part, *parts] if self.groups else parts, self._question)
        return parts

    def _notice(
        self,
        block: BlockTotals,
        part: GroupTotals,
        codes: Codes,
        rows: dict[str, Any],
        *,
        drawn: bool = True,
    ) -> None:
        """What lets an interval be trusted, or not."""
        met, there = block.partners
        self.partners = max(self.partners[0], met if drawn else 1), max(self.partners[1], there)
        if not drawn:
            self.evidence.add(codes, pairs=part.pairs, **rows)
            return
        ends = [_ends(sums, traits) for sums, traits in zip(part.sums, block.traits, strict=True)]
        least, most = (
            np.stack([each[end] for each in ends], axis=1) if ends else None for end in (0, 1)
        )
        self.evidence.add(codes, pairs=part.pairs, least=least, most=most, **rows)
        for tail, traits in zip(self.tails, block.traits, strict=True):
            if traits.tail is not None:
                tail += traits.tail

    def _codes(self, parts: Sequence[GroupTotals]) -> list[Codes]:
        """The numbers of each part's groups."""
        if not self.part.groups:
            return [np.zeros(len(part), np.int64) for part in parts]
        columns = [
            pa.concat_arrays([known, *(part.groups[place] for part in parts)])
            for place, known in enumerate(self.part.groups)
        ]
        codes = Groups.of(columns).codes
        assert codes is not None
        ends = np.cumsum([self.groups, *(len(part) for part in parts)])
        return np.split(codes, ends[:-1])[1:]

    def _moments(self, part: GroupTotals) -> Floats:
        moments = np.zeros((len(part), self._question.moments))
        moments[:, 0] = part.pairs
        for number, (sums, centre) in enumerate(zip(part.sums, self.centres, strict=True)):
            start = 1 + 3 * number
            moments[:, start] = sums.count
            moments[:, start + 1] = sums.floats() - centre * sums.count
            if sums.squares is not None:
                moments[:, start + 2] = sums.squares_about(centre)
        return moments

    def group_values(self) -> tuple[pa.Array, ...]:
        """The groups' columns in Spark's types, whichever side a key was taken from."""
        groups = zip(self.part.groups, self._question.aggregates.groups, strict=True)
        return tuple(values.cast(group.kind) for values, group in groups)

    def answer(self) -> list[pa.Array]:
        """The aggregates of what was read, in Spark's types: the answer, once all was."""
        columns = []
        part = self.part
        if not self.groups and not part.groups:
            part = _one_empty_group(part)
        for asked in self._question.aggregates.asked:
            if asked.expression is None:
                columns.append(pa.array(part.pairs))
                continue
            expression = self._question.aggregates.expressions[asked.expression]
            sums = part.sums[asked.expression]
            columns.append(answer(asked.kind, sums, values=expression.kind))
        return columns


class BlockLedger(Ledger):
    """Blocks of one side, drawn from strata."""

    def __init__(
        self,
        question: ResolvedQuestion,
        *,
        sampled: Side,
        blocks: Sequence[int | None],
        strata: Sequence[int] = (),
        bounds: Sequence[Bounds | None] | None = None,
    ) -> None:
        """`blocks` are the rows of each, None where they are not known; `strata` as a plan has
        them."""
        super().__init__(question, bounds=bounds)
        self._sampled = sampled
        self._blocks = tuple(blocks)
        self._strata = tuple(strata) or (0,) * len(blocks)
        self.sample = StratifiedSample(
            strata=_sizes(self._blocks, self._strata), moments=question.moments
        )
        self._certain: GroupTotals | None = None

    def without_extremes(self, extremes: Sequence[BlockTotals]) -> BlockLedger:
        """A new ledger about the same blocks, of whose rows these have been joined completely."""
        ledger = BlockLedger(
            self._question,
            sampled=self._sampled,
            blocks=self._blocks,
            strata=self._strata,
        )
        ledger.most_groups = self.most_groups
        ledger.block_rows = self.block_rows
        ledger._centres = list(self._centres)
        # What is left is below the threshold, where one was set.
        ledger.bounds = [
            (-tail.threshold(), tail.threshold()) if tail.heavy() else bounds
            for tail, bounds in zip(self.tails, self.bounds, strict=True)
        ]
        ledger.tails = [
            TailSketch(centre=centre, bounds=bounds)
            for centre, bounds in zip(self.centres, ledger.bounds, strict=True)
        ]
        ledger._taken_in(extremes)
        # Their groups have the first numbers of the new ledger: `totals` adds them by prefix.
        ledger._certain = ledger.part
        return ledger

    def add(self, blocks: Iterable[BlockTotals], *, sampled: bool = True) -> None:
        blocks = list(blocks)
        if not blocks:
            return
        parts = self._taken_in(blocks)
        if not sampled:
            return
        self._check_room()
        for block, part, codes in zip(blocks, parts, self._codes(parts), strict=True):
            stratum = self._strata[block.block]
            self.block_rows = max(self.block_rows, block.rows)
            # What is read in any case comes before all strata, and says nothing about others.
            self.sample.add(codes, self._moments(part), rows=block.rows, stratum=stratum + 1)
            rows = np.zeros_like(part.rows) if stratum < 0 else part.rows
            of_side = {f"{self._sampled.name.lower()}_rows": rows}
            self._notice(block, part, codes, of_side, drawn=stratum >= 0)

    def totals(self) -> Totals:
        totals = self.sample.totals()
        if self._certain is None:
            return totals
        totals = totals.padded(self.groups)
        exact = np.zeros_like(totals.value)
        exact[: len(self._certain)] = self._moments(self._certain)
        return take_all(exact, totals)


class PairLedger(Ledger):
    """Blocks of both sides, whose totals come by pairs of blocks."""

    def __init__(
        self,
        question: ResolvedQuestion,
        *,
        blocks: tuple[int, int],
        rows: tuple[int | None, int | None],
        bounds: Sequence[Bounds | None] | None = None,
    ) -> None:
        """`blocks` and `rows` are how many there are of each side."""
        super().__init__(question, bounds=bounds)
        self.rectangle = RippleSample(blocks=blocks, rows=rows, moments=question.moments)

    def read(self, side: Side, block: int, *, rows: int) -> None:
        """This block is part of the rectangle from now on."""
        self.block_rows = max(self.block_rows, rows)
        self.rectangle.read(side, block, rows=rows)

    def add(self, blocks: Iterable[BlockTotals], *, sampled: bool = True) -> None:
        blocks = list(blocks)
        if not blocks:
            return
        if not sampled:
            self._taken_in(blocks)
            return
        # The two block numbers are the last of the group columns.
        pairs = [block.part.groups[-2:] for block in blocks]
        plain = [
            replace(block, part=replace(block.part, groups=block.part.groups[:-2]))
            for block in blocks
        ]
        self._taken_in([replace(block, part=distinct(block.part)) for block in plain])
        self._check_room()
        parts = [block.part for block in plain]
        for block, part, codes, (left, right) in zip(
            plain, parts, self._codes(parts), pairs, strict=True
        ):
            self.rectangle.add(_numbers(left), _numbers(right), codes, self._moments(part))
            self._notice(block, part, codes, {})

    def totals(self) -> Totals:
        return self.rectangle.totals()


def _ends(sums: Sums, traits: Traits) -> tuple[Floats, Floats]:
    """The least and the most value of each group; where only the block's are known, those."""
    if sums.ends is not None:
        return sums.ends[:, 0], sums.ends[:, 1]
    return np.full(len(sums.count), traits.least), np.full(len(sums.count), traits.most)


def _sizes(blocks: Sequence[int | None], strata: Sequence[int]) -> list[tuple[int, int | None]]:
    """Blocks and rows of what is read in any case, and of each stratum."""
    unknown = any(rows is None for rows in blocks)
    counts, rows = ([0] * (max(strata, default=0) + 2) for _ in range(2))
    for size, stratum in zip(blocks, strata, strict=True):
        counts[stratum + 1] += 1
        rows[stratum + 1] += size or 0
    return [(count, None if unknown else size) for count, size in zip(counts, rows, strict=True)]


def _numbers(values: pa.Array) -> Codes:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)


def _one_empty_group(part: GroupTotals) -> GroupTotals:
    """Without groups there is one row, even of nothing: a count of zero and a null sum."""
    none = np.zeros(0, np.int64)
    sums: list[Sums] = [each.placed(none, 1) for each in part.sums]
    zero = np.zeros(1, np.int64)
    return GroupTotals((), zero, zero, tuple(sums))
