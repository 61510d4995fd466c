"""Adds up what blocks bring, and says at any moment what is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.aggregates.groups import Groups
from watersmeet.aggregates.question import ResolvedQuestion
from watersmeet.aggregates.results import answer
from watersmeet.aggregates.sums import Sums
from watersmeet.aggregates.totals import BlockTotals, Part, centred, together
from watersmeet.estimators import ClusterSample, Evidence, TailSketch, Totals
from watersmeet.model import Side

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Ledger:
    """Totals of all that was read, for the exact answer, and a sample of blocks for estimates.

    Groups are numbered as they turn up. Squares are kept about one centre for each expression,
    that of the first block.
    """

    def __init__(
        self, question: ResolvedQuestion, *, sampled: Side, blocks: int, rows: int | None
    ) -> None:
        self._question = question
        self._sampled = sampled
        self.sample = ClusterSample(blocks=blocks, rows=rows, moments=question.moments)
        expressions = len(question.aggregates.expressions)
        self.evidence = Evidence(expressions=expressions)
        self.centres: list[float] | None = None
        self.tails: list[TailSketch] = []
        self.part: Part = together([], question)

    @property
    def groups(self) -> int:
        return len(self.part)

    def add(self, blocks: Iterable[BlockTotals], *, sampled: bool = True) -> None:
        """Add blocks. What completes the whole need not be `sampled`: nothing is uncertain then,
        and several blocks may have been added up before."""
        blocks = list(blocks)
        if not blocks:
            return
        if self.centres is None:
            self.centres = [traits.centre for traits in blocks[0].traits]
            self.tails = [TailSketch(centre=centre) for centre in self.centres]
        parts = [centred(block, self.centres) for block in blocks]
        # Together with the known groups, which come first and keep their numbers.
        self.part = together([self.part, *parts] if self.groups else parts, self._question)
        if sampled:
            self._sample(blocks, parts)

    def _sample(self, blocks: Sequence[BlockTotals], parts: Sequence[Part]) -> None:
        for block, part, codes in zip(blocks, parts, self._codes(parts), strict=True):
            self.sample.add(codes, self._moments(part), rows=block.rows)
            rows = {"left_rows": part.rows} if self._sampled is Side.LEFT else {
                "right_rows": part.rows
            }  # fmt: skip
            least = [traits.least for traits in block.traits]
            most = [traits.most for traits in block.traits]
            self.evidence.add(
                codes,
                pairs=part.pairs,
                least=np.tile(np.array(least, np.float64), (len(codes), 1)),
                most=np.tile(np.array(most, np.float64), (len(codes), 1)),
                **rows,
            )
            for tail, traits in zip(self.tails, block.traits, strict=True):
                if traits.tail is not None:
                    tail += traits.tail

    def _codes(self, parts: Sequence[Part]) -> list[Codes]:
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

    def _moments(self, part: Part) -> Floats:
        assert self.centres is not None
        moments = np.zeros((len(part), self._question.moments))
        moments[:, 0] = part.pairs
        for number, (sums, centre) in enumerate(zip(part.sums, self.centres, strict=True)):
            start = 1 + 3 * number
            moments[:, start] = sums.count
            moments[:, start + 1] = sums.floats() - centre * sums.count
            if sums.squares is not None:
                moments[:, start + 2] = sums.squares
        return moments

    def totals(self) -> Totals:
        return self.sample.totals()

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
            centre = 0.0 if self.centres is None else self.centres[asked.expression]
            sums = part.sums[asked.expression]
            columns.append(answer(asked.kind, sums, values=expression.kind, centre=centre))
        return columns


def _one_empty_group(part: Part) -> Part:
    """Without groups there is one row, even of nothing: a count of zero and a null sum."""
    none = np.zeros(0, np.int64)
    sums: list[Sums] = [each.placed(none, 1) for each in part.sums]
    zero = np.zeros(1, np.int64)
    return Part((), zero, zero, tuple(sums))
