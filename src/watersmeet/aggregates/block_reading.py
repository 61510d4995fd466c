"""A plan that is being carried out: which blocks have been read, and what is known from them.

There is one kind of reading for plans that sample one side and another for those that sample both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.answer.estimate import Estimate, Progress
from watersmeet.aggregates.answer.estimating import estimated, exact_cells, forecasts
from watersmeet.aggregates.answer.ledger import BlockLedger, Ledger, PairLedger
from watersmeet.aggregates.answer.outlook import Outlook
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.aggregates.partials.summing import sample_bytes
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.reading import WorkTime
from watersmeet.aggregates.sampling.engine import BothSidesEngine, Engine, Engines, OneSideEngine
from watersmeet.aggregates.sampling.looks import Look, Looks, LooksAtBothSides, LooksAtOneSide
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.aggregates.sampling.strata import Strata, strata
from watersmeet.aggregates.view.explain import explain
from watersmeet.estimators import OrderCheck, Unread
from watersmeet.estimators.forecast import Forecast
from watersmeet.expressions.bounds import Bounds, bounds_of
from watersmeet.model import JoinType, Side

Found = list[BlockTotals]
Tables = tuple[Table, Table]
EngineKind = TypeVar("EngineKind", bound=Engine)
LedgerKind = TypeVar("LedgerKind", bound=Ledger)


class BlockReading(ABC, Generic[EngineKind, LedgerKind]):
    """What is the same whatever is sampled."""

    def __init__(
        self,
        question: ResolvedQuestion,
        tables: Tables,
        plan: ReadPlan,
        *,
        looks: Looks,
        engine: EngineKind,
        ledger: LedgerKind,
        settings: Settings,
    ) -> None:
        self.question = question
        self.plan = plan
        self.looks = looks
        self.ledger = ledger
        self.engine = engine
        self._tables = tables
        self._settings = settings
        self._work = WorkTime()
        # Whatever the engine is narrowed to later shares what this one holds.
        self.close = engine.close

    # ---- reading ----------------------------------------------------------------------------

    def read(self, look: Look) -> Found:
        with self._work:
            return self.engine.totals(look)

    def take_in(self, look: Look, found: Found) -> None:
        """Count what was read. Should there be too many groups for a sample, totals count still."""
        self.looks.taken(look)
        self._mark(look)
        self.ledger.add(found, sampled=not look.last)

    @abstractmethod
    def _mark(self, look: Look) -> None:
        """Note which blocks are part of the sample from now on."""

    @abstractmethod
    def extremes(self) -> Strata | None:
        """How to divide the rows now, so that those with extreme values are not sampled."""

    @abstractmethod
    def set_apart(self, found: Strata) -> None:
        """Join all rows with extreme values, and begin anew with the rest: its blocks so far."""

    def cancel(self) -> None:
        """End what `read` is doing in another thread."""
        self.engine.cancel()

    # ---- what is known ----------------------------------------------------------------------

    def estimate(self, look: Look, history: Sequence[Estimate]) -> Estimate:
        """After a look."""
        ledger, settings = self.ledger, self._settings
        columns = ledger.answer()
        if look.last:
            cells, unseen = exact_cells(columns), None
        else:
            cells, unseen = estimated(
                self.question,
                ledger,
                settings,
                looks=self.looks.most,
                unread=self._unread(),
                order=self._order(),
            )
        asked = self.question.aggregates
        return Estimate(
            names=tuple(each.name for each in asked.asked),
            group_names=tuple(group.name for group in asked.groups),
            groups=ledger.group_values(),
            cells=cells,
            progress=self._progress(look, history),
            confidence=settings.confidence,
            exact=look.last,
            columns=tuple(columns),
            unseen=unseen,
        )

    def forecasts(self) -> list[Forecast]:
        return forecasts(self.question, self.ledger)

    def bytes_at(self, share: float) -> float:
        """Of both sides, once a share of the sampled one has been read."""
        return self.plan.design.bytes_at(share, self._tables, self.plan)

    def rows_in(self, look: Look) -> int:
        return sum(
            self._tables[side].blocks[block].rows for side in Side for block in look.blocks[side]
        )

    def explain(self, latest: Estimate | None, outlook: Outlook | None, crowded: str) -> str:
        return explain(
            self.question,
            self._tables,
            self.plan,
            looks=self.looks,
            ways=(self.engine.way(Side.LEFT), self.engine.way(Side.RIGHT)),
            latest=latest,
            outlook=outlook,
            crowded=crowded,
        )

    def _unread(self) -> list[Unread]:
        """What files say of the blocks that were not read, for each expression and for counts."""
        sampled = self.plan.sampled
        table = self._tables[sampled]
        left = self.plan.design.unread(self.looks)
        rows = float(max((table.blocks[block].rows for block in left), default=0))
        if not table.counted and len(left):
            # They are of one size, as far as that is known, and the blocks so far have shown it.
            rows = float(self.ledger.block_rows)
        key = table.facts.get(self.question.keys[0][sampled])
        keyed = key is not None and not np.isnan(key.ends[0][left]).any()
        found = []
        for bounds, whole in zip(self.plan.values, self.ledger.bounds, strict=True):
            ends = None
            if bounds is not None and len(left) and not np.isnan(bounds[0][left]).any():
                ends = float(bounds[0][left].min()), float(bounds[1][left].max())
                if whole is not None:
                    ends = max(ends[0], whole[0]), min(ends[1], whole[1])
            found.append(Unread(ends, rows, keyed, self.ledger.partners))
        return [*found, Unread(None, rows, keyed, self.ledger.partners)]

    def _order(self) -> OrderCheck:
        """Whether the blocks read so far can stand for all."""
        if self.plan.objection:
            return OrderCheck(self.plan.objection)
        sampled = self.plan.sampled
        order = np.array(self.plan.orders[sampled], np.int64)
        read = order[: self.looks.done(sampled)]
        strata = np.array(self.plan.strata or (0,) * len(order), np.int64)
        places = []
        for stratum in range(int(strata.max(initial=-1)) + 1):
            members = np.flatnonzero(strata == stratum)
            mine = read[strata[read] == stratum]
            places.append((np.searchsorted(members, mine), len(members)))
        return OrderCheck.tested(*places)

    def _progress(self, look: Look, history: Sequence[Estimate]) -> Progress:
        """Of the sides that are sampled; the other one is read first, or along with them."""
        sampled = [side for side in Side if self.plan.orders[side]]
        rows = sum(self._tables[side].rows for side in sampled)
        before = history[-1].progress.rows_read if history else 0
        read = rows if look.last else before + self.rows_in(look)
        return Progress(
            look=len(history) + 1,
            rows_read=read,
            rows=rows,
            bytes_read=int(self.bytes_at(read / rows if rows else 1.0)),
            nbytes=int(self.bytes_at(1.0)),
            seconds=self._work.seconds,
            counted=all(table.counted for table in self._tables),
        )


class OneSide(BlockReading[OneSideEngine, BlockLedger]):
    """Blocks of one side are drawn, each with all of the other that it can meet."""

    def _mark(self, look: Look) -> None:
        """Of one side the blocks' totals say all there is to know."""

    def extremes(self) -> Strata | None:
        """Once, after the first look, if it has shown such values."""
        taken = self.looks.done(self.plan.sampled)
        if not self._settings.takes_extremes or taken != self.looks.stops[0]:
            return None
        return strata(self.question, self.ledger.tails, sampled=self.plan.sampled)

    def set_apart(self, found: Strata) -> None:
        """All of it or nothing: should reading fail, what is known stays as it was."""
        everything = self.plan.orders[self.plan.sampled]
        so_far = everything[: self.ledger.sample.blocks_read]
        with self._work:
            extremes = self.engine.narrowed(found.extreme).totals(self._look(everything, last=True))
            ledger = self.ledger.without_extremes(extremes)
            engine = self.engine.narrowed(found.rest)
            ledger.add(engine.totals(self._look(so_far, last=False)))
        self.ledger, self.engine = ledger, engine

    def _look(self, blocks: tuple[int, ...], *, last: bool) -> Look:
        left = self.plan.sampled is Side.LEFT
        return Look((blocks, ()) if left else ((), blocks), last)


