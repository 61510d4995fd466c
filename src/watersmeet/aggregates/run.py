"""An aggregate on its way: estimates one after the other, until one is good enough or exact."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from watersmeet.aggregates.allowance import Allowance, SideTooLarge, TooManyGroups
from watersmeet.aggregates.answer.estimate import Estimate, Progress, Unseen
from watersmeet.aggregates.answer.ledger import Ledger, RippleLedger
from watersmeet.aggregates.answer.outlook import Outlook, outlook, pace
from watersmeet.aggregates.answer.score import ScoreCard
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.ask.settings import Goal, Settings, share
from watersmeet.aggregates.partials.summing import sample_bytes
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.sampling.engine import Engine
from watersmeet.aggregates.sampling.looks import Look, Looks
from watersmeet.aggregates.sampling.planner import Design, ReadPlan, Table
from watersmeet.aggregates.sampling.strata import Strata, strata
from watersmeet.aggregates.view.explain import explain
from watersmeet.errors import InvalidArgument, RunClosed, WatersmeetError
from watersmeet.estimators import Cells, OrderCheck, Quantity, Totals, Unread, cells
from watersmeet.estimators.forecast import Forecast
from watersmeet.estimators.unseen import unseen_groups
from watersmeet.expressions.bounds import bounds_of
from watersmeet.model import JoinType, Side


class AggregateRun:
    """An aggregate over a join. Nothing is read before the first estimate is asked for.

    Iterate over it for estimates that get better until the last is exact; stop early with `until`
    or `stop`, go on with `resume`, or finish with `exact`. While an estimate is being looked at,
    the next one is computed.

    Once the answer is exact, iterating again gives it again. After `close` all that is known
    remains; what would have to be read raises RunClosed.
    """

    def __init__(
        self,
        question: ResolvedQuestion,
        tables: tuple[Table, Table],
        plan: ReadPlan,
        *,
        engine: Engine,
        settings: Settings,
        allowance: Allowance | None = None,
        instead: Callable[[], tuple[ReadPlan, Engine]] | None = None,
    ) -> None:
        """`instead` is how to read if the side that should be kept does not fit after all."""
        self._question = question
        self._tables = tables
        self._plan = plan
        self._engine = engine
        self._settings = settings
        self._allowance = allowance
        self._instead = instead
        self._begin(plan)
        self._crowded = ""
        self._ahead: tuple[Look, Future[list[BlockTotals]]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watersmeet-aggregate")
        self._stopped = False
        self._closed = False
        self._working = 0.0
        self.history: list[Estimate] = []
        """All estimates so far, the latest last."""
        # The engine knows nothing of us, so this fires when the caller lets go.
        self._abandoned = weakref.finalize(self, engine.close)

    def _begin(self, plan: ReadPlan) -> None:
        self._plan = plan
        self._looks = Looks(plan)
        self._ledger = _ledger(self._question, self._tables, plan)
        if self._allowance is not None:
            room = self._allowance.groups(self._allowance.entries // 2)
            self._ledger.most_groups = room // sample_bytes(self._question)

    # ---- asking -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Estimate]:
        if not self.complete:
            self._check_open()
        return self._looking()

    def _looking(self) -> Iterator[Estimate]:
        if self.complete:
            yield self.history[-1]
        while not self._stopped and not self.complete:
            estimate = self._next(ahead=True)
            if estimate is None:
                break
            yield estimate
        self._check_finished()

    def until(
        self,
        *,
        relative_error: float | str | None = None,
        seconds: float | None = None,
        fraction: float | None = None,
        otherwise: str = "best",
    ) -> Iterator[Estimate]:
        """Estimates up to the first whose every interval is trusted and narrow enough.

        Parameters
        ----------
        relative_error
            Half the widest interval as a part of its estimate, such as 0.01 or "1%".
        seconds, fraction
            Look no longer than this, and read no larger a part of the sampled side.
        otherwise
            If they are used up first: "best" ends with the best estimate so far, "exact" goes on
            to the exact answer.
        """
        goal = Goal.parse(relative_error, seconds, fraction, otherwise=otherwise)
        if not self.history:
            self._check_open()
        return self._until(goal)

    def _until(self, goal: Goal) -> Iterator[Estimate]:
        if self.history:
            yield self.history[-1]
            if self._reached(goal):
                return
        while not self._stopped and not self.complete:
            if self._used_up(goal):
                if goal.goes_on:
                    yield self.exact()
                return
            estimate = self._next(ahead=False)
            if estimate is None:
                break
            done = self._reached(goal)
            if not done and not self._used_up(goal):
                self._look_ahead()
            yield estimate
            if done:
                return
        self._check_finished()

    def _reached(self, goal: Goal) -> bool:
        wanted = goal.relative_error
        latest = self.history[-1]
        return latest.exact or (wanted is not None and latest.relative_error <= wanted)

    def _used_up(self, goal: Goal) -> bool:
        """Whether the next look would take too long or read too much. The first may."""
        if not self.history:
            return False
        latest = self.history[-1].progress
        look = self._next_look()
        after = (latest.rows_read + self._rows_in(look)) / max(latest.rows, 1)
        if goal.fraction is not None and after > goal.fraction:
            return True
        if goal.seconds is None:
            return False
        return pace(self.history)(self._bytes_at(after)) > goal.seconds

    def exact(self) -> Estimate:
        """The exact answer: all that is left is read in one go."""
        if self.complete:
            return self.history[-1]
        self._check_open()
        self._stopped = False
        while not self.complete:
            try:
                self._advance(ahead=False, rest=True)
            except Exception:
                self._check_finished()  # Whatever it was, it came of being closed.
                raise
        return self.history[-1]

    def stop(self) -> None:
        """Read no further. What is known stays, and `resume` goes on from there.

        Another thread may call it: an iteration that waits for a look ends then.
        """
        self._stopped = True
        ahead, self._ahead = self._ahead, None
        if ahead is None or not ahead[1].cancel():
            self._engine.cancel()
        if ahead is not None:
            wait([ahead[1]])

    def resume(self) -> Self:
        """Allow reading again after `stop`."""
        self._check_open()
        self._stopped = False
        return self

    def close(self) -> None:
        """Stop for good, and give back memory and files. Estimates remain."""
        if self._closed:
            return
        self.stop()
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._abandoned()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- looking ----------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether the latest estimate is exact."""
        return bool(self.history) and self.history[-1].exact

    @property
    def latest(self) -> Estimate:
        """The best estimate so far; the first is made if there is none."""
        return self.history[-1] if self.history else self._advance(ahead=False)

    @property
    def table(self) -> Any:
        """The latest estimate as a pandas DataFrame."""
        return self.latest.table

    def score(self) -> ScoreCard:
        """Which of the intervals that were shown hold the exact answer."""
        if not self.complete:
            raise WatersmeetError(
                "Intervals can be scored once the exact answer is known.",
                remedy="Call exact() first.",
            )
        return ScoreCard.of(self.history)

    def outlook(self, relative_error: float | str = 0.01) -> Outlook:
        """How long it takes until every interval is so narrow, and to the exact answer.

        The first estimate is made if there is none.
        """
        wanted = share(relative_error, "relative_error")
        if wanted is None:
            raise InvalidArgument(
                "relative_error=None is no part of a whole.", remedy='Give for example "1%".'
            )
        groups = max(self.latest.cells.value.shape[1], 1)
        statements = groups * len(self.latest.names) if self._settings.simultaneous else 1
        looks = self._looks.most if self._settings.every_look else 1
        return outlook(
            self.history,
            [] if self.complete else self._forecasts(),
            relative_error=wanted,
            confidence=1 - (1 - self._settings.confidence) / (statements * looks),
            share_at=self._looks.share_at,
            bytes_at=self._bytes_at,
        )

    def explain(self) -> str:
        """In words: the question, how it is read and why, and the forecast once there is one."""
        return explain(
            self._question,
            self._tables,
            self._plan,
            looks=self._looks,
            ways=(self._engine.way(Side.LEFT), self._engine.way(Side.RIGHT)),
            latest=self.history[-1] if self.history else None,
            outlook=self.outlook() if self.history else None,
            crowded=self._crowded,
        )

    def plot(self, path: str | Path | None = None, *, groups: int = 6) -> Any:
        """Draw how the intervals shrank: a matplotlib figure, also written to `path` if given."""
        from watersmeet.aggregates.view.plot import plot

        return plot(self.history or [self.latest], path=path, groups=groups)

    # ---- working ----------------------------------------------------------------------------

    def _next_look(self) -> Look:
        return self._ahead[0] if self._ahead is not None else self._looks.next(self._better_side)

    def _better_side(self) -> Side:
        """The side of a rectangle whose reading makes intervals narrower sooner."""
        totals = self._ledger.totals()
        if len(totals.shapes) < 2 or not totals.groups:
            return self._plan.sampled
        speeds = tuple(len(table.blocks) / max(table.nbytes, 1) for table in self._tables)
        votes = [forecast.next_side(speeds) for forecast in self._forecasts()]
        return Side(int(np.median(votes)))

    def _forecasts(self) -> list[Forecast]:
        totals = self._ledger.totals()
        if not totals.groups:
            return []
        return [
            Forecast.of(totals, quantity, centre=self._centre(quantity))
            for quantity in self._question.quantities
        ]

    def _centre(self, quantity: Quantity) -> float:
        centres = self._ledger.centres
        return 0.0 if quantity.expression is None or not centres else centres[quantity.expression]

    def _rows_in(self, look: Look) -> int:
        return sum(
            self._tables[side].blocks[block].rows for side in Side for block in look.blocks[side]
        )

    def _look_ahead(self) -> None:
        # Setting extremes apart changes what the next look reads, and comes first.
        if self._ahead is None and not self._stopped and self._strata() is None:
            look = self._looks.next(self._better_side)
            self._ahead = look, self._thread.submit(self._read, look)

    def _read(self, look: Look) -> list[BlockTotals]:
        began = time.monotonic()
        found = list(self._engine.totals(look))
        self._working += time.monotonic() - began
        return found

    def _next(self, *, ahead: bool) -> Estimate | None:
        """The next estimate, or None if reading was stopped meanwhile."""
        try:
            return self._advance(ahead=ahead)
        except Exception:
            if self._stopped:
                return None
            raise

    def _advance(self, *, ahead: bool, rest: bool = False) -> Estimate:
        """Make the next estimate; `rest` takes all that is left."""
        self._check_open()
        try:
            look, found = self._found(rest=rest)
        except SideTooLarge as error:
            if self.history or self._instead is None or self._question.how is not JoinType.INNER:
                raise
            self._read_instead(error)
            look, found = self._found(rest=rest)
        except TooManyGroups as error:
            look, found = self._all_that_is_left(error)
        try:
            self._take_in(look, found)
        except TooManyGroups as error:
            look, found = self._all_that_is_left(error)
            self._take_in(look, found)
        del found
        estimate = self._estimate(look)
        self.history.append(estimate)
        if ahead and not look.last:
            self._look_ahead()
        return estimate

    def _found(self, *, rest: bool) -> tuple[Look, list[BlockTotals]]:
        waiting, self._ahead = self._ahead, None
        if waiting is not None:
            return waiting[0], waiting[1].result()
        look = self._looks.rest() if rest else self._looks.next(self._better_side)
        if not look.last:
            self._set_apart()
        return look, self._read(look)

    def _take_in(self, look: Look, found: list[BlockTotals]) -> None:
        self._looks.taken(look)
        if isinstance(self._ledger, RippleLedger) and not look.last:
            for side in Side:
                for block in look.blocks[side]:
                    self._ledger.read(side, block, rows=self._engine.rows_of(side, block))
        self._ledger.add(found, sampled=not look.last)

    def _all_that_is_left(self, error: TooManyGroups) -> tuple[Look, list[BlockTotals]]:
        """Intervals of so many groups do not fit in memory; their totals alone may."""
        look = self._looks.rest()
        if self._crowded:
            raise error
        self._crowded = f"{error.cause} Their intervals do not fit, only their totals."
        return look, self._read(look)

    def _read_instead(self, error: SideTooLarge) -> None:
        assert self._instead is not None
        self._engine.close()
        plan, self._engine = self._instead()
        if plan.design is not Design.RIPPLE:
            raise error
        self._abandoned.detach()
        self._abandoned = weakref.finalize(self, self._engine.close)
        self._begin(plan)

    def _strata(self) -> Strata | None:
        """Set after the first look, if it has shown extreme values that should not be sampled."""
        if not self._settings.takes_extremes or len(self.history) != 1:
            return None
        if self._plan.design is Design.RIPPLE:
            return None
        return strata(self._question, self._ledger.tails, sampled=self._plan.sampled)

    def _set_apart(self) -> None:
        """Join all rows with extreme values, and begin anew with the rest: its blocks so far.

        All of it or nothing: should reading fail, what is known stays as it was.
        """
        found = self._strata()
        if found is None:
            return
        began = time.monotonic()
        sampled = self._plan.sampled
        everything = self._plan.orders[sampled]
        so_far = everything[: self._ledger.sample.blocks_read]
        extremes = self._engine.narrowed(found.extreme).totals(
            _look(sampled, everything, last=True)
        )
        ledger = self._ledger.without_extremes(list(extremes))
        engine = self._engine.narrowed(found.rest)
        ledger.add(engine.totals(_look(sampled, so_far, last=False)))
        self._ledger, self._engine = ledger, engine
        self._working += time.monotonic() - began

    def _estimate(self, look: Look) -> Estimate:
        question, ledger, settings = self._question, self._ledger, self._settings
        columns = ledger.answer()
        if look.last:
            found = _exact_cells(columns)
            unseen = None
        else:
            groups = max(ledger.groups, 1)
            totals = ledger.totals().padded(groups)
            unread = self._unread()
            for tail, known in zip(ledger.tails, unread, strict=False):
                tail.bounds = known.bounds
            found = cells(
                totals,
                ledger.evidence,
                question.quantities,
                centres=ledger.centres or [0.0] * len(question.aggregates.expressions),
                confidence=settings.confidence,
                statements=groups * len(columns) if settings.simultaneous else 1,
                looks=self._looks.most if settings.every_look else 1,
                tails=ledger.tails or None,
                bounds=ledger.bounds,
                unread=unread,
                layout=self._layout(),
            )
            unseen = self._unseen(totals)
        return Estimate(
            names=tuple(asked.name for asked in question.aggregates.asked),
            group_names=tuple(group.name for group in question.aggregates.groups),
            groups=ledger.group_values(),
            cells=found,
            progress=self._progress(look),
            confidence=settings.confidence,
            exact=look.last,
            columns=tuple(columns),
            unseen=unseen,
        )

    def _unread(self) -> list[Unread]:
        """What files say of the blocks that were not read, for each expression and for counts."""
        sampled = self._plan.sampled
        table = self._tables[sampled]
        left = np.array(self._plan.orders[sampled][self._looks.done(sampled) :], np.int64)
        if self._plan.design is Design.RIPPLE:
            # A row that was read meets more and more rows of the other side.
            left = np.arange(len(table.blocks))
        rows = float(max((table.blocks[block].rows for block in left), default=0))
        key = table.facts.get(self._question.keys[0][sampled])
        keyed = key is not None and not np.isnan(key.ends[0][left]).any()
        found = []
        for bounds, whole in zip(self._plan.values, self._ledger.bounds, strict=True):
            ends = None
            if bounds is not None and len(left) and not np.isnan(bounds[0][left]).any():
                ends = float(bounds[0][left].min()), float(bounds[1][left].max())
                if whole is not None:
                    ends = max(ends[0], whole[0]), min(ends[1], whole[1])
            found.append(Unread(ends, rows, keyed, self._ledger.partners))
        return [*found, Unread(None, rows, keyed, self._ledger.partners)]

    def _layout(self) -> OrderCheck:
        """Whether the blocks read so far can stand for all."""
        if self._plan.objection:
            return OrderCheck(self._plan.objection)
        sampled = self._plan.sampled
        order = np.array(self._plan.orders[sampled], np.int64)
        read = order[: self._looks.done(sampled)]
        strata = np.array(self._plan.strata or (0,) * len(order), np.int64)
        places = []
        for stratum in range(int(strata.max(initial=-1)) + 1):
            members = np.flatnonzero(strata == stratum)
            mine = read[strata[read] == stratum]
            places.append((np.searchsorted(members, mine), len(members)))
        return OrderCheck.tested(*places)

    def _progress(self, look: Look) -> Progress:
        """Of the sides that are sampled; the other one is read first, or along with them."""
        sampled = [side for side in Side if self._plan.orders[side]]
        rows = sum(self._tables[side].rows for side in sampled)
        before = self.history[-1].progress.rows_read if self.history else 0
        read = rows if look.last else before + self._rows_in(look)
        return Progress(
            look=len(self.history) + 1,
            rows_read=read,
            rows=rows,
            bytes_read=int(self._bytes_at(read / rows if rows else 1.0)),
            nbytes=int(self._bytes_at(1.0)),
            seconds=self._working,
            counted=all(table.counted for table in self._tables),
        )

    def _bytes_at(self, share: float) -> float:
        """Of both sides, once a share of the sampled one has been read."""
        sampled, other = self._tables[self._plan.sampled], self._tables[self._plan.other]
        first = self._plan.design is Design.COMPLETE
        return share * sampled.nbytes + (1.0 if first else share) * other.nbytes

    def _unseen(self, totals: Totals) -> Unseen | None:
        if not self._question.aggregates.groups or totals.contributing is None:
            return None
        # By blocks: one brings many rows of a group at once.
        share, most = unseen_groups(totals.contributing, fraction=totals.fraction)
        return Unseen(share, most)

    def _check_finished(self) -> None:
        """An iteration that ends because the run was closed must not look like one that is over."""
        if not self.complete:
            self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise RunClosed(
                "This run was closed before its answer was exact.",
                remedy="Call aggregate again; the estimates in `history` remain usable.",
            )

    def __repr__(self) -> str:
        known = repr(self.history[-1]) if self.history else "nothing read yet"
        return f"<{type(self).__name__}: {known}{'; closed' if self._closed else ''}>"