class BothSides(BlockReading[BothSidesEngine, PairLedger]):
    """Blocks of both sides are drawn, and every pair of them is joined."""

    def _mark(self, look: Look) -> None:
        if look.last:
            return
        for side in Side:
            for block in look.blocks[side]:
                self.ledger.read(side, block, rows=self.engine.rows_of(side, block))

    def extremes(self) -> Strata | None:
        """Never: to join them completely, a side would have to be read as a whole."""
        return None

    def set_apart(self, found: Strata) -> None:
        """Nothing is, as there are no `extremes`."""


AnyReading = OneSide | BothSides


def in_parts(
    readings: Readings, planned: Callable[[int], ReadPlan], how: JoinType
) -> AnyReading | None:
    """A reading that keeps no side in memory; None if the join does not allow it. `planned` makes
    a plan for so many bytes."""
    if how is not JoinType.INNER:
        return None
    plan = planned(0)
    return readings.of(plan) if plan.design.in_parts else None


@dataclass(frozen=True)
class Readings:
    """Makes the reading that a plan's design asks for."""

    question: ResolvedQuestion
    tables: Tables
    engines: Engines
    settings: Settings
    allowance: Allowance | None = None

    def of(self, plan: ReadPlan) -> AnyReading:
        reading: AnyReading = plan.design.make(self, plan)
        if self.allowance is not None:
            room = self.allowance.groups(self.allowance.entries // 2)
            reading.ledger.most_groups = room // sample_bytes(self.question)
        return reading

    def one_side(self, plan: ReadPlan) -> AnyReading:
        table = self.tables[plan.sampled]
        ledger = BlockLedger(
            self.question,
            sampled=plan.sampled,
            blocks=[block.rows if table.counted else None for block in table.blocks],
            strata=plan.strata,
            bounds=self._bounds(),
        )
        return OneSide(
            self.question,
            self.tables,
            plan,
            looks=LooksAtOneSide(plan),
            engine=self.engines.one_side(plan),
            ledger=ledger,
            settings=self.settings,
        )

    def both_sides(self, plan: ReadPlan) -> AnyReading:
        left, right = self.tables
        ledger = PairLedger(
            self.question,
            blocks=(len(left.blocks), len(right.blocks)),
            rows=(left.rows if left.counted else None, right.rows if right.counted else None),
            bounds=self._bounds(),
        )
        return BothSides(
            self.question,
            self.tables,
            plan,
            looks=LooksAtBothSides(plan, lambda: self._better_side(ledger, plan)),
            engine=self.engines.both_sides(plan),
            ledger=ledger,
            settings=self.settings,
        )

    def _better_side(self, ledger: PairLedger, plan: ReadPlan) -> Side:
        """The side of a rectangle whose reading makes intervals narrower sooner."""
        totals = ledger.totals()
        if len(totals.shapes) < 2 or not totals.groups:
            return plan.sampled
        speeds = tuple(len(table.blocks) / max(table.nbytes, 1) for table in self.tables)
        votes = [each.next_side(speeds) for each in forecasts(self.question, ledger)]
        return Side(int(np.median(votes)))

    def _bounds(self) -> list[Bounds | None]:
        extremes = {
            (side, name): ends for side in Side for name, ends in self.tables[side].extremes.items()
        }
        return [bounds_of(each, extremes) for each in self.question.aggregates.expressions]