def _ledger(question: ResolvedQuestion, tables: tuple[Table, Table], plan: ReadPlan) -> Ledger:
    extremes = {(side, name): ends for side in Side for name, ends in tables[side].extremes.items()}
    bounds = [bounds_of(each, extremes) for each in question.aggregates.expressions]
    rows = [table.rows if table.counted else None for table in tables]
    blocks = [len(table.blocks) for table in tables]
    if plan.design is Design.RIPPLE:
        return RippleLedger(
            question,
            sampled=plan.sampled,
            blocks=(blocks[0], blocks[1]),
            rows=(rows[0], rows[1]),
            bounds=bounds,
        )
    return Ledger(
        question,
        sampled=plan.sampled,
        blocks=[
            block.rows if tables[plan.sampled].counted else None
            for block in tables[plan.sampled].blocks
        ],
        strata=plan.strata,
        bounds=bounds,
    )


def _look(side: Side, blocks: tuple[int, ...], *, last: bool) -> Look:
    return Look((blocks, ()) if side is Side.LEFT else ((), blocks), last)


def _exact_cells(columns: Iterable[Any]) -> Cells:
    values = np.array([_floats(column) for column in columns], np.float64)
    yes = np.ones(values.shape, np.bool_)
    still = np.where(np.isnan(values), np.nan, 0.0)
    return Cells(values, values, values, still, yes, yes, np.full(values.shape, "", object))


def _floats(column: Any) -> Any:
    """Nulls as NaN. Of decimals the nearest float, but for its last digit."""
    floats = column.cast(pa.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False)
